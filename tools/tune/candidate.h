// Candidate: one choice of everything that `tidewheel tune` may choose.
//
// All values are concrete: a space's fractions of memory have become pages
// here, so that two candidates can be compared and a configuration can be
// written down. What a server has besides (model, chip, types, max_model_len)
// is the same for all candidates of a search.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_TOOLS_TUNE_CANDIDATE_H_
#define TIDEWHEEL_TOOLS_TUNE_CANDIDATE_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "scheduler/scheduler_options.h"
#include "tools/serving_setup.h"

namespace tidewheel {

struct Candidate {
  int32_t chips = 1;            // that share one copy of the model
  int32_t page_size = 16;       // tokens
  int64_t total_num_pages = 0;  // the null page included
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  AdmissionPolicy admission = AdmissionPolicy::kOptimistic;
  int32_t watermark_pages = 0;  // 0 where admission reserves
  OrderingPolicy policy = OrderingPolicy::kFcfs;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

enum class Knob {
  kChips,
  kPageSize,
  kTotalNumPages,
  kMaxNumSeqs,
  kMaxNumBatchedTokens,
  kAdmission,
  kWatermarkPages,
  kPolicy,
};

// Every knob, in the order of the enum.
std::span<const Knob> AllKnobs();
// As in files and results: "chips", "page_size", "total_num_pages", ...
absl::string_view KnobName(Knob knob);
// "1024", "optimistic".
std::string KnobText(const Candidate& candidate, Knob knob);
// A number that orders a knob's values; enums by their order.
int64_t KnobValue(const Candidate& candidate, Knob knob);

// "32 x 3503 pages, 128 seqs, 2048 tokens, optimistic 35": one short line.
std::string CandidateText(const Candidate& candidate);

// The candidate with another pool; its watermark stays the same share of it.
Candidate WithPages(const Candidate& candidate, int64_t total_num_pages);

// `base` with the candidate's values in place of its own.
ServingOptions ServingOf(const Candidate& candidate,
                         const ServingOptions& base);

// Whether `a` is to be preferred where nothing else tells two candidates
// apart: fewer chips, then fewer tokens of KV, fewer rows, a smaller token
// budget, larger pages (a smaller table), optimistic admission, the smaller
// watermark, the first policy. A strict total order.
bool IsCheaper(const Candidate& a, const Candidate& b);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_CANDIDATE_H_
