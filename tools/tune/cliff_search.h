// CliffSearch: how far a pool is from the edge of its plateau.
//
// With pages enough, the promised percentile of strain does not depend on how
// many there are: the plateau. It is measured with the first pool, doubling
// from the one in question, to which a further doubling adds less than 1 %, be
// there a chip with such memory or not. A smaller pool is *on the plateau*
// where its strain is at most (1 + tolerance) times that; the tolerance is 10
// %, or the half width of the plateau's own interval where that is more, since
// less can not be told from noise. The cliff's edge is the smallest pool on the
// plateau beside one that is not, found by bisection down to neighbouring
// numbers of pages.
//
// The watermark keeps its share of the pool.

#ifndef TIDEWHEEL_TOOLS_TUNE_CLIFF_SEARCH_H_
#define TIDEWHEEL_TOOLS_TUNE_CLIFF_SEARCH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tools/tune/candidate.h"
#include "tools/tune/candidate_evaluator.h"
#include "tools/tune/candidate_search.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

struct CliffOptions {
  double request_rate = 0;
  int64_t requests = 0;  // 0: all
  int32_t replications = 1;
  int64_t bytes_per_page = 0;
  IntervalOptions intervals;
  double least_tolerance = 0.1;
};

// For `candidate` at a rate. Errors: those of CandidateEvaluator::Run;
// Cancelled.
absl::StatusOr<Cliff> FindCliff(const CandidateEvaluator& evaluator,
                                const Candidate& candidate,
                                const CliffOptions& options,
                                const StopCheck& stop);

// Where the recommended pool stands, without a full stop: "you are 312 pages,
// 1.90 GiB on each device, 4.1 % from the edge".
std::string CliffMarginText(const Cliff& cliff);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_CLIFF_SEARCH_H_
