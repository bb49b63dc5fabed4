#include "tools/tune/candidate.h"

#include <array>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"

namespace tidewheel {

std::span<const Knob> AllKnobs() {
  static constexpr std::array<Knob, 8> kKnobs = {Knob::kChips,
                                                 Knob::kPageSize,
                                                 Knob::kTotalNumPages,
                                                 Knob::kMaxNumSeqs,
                                                 Knob::kMaxNumBatchedTokens,
                                                 Knob::kAdmission,
                                                 Knob::kWatermarkPages,
                                                 Knob::kPolicy};
  return kKnobs;
}

absl::string_view KnobName(Knob knob) {
  switch (knob) {
    case Knob::kChips:
      return "chips";
    case Knob::kPageSize:
      return "page_size";
    case Knob::kTotalNumPages:
      return "total_num_pages";
    case Knob::kMaxNumSeqs:
      return "max_num_seqs";
    case Knob::kMaxNumBatchedTokens:
      return "max_num_batched_tokens";
    case Knob::kAdmission:
      return "admission";
    case Knob::kWatermarkPages:
      return "watermark_pages";
    case Knob::kPolicy:
      return "policy";
  }
  TIDEWHEEL_CHECK(false);
}

int64_t KnobValue(const Candidate& candidate, Knob knob) {
  switch (knob) {
    case Knob::kChips:
      return candidate.chips;
    case Knob::kPageSize:
      return candidate.page_size;
    case Knob::kTotalNumPages:
      return candidate.total_num_pages;
    case Knob::kMaxNumSeqs:
      return candidate.max_num_seqs;
    case Knob::kMaxNumBatchedTokens:
      return candidate.max_num_batched_tokens;
    case Knob::kAdmission:
      return static_cast<int64_t>(candidate.admission);
    case Knob::kWatermarkPages:
      return candidate.watermark_pages;
    case Knob::kPolicy:
      return static_cast<int64_t>(candidate.policy);
  }
  TIDEWHEEL_CHECK(false);
}

std::string KnobText(const Candidate& candidate, Knob knob) {
  if (knob == Knob::kAdmission) {
    return std::string(AdmissionPolicyName(candidate.admission));
  }
  if (knob == Knob::kPolicy) {
    return std::string(OrderingPolicyName(candidate.policy));
  }
  return absl::StrCat(KnobValue(candidate, knob));
}

std::string CandidateText(const Candidate& candidate) {
  std::string text = absl::StrCat(
      candidate.total_num_pages, " pages x ", candidate.page_size, ", ",
      candidate.max_num_seqs, " seqs, ", candidate.max_num_batched_tokens,
      " tokens, ", KnobText(candidate, Knob::kAdmission));
  if (candidate.admission == AdmissionPolicy::kOptimistic) {
    absl::StrAppend(&text, " ", candidate.watermark_pages);
  }
  if (candidate.policy != OrderingPolicy::kFcfs) {
    absl::StrAppend(&text, ", ", KnobText(candidate, Knob::kPolicy));
  }
  if (candidate.chips > 1) {
    absl::StrAppend(&text, ", ", candidate.chips, " chips");
  }
  return text;
}

Candidate WithPages(const Candidate& candidate, int64_t total_num_pages) {
  Candidate changed = candidate;
  changed.total_num_pages = total_num_pages;
  const int64_t usable = candidate.total_num_pages - 1;
  TIDEWHEEL_CHECK(usable > 0 && total_num_pages > 1);
  // Rounded to nearest, so that a pool and back is the same candidate.
  changed.watermark_pages = static_cast<int32_t>(
      (2 * int64_t{candidate.watermark_pages} * (total_num_pages - 1) +
       usable) /
      (2 * usable));
  return changed;
}

ServingOptions ServingOf(const Candidate& candidate,
                         const ServingOptions& base) {
  ServingOptions serving = base;
  serving.plan.chips = candidate.chips;
  serving.plan.page_size = candidate.page_size;
  serving.plan.total_num_pages = candidate.total_num_pages;
  serving.plan.max_num_seqs = candidate.max_num_seqs;
  serving.plan.max_num_batched_tokens = candidate.max_num_batched_tokens;
  serving.scheduler.admission = candidate.admission;
  serving.scheduler.policy = candidate.policy;
  // The fraction that PrepareServing turns back into exactly these pages.
  const double usable = static_cast<double>(candidate.total_num_pages - 1);
  serving.watermark = (candidate.watermark_pages + 0.5) / usable;
  return serving;
}

bool IsCheaper(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) {
    return std::make_tuple(c.chips, c.total_num_pages * c.page_size,
                           c.max_num_seqs, c.max_num_batched_tokens,
                           -c.page_size,
                           c.admission == AdmissionPolicy::kOptimistic ? 0 : 1,
                           c.watermark_pages, static_cast<int>(c.policy));
  };
  return key(a) < key(b);
}

}  // namespace tidewheel
