// RunSeries: what a run did over time, in at most kMaxBins equal spans.
//
// A run may have a hundred steps or millions. Steps are added up in spans whose
// width doubles when there would be too many, so that memory is bounded and
// nothing is dropped. A step that lies in several spans counts in each by its
// share of the time.
//
// Single-threaded. A step is O(spans that it touches).

#ifndef TIDEWHEEL_TOOLS_REPORT_RUN_SERIES_H_
#define TIDEWHEEL_TOOLS_REPORT_RUN_SERIES_H_

#include <cstdint>
#include <vector>

#include "tools/simulation.h"

namespace tidewheel {

class RunSeries {
 public:
  static constexpr size_t kMaxBins = 240;

  // Sums over its span. The *_us are values times microseconds.
  struct Bin {
    double covered_us = 0;  // less than the width in the last one alone
    double generated_tokens = 0;
    double computed_tokens = 0;  // query tokens
    double running_us = 0;
    double waiting_us = 0;
    double lent_us = 0;
    double cached_us = 0;
    double free_us = 0;
    double preemptions = 0;

    void Add(const Bin& other, double share);
  };

  void OnStep(const StepRecord& step);
  void OnIdle(const IdleRecord& idle);

  double width_us() const { return width_us_; }
  const std::vector<Bin>& bins() const { return bins_; }

 private:
  void AddSpan(double start_us, double end_us, const Bin& sums);

  double width_us_ = 1000;
  std::vector<Bin> bins_;
  int64_t preemptions_ = 0;  // so far
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_RUN_SERIES_H_
