// SearchProgress: how much of a search is done, in simulated requests.
//
// How many loads a candidate needs is known only afterwards. Each stage is
// guessed before it begins, and scaled up from its finished tasks while it
// runs, so that the estimate is right at the end of each stage.
//
// Thread-safety: EndTask may be called from several threads.

#ifndef TIDEWHEEL_TOOLS_TUNE_SEARCH_PROGRESS_H_
#define TIDEWHEEL_TOOLS_TUNE_SEARCH_PROGRESS_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "tools/tune/candidate_evaluator.h"
#include "tools/tune/candidate_search.h"
#include "tools/tune/tune_options.h"

namespace tidewheel {

class SearchProgress {
 public:
  // REQUIRES: both outlive it.
  SearchProgress(const TuneOptions& options,
                 const CandidateEvaluator& evaluator)
      : options_(options), evaluator_(evaluator) {}

  // The stages: the rungs, and the study of the recommended candidate.
  void Plan(const std::vector<SearchRung>& rungs, int64_t candidates);
  // The next stage begins, with so many tasks.
  void Begin(int64_t tasks);
  void EndTask();

 private:
  const TuneOptions& options_;
  const CandidateEvaluator& evaluator_;
  std::mutex mutex_;
  std::vector<double> later_;  // requests of stages to come, the next last
  int64_t stage_start_ = 0;    // simulated requests
  double stage_guess_ = 0;
  int64_t tasks_ = 0;
  int64_t ended_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_SEARCH_PROGRESS_H_
