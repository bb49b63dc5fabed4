// SearchSpace: the values that each knob may take.
//
// Of memory it may say pages, a fraction of a chip's HBM (from which pages
// follow for each page size), or shares of the pages that fit; of the
// watermark pages or a fraction. ListCandidates makes concrete candidates of
// all combinations, without those that the TPU refuses.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_TOOLS_TUNE_SEARCH_SPACE_H_
#define TIDEWHEEL_TOOLS_TUNE_SEARCH_SPACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/serving_setup.h"
#include "tools/tune/candidate.h"
#include "tools/tune/traffic.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

// An empty list leaves a knob at the server's value.
struct SearchSpace {
  std::vector<int32_t> chips;
  std::vector<int32_t> page_size;
  // At most one of these three has values.
  std::vector<int64_t> total_num_pages;
  std::vector<double> hbm_utilization;  // in (0, 1]
  std::vector<double> pool_share;       // in (0, 1], of the pages that fit
  std::vector<int32_t> max_num_seqs;
  std::vector<int32_t> max_num_batched_tokens;
  std::vector<AdmissionPolicy> admission;
  // At most one of these two.
  std::vector<int64_t> watermark_pages;
  std::vector<double> watermark;  // in [0, 1), of the usable pages
  std::vector<OrderingPolicy> policy;

  // Combinations before any is left out.
  int64_t size() const;
};

struct CandidateList {
  std::vector<Candidate> candidates;  // no two alike
  std::vector<Exclusion> exclusions;  // by rule
};

// More combinations than this are an error.
inline constexpr int64_t kMostCandidates = 20'000;

// What can be said from model, chip and traffic alone:
//   page_size               16 to 64 tokens
//   pages                   all, three quarters and half of those that fit
//   max_num_seqs            powers of two about the requests of mean length
//                           that the pool holds at once
//   max_num_batched_tokens  512 to 4096
//   admission               reserve, and optimistic with 1 % and 5 % to grow
//   chips                   for the fewest chips: 1, 2, 4 and 8
// Errors: those of PrepareServing, where the model does not fit at all.
absl::StatusOr<SearchSpace> DefaultSpace(const ServingOptions& serving,
                                         const Traffic& traffic,
                                         TuneObjective objective);

// The space's combinations as candidates, in the order of the lists. Each is
// asked of every rule of the TPU (tools/config_check.h) and of the chip's
// memory, and left out under the first that it breaks.
// For the fewest pages only the largest pool of each combination stays: how
// many of its pages are needed is what is searched for.
//
// Errors: InvalidArgument for a space of too many combinations, or where
// nothing is left (names every rule with its count).
absl::StatusOr<CandidateList> ListCandidates(const SearchSpace& space,
                                             const ServingOptions& serving,
                                             TuneObjective objective);

// Why the TPU or the chip's memory refuses `candidate`; nothing if it does
// not.
std::optional<Exclusion> RefusalOfCandidate(const Candidate& candidate,
                                            const ServingOptions& serving,
                                            const ModelConfig& model);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_SEARCH_SPACE_H_
