#include "tools/tune/search_space.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "attention/tpu_generation.h"
#include "tools/config_check.h"
#include "tools/server_plan.h"

namespace tidewheel {
namespace {

template <typename T>
int64_t Count(const std::vector<T>& values) {
  return std::max<int64_t>(1, static_cast<int64_t>(values.size()));
}

// One combination of a space's values; absent where a list is empty.
struct Choice {
  std::optional<int32_t> chips;
  std::optional<int32_t> page_size;
  std::optional<int64_t> total_num_pages;
  std::optional<double> hbm_utilization;
  std::optional<double> pool_share;
  std::optional<int32_t> max_num_seqs;
  std::optional<int32_t> max_num_batched_tokens;
  std::optional<AdmissionPolicy> admission;
  std::optional<int64_t> watermark_pages;
  std::optional<double> watermark;
  std::optional<OrderingPolicy> policy;
};

// Combination `index` in [0, size()); the last list turns fastest.
Choice ChoiceAt(const SearchSpace& space, int64_t index) {
  Choice choice;
  const auto take = [&index](const auto& values, auto& value) {
    if (values.empty()) return;
    const int64_t count = static_cast<int64_t>(values.size());
    value = values[static_cast<size_t>(index % count)];
    index /= count;
  };
  take(space.policy, choice.policy);
  take(space.watermark, choice.watermark);
  take(space.watermark_pages, choice.watermark_pages);
  take(space.admission, choice.admission);
  take(space.max_num_batched_tokens, choice.max_num_batched_tokens);
  take(space.max_num_seqs, choice.max_num_seqs);
  take(space.pool_share, choice.pool_share);
  take(space.hbm_utilization, choice.hbm_utilization);
  take(space.total_num_pages, choice.total_num_pages);
  take(space.page_size, choice.page_size);
  take(space.chips, choice.chips);
  return choice;
}

// Makes concrete candidates of choices, or says which rule is in the way.
class CandidateMaker {
 public:
  CandidateMaker(const ServingOptions& serving, const ModelConfig& model,
                 const TpuChip& chip)
      : serving_(serving), model_(model), chip_(chip) {}

  // Nothing where a rule is broken; then `refusal` says which.
  std::optional<Candidate> Make(const Choice& choice, Exclusion& refusal) const;
  std::optional<Exclusion> Refusal(const Candidate& candidate) const;

 private:
  ServerPlanOptions PlanOptions(const Candidate& candidate) const;
  std::optional<Exclusion> CheckRules(const Candidate& candidate,
                                      std::optional<int64_t> pages) const;

  const ServingOptions& serving_;
  const ModelConfig& model_;
  const TpuChip& chip_;
};

Exclusion Refused(absl::string_view rule, absl::string_view text) {
  return {.rule = std::string(rule), .count = 1, .example = std::string(text)};
}

Exclusion PlanRefusal(const absl::Status& status) {
  const bool memory = status.code() == absl::StatusCode::kResourceExhausted;
  return Refused(memory ? "oom_hbm" : "no-such-layout", status.message());
}

ServerPlanOptions CandidateMaker::PlanOptions(
    const Candidate& candidate) const {
  ServerPlanOptions options = serving_.plan;
  options.chip = chip_;
  options.chips = candidate.chips;
  options.page_size = candidate.page_size;
  options.total_num_pages.reset();
  options.max_num_seqs = candidate.max_num_seqs;
  options.max_num_batched_tokens = candidate.max_num_batched_tokens;
  options.smem_bytes.reset();  // CheckRules names that rule
  return options;
}

std::optional<Exclusion> CandidateMaker::CheckRules(
    const Candidate& candidate, std::optional<int64_t> pages) const {
  const ModelShape::Options& model = model_.shape.options();
  ConfigurationShape shape;
  const absl::StatusOr<TpuGeneration> generation =
      ParseTpuGeneration(serving_.chip);
  if (!generation.ok()) {
    return Refused("unknown-chip", generation.status().message());
  }
  shape.generation = *generation;
  shape.chips = candidate.chips * chip_.devices;
  shape.num_q_heads = model.num_heads;
  shape.num_kv_heads = model.num_kv_heads;
  shape.head_dim = model.head_dim;
  shape.kv_dtype = serving_.plan.kv_dtype;
  shape.max_num_seqs = candidate.max_num_seqs;
  shape.page_size = candidate.page_size;
  shape.max_model_len =
      serving_.plan.max_model_len.value_or(model.max_position_embeddings);
  shape.max_num_batched_tokens = candidate.max_num_batched_tokens;
  shape.num_pages = pages;
  for (const Finding& finding : CheckConfiguration(shape)) {
    const bool is_smem = finding.name == "max-num-seqs-above-table-rows";
    if (is_smem && !serving_.plan.smem_bytes.has_value()) continue;
    // A step that can not decode every row works, but no candidate needs it.
    if (finding.severity == Finding::Severity::kError ||
        finding.name == "budget-below-rows") {
      return Refused(finding.name, finding.text);
    }
  }
  return std::nullopt;
}

std::optional<Exclusion> CandidateMaker::Refusal(
    const Candidate& candidate) const {
  if (std::optional<Exclusion> refusal = CheckRules(candidate, std::nullopt)) {
    return refusal;
  }
  ServerPlanOptions options = PlanOptions(candidate);
  options.total_num_pages = candidate.total_num_pages;
  const absl::StatusOr<ServerPlan> plan = PlanServer(model_.shape, options);
  if (!plan.ok()) return PlanRefusal(plan.status());
  if (candidate.watermark_pages >= candidate.total_num_pages - 1) {
    return Refused(
        "watermark-above-pool",
        absl::StrCat("watermark_pages ", candidate.watermark_pages,
                     " leaves none of ", candidate.total_num_pages - 1,
                     " usable pages to admit with; lower it"));
  }
  return CheckRules(candidate, candidate.total_num_pages);
}

std::optional<Candidate> CandidateMaker::Make(const Choice& choice,
                                              Exclusion& refusal) const {
  const ServerPlanOptions& own = serving_.plan;
  Candidate candidate;
  candidate.chips = choice.chips.value_or(own.chips);
  candidate.max_num_seqs = choice.max_num_seqs.value_or(own.max_num_seqs);
  candidate.max_num_batched_tokens =
      choice.max_num_batched_tokens.value_or(own.max_num_batched_tokens);
  candidate.policy = choice.policy.value_or(serving_.scheduler.policy);
  candidate.admission = choice.admission.value_or(serving_.scheduler.admission);
  ServerPlanOptions options = PlanOptions(candidate);
  options.page_size =
      choice.page_size.has_value() ? choice.page_size : own.page_size;
  if (choice.hbm_utilization.has_value()) {
    options.hbm_utilization = *choice.hbm_utilization;
  }
  if (options.page_size.has_value()) {
    candidate.page_size = *options.page_size;
    if (auto rule = CheckRules(candidate, std::nullopt)) {
      refusal = *std::move(rule);
      return std::nullopt;
    }
  } else {
    options.smem_bytes = own.smem_bytes;  // the smallest that fits
  }
  const std::optional<int64_t> pages = choice.total_num_pages.has_value()
                                           ? choice.total_num_pages
                                           : own.total_num_pages;
  const bool derives_pages =
      choice.hbm_utilization.has_value() || choice.pool_share.has_value();
  if (!derives_pages) options.total_num_pages = pages;
  const absl::StatusOr<ServerPlan> plan = PlanServer(model_.shape, options);
  if (!plan.ok()) {
    refusal = PlanRefusal(plan.status());
    return std::nullopt;
  }
  candidate.page_size = plan->page_size;
  candidate.total_num_pages = plan->capacity.total_num_pages;
  if (choice.pool_share.has_value()) {
    candidate.total_num_pages = std::max<int64_t>(
        2, std::llround(*choice.pool_share *
                        static_cast<double>(candidate.total_num_pages)));
  }
  if (candidate.admission == AdmissionPolicy::kOptimistic) {
    const double fraction = choice.watermark.value_or(serving_.watermark);
    const int64_t watermark =
        choice.watermark_pages.value_or(static_cast<int64_t>(
            fraction * static_cast<double>(candidate.total_num_pages - 1)));
    candidate.watermark_pages = static_cast<int32_t>(watermark);
  }
  if (auto rule = Refusal(candidate)) {
    refusal = *std::move(rule);
    return std::nullopt;
  }
  return candidate;
}

template <typename T>
void KeepLargest(std::vector<T>& values) {
  if (values.empty()) return;
  values = {*std::max_element(values.begin(), values.end())};
}

void Tally(Exclusion refusal, std::vector<Exclusion>& exclusions) {
  for (Exclusion& known : exclusions) {
    if (known.rule != refusal.rule) continue;
    ++known.count;
    return;
  }
  exclusions.push_back(std::move(refusal));
}

// The server on the most of these chips that the model can be split over.
absl::StatusOr<ServingSetup> LargestSetup(const ServingOptions& serving,
                                          std::vector<int32_t> chips) {
  ServingOptions largest = serving;
  if (chips.empty()) return PrepareServing(largest);
  std::sort(chips.begin(), chips.end());
  absl::StatusOr<ServingSetup> setup;
  for (auto count = chips.rbegin(); count != chips.rend(); ++count) {
    largest.plan.chips = *count;
    setup = PrepareServing(largest);
    if (setup.ok()) break;
  }
  return setup;
}

absl::Status NothingLeft(int64_t size,
                         const std::vector<Exclusion>& exclusions) {
  std::string text = absl::StrCat("each of the ", size,
                                  " configurations of the space is refused:");
  for (const Exclusion& rule : exclusions) {
    absl::StrAppend(&text, " ", rule.count, " by ", rule.rule, " (",
                    rule.example, ");");
  }
  text.pop_back();
  return absl::InvalidArgumentError(text);
}

}  // namespace

int64_t SearchSpace::size() const {
  int64_t size = 1;
  for (const int64_t count :
       {Count(chips), Count(page_size), Count(total_num_pages),
        Count(hbm_utilization), Count(pool_share), Count(max_num_seqs),
        Count(max_num_batched_tokens), Count(admission), Count(watermark_pages),
        Count(watermark), Count(policy)}) {
    // Lists come from files and are short; their product need not be.
    if (size > kMostCandidates) return size;
    size *= count;
  }
  return size;
}

absl::StatusOr<SearchSpace> DefaultSpace(const ServingOptions& serving,
                                         const Traffic& traffic,
                                         TuneObjective objective) {
  SearchSpace space;
  if (objective == TuneObjective::kFewestChips) space.chips = {1, 2, 4, 8};
  TIDEWHEEL_ASSIGN_OR_RETURN(const ServingSetup setup,
                             LargestSetup(serving, space.chips));
  const double at_once =
      static_cast<double>(setup.plan.capacity.usable_tokens) /
      traffic.mean_request_tokens();
  const int exponent = std::clamp(
      static_cast<int>(std::ceil(std::log2(std::max(at_once, 1.0)))), 5, 9);
  for (int e = exponent - 2; e <= exponent + 1; ++e) {
    space.max_num_seqs.push_back(1 << e);
  }
  space.page_size = {16, 32, 64};
  space.pool_share = {1, 0.75, 0.5};
  space.max_num_batched_tokens = {512, 1024, 2048, 4096};
  space.admission = {AdmissionPolicy::kOptimistic, AdmissionPolicy::kReserve};
  space.watermark = {0.01, 0.05};
  return space;
}

absl::StatusOr<CandidateList> ListCandidates(const SearchSpace& given,
                                             const ServingOptions& serving,
                                             TuneObjective objective) {
  SearchSpace space = given;
  if (objective == TuneObjective::kFewestPages) {
    KeepLargest(space.total_num_pages);
    KeepLargest(space.hbm_utilization);
    KeepLargest(space.pool_share);
  }
  const int64_t size = space.size();
  if (size > kMostCandidates) {
    return absl::InvalidArgumentError(
        absl::StrCat("the space has more than ", kMostCandidates,
                     " combinations; give shorter lists or fewer steps"));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const ModelConfig model,
                             LoadModelConfig(serving.model));
  TIDEWHEEL_ASSIGN_OR_RETURN(const TpuChip chip, FindTpuChip(serving.chip));
  const CandidateMaker maker(serving, model, chip);
  CandidateList list;
  for (int64_t index = 0; index < size; ++index) {
    Exclusion refusal;
    const std::optional<Candidate> candidate =
        maker.Make(ChoiceAt(space, index), refusal);
    if (!candidate.has_value()) {
      Tally(std::move(refusal), list.exclusions);
    } else if (std::find(list.candidates.begin(), list.candidates.end(),
                         *candidate) == list.candidates.end()) {
      // Admission that reserves has no watermark, so some are alike.
      list.candidates.push_back(*candidate);
    }
  }
  if (list.candidates.empty()) return NothingLeft(size, list.exclusions);
  return list;
}

std::optional<Exclusion> RefusalOfCandidate(const Candidate& candidate,
                                            const ServingOptions& serving,
                                            const ModelConfig& model) {
  const absl::StatusOr<TpuChip> chip = FindTpuChip(serving.chip);
  if (!chip.ok()) return Refused("unknown-chip", chip.status().message());
  return CandidateMaker(serving, model, *chip).Refusal(candidate);
}

}  // namespace tidewheel
