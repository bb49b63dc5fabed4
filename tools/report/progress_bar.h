// ProgressBar: one line on a terminal while a simulation runs.
//
// It appears only after a second, is drawn again at most ten times a second,
// and removes itself at the end. It reads no clock: the caller says how much
// time has passed.

#ifndef TIDEWHEEL_TOOLS_REPORT_PROGRESS_BAR_H_
#define TIDEWHEEL_TOOLS_REPORT_PROGRESS_BAR_H_

#include <cstdio>
#include <string>

#include "tools/simulation.h"

namespace tidewheel {

// "[##########----------]  51 %  9,876 of 19,366 requests  4 s left".
std::string ProgressLine(const SimulationProgress& progress,
                         double elapsed_seconds);

class ProgressBar {
 public:
  // `terminal` outlives the bar.
  explicit ProgressBar(std::FILE* terminal) : terminal_(terminal) {}

  void Update(const SimulationProgress& progress, double elapsed_seconds);
  // Removes the line, if it was drawn.
  void Clear();

 private:
  std::FILE* terminal_;
  double next_draw_seconds_ = 1;
  bool is_drawn_ = false;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_PROGRESS_BAR_H_
