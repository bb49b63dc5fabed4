#include "tools/tune/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/tune/block_bootstrap.h"
#include "tools/tune/confidence.h"
#include "tools/tune/search_space.h"

namespace tidewheel {
namespace {

constexpr double kChange = 0.1;

std::string Arrow(int64_t from, int64_t to) {
  return absl::StrCat(from, " -> ", to);
}

// At least one step away from `value`.
int64_t Changed(int64_t value, double factor) {
  const int64_t changed = std::llround(static_cast<double>(value) * factor);
  if (changed != value) return changed;
  return factor > 1 ? value + 1 : value - 1;
}

// Adds the variation of one knob by one factor, if it is one.
class VariationList {
 public:
  VariationList(const Candidate& candidate, const Load& load)
      : candidate_(candidate), load_(load) {}

  void Add(absl::string_view name, std::string change,
           const Candidate& candidate) {
    list_.push_back({std::string(name), std::move(change), candidate, load_,
                     ConstantChange()});
  }

  void AddCount(Knob knob, int32_t Candidate::*field) {
    for (const double factor : {1 - kChange, 1 + kChange}) {
      const int64_t value = Changed(candidate_.*field, factor);
      if (value < 1) continue;
      Candidate changed = candidate_;
      changed.*field = static_cast<int32_t>(value);
      Add(KnobName(knob), Arrow(candidate_.*field, value), changed);
    }
  }

  void AddPages() {
    for (const double factor : {1 - kChange, 1 + kChange}) {
      const int64_t pages = Changed(candidate_.total_num_pages, factor);
      Add(KnobName(Knob::kTotalNumPages),
          Arrow(candidate_.total_num_pages, pages),
          WithPages(candidate_, pages));
    }
  }

  void AddPageSize() {
    for (const bool halve : {true, false}) {
      const int32_t size =
          halve ? candidate_.page_size / 2 : candidate_.page_size * 2;
      const int64_t pages = halve ? candidate_.total_num_pages * 2
                                  : candidate_.total_num_pages / 2;
      if (size < 1 || pages < 2) continue;
      Candidate changed = WithPages(candidate_, pages);
      changed.page_size = size;
      Add(KnobName(Knob::kPageSize), Arrow(candidate_.page_size, size),
          changed);
    }
  }

  void AddAdmission() {
    Candidate changed = candidate_;
    const bool reserves = candidate_.admission == AdmissionPolicy::kReserve;
    changed.admission =
        reserves ? AdmissionPolicy::kOptimistic : AdmissionPolicy::kReserve;
    changed.watermark_pages =
        reserves ? static_cast<int32_t>(candidate_.total_num_pages / 100) : 0;
    Add(KnobName(Knob::kAdmission),
        absl::StrCat(KnobText(candidate_, Knob::kAdmission), " -> ",
                     KnobText(changed, Knob::kAdmission)),
        changed);
  }

  void AddLoad(absl::string_view name, double Load::*field) {
    for (const double factor : {1 - kChange, 1 + kChange}) {
      Add(name, factor < 1 ? "-10 %" : "+10 %", candidate_);
      list_.back().load.*field *= factor;
    }
  }

  void AddConstant(const TpuCostConstantEntry& entry) {
    for (const double factor : {1 - kChange, 1 + kChange}) {
      Add(entry.name, factor < 1 ? "-10 %" : "+10 %", candidate_);
      list_.back().constant = {entry.field, factor};
    }
  }

  std::vector<Variation> Take() && { return std::move(list_); }

 private:
  const Candidate& candidate_;
  const Load& load_;
  std::vector<Variation> list_;
};

double TailPercentile(const RunSample& sample, int64_t warm_up,
                      double percentile) {
  std::vector<float> tail(sample.strain.begin() + warm_up, sample.strain.end());
  return UpperPercentile(tail, percentile);
}

// changed - base, of the same requests.
Estimate StrainChange(const std::vector<RunSample>& base,
                      const std::vector<RunSample>& changed, double value,
                      const Promise& promise, const IntervalOptions& options) {
  std::vector<double> differences;
  if (base.size() > 1) {
    for (size_t k = 0; k < base.size(); ++k) {
      const int64_t warm_up = std::max(base[k].warm_up, changed[k].warm_up);
      differences.push_back(
          TailPercentile(changed[k], warm_up, promise.percentile) -
          TailPercentile(base[k], warm_up, promise.percentile));
    }
    return StudentEstimate(value, differences);
  }
  const size_t requests =
      std::min(base[0].strain.size(), changed[0].strain.size());
  const size_t warm_up =
      static_cast<size_t>(std::max(base[0].warm_up, changed[0].warm_up));
  const auto tail = [&](const RunSample& sample) {
    return std::span(sample.strain).first(requests).subspan(warm_up);
  };
  const std::span<const float> from = tail(base[0]);
  const std::span<const float> to = tail(changed[0]);
  const double at =
      TailPercentile(base[0], base[0].warm_up, promise.percentile);
  std::vector<double> exceeds(from.size());
  for (size_t i = 0; i < exceeds.size(); ++i) exceeds[i] = from[i] > at;
  const BlockBootstrap bootstrap({
      .length = static_cast<int64_t>(from.size()),
      .block_length = ChooseBlockLength(exceeds),
      .resamples = options.resamples,
      .seed = options.seed,
  });
  std::vector<float> scratch(from.size());
  for (int32_t i = 0; i < options.resamples; ++i) {
    bootstrap.Resample(i, to, scratch);
    const double after = UpperPercentile(scratch, promise.percentile);
    bootstrap.Resample(i, from, scratch);
    differences.push_back(after - UpperPercentile(scratch, promise.percentile));
  }
  return BootstrapEstimate(value, std::move(differences));
}

}  // namespace

std::vector<Variation> Variations(const Candidate& candidate, const Load& load,
                                  bool has_several_devices) {
  VariationList list(candidate, load);
  list.AddPages();
  list.AddPageSize();
  list.AddCount(Knob::kMaxNumSeqs, &Candidate::max_num_seqs);
  list.AddCount(Knob::kMaxNumBatchedTokens, &Candidate::max_num_batched_tokens);
  if (candidate.watermark_pages > 0) {
    list.AddCount(Knob::kWatermarkPages, &Candidate::watermark_pages);
  }
  list.AddAdmission();
  list.AddLoad("request rate", &Load::request_rate);
  list.AddLoad("prompt lengths", &Load::prompt_factor);
  list.AddLoad("output lengths", &Load::output_factor);
  for (const TpuCostConstantEntry& entry : TpuCostConstantTable()) {
    const bool is_of_groups =
        entry.field == &TpuCostConstants::group_step_overhead_s ||
        entry.field == &TpuCostConstants::link_latency_s ||
        entry.field == &TpuCostConstants::link_efficiency ||
        entry.field == &TpuCostConstants::link_directions ||
        entry.field == &TpuCostConstants::unstated_link_bytes_per_s;
    if (is_of_groups && !has_several_devices) continue;
    list.AddConstant(entry);
  }
  return std::move(list).Take();
}

absl::StatusOr<SensitivityRow> RunVariation(const CandidateEvaluator& evaluator,
                                            const Variation& variation,
                                            const std::vector<RunSample>& base,
                                            const ModelConfig& model,
                                            const IntervalOptions& options) {
  SensitivityRow row;
  row.name = variation.name;
  row.change = variation.change;
  const ServingOptions serving = evaluator.ServingFor(variation.load);
  if (std::optional<Exclusion> refusal =
          RefusalOfCandidate(variation.candidate, serving, model)) {
    row.is_refused = true;
    row.refusal = absl::StrCat(refusal->rule, ": ", refusal->example);
    return row;
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const std::vector<RunSample> changed,
      evaluator.RunReplications(variation.candidate, variation.load,
                                static_cast<int32_t>(base.size()),
                                variation.constant));
  const Promise& promise = evaluator.options().promise;
  row.outcome = Summarize(changed, promise, options);
  row.keeps_promise = row.outcome.keeps_promise;
  const LoadOutcome unchanged = Summarize(base, promise, {});
  row.strain_change = StrainChange(
      base, changed, row.outcome.strain.value - unchanged.strain.value, promise,
      options);
  return row;
}

}  // namespace tidewheel
