#include "tools/report/run_series.h"

#include <algorithm>
#include <cmath>

namespace tidewheel {
namespace {

RunSeries::Bin PageSums(const PageAllocator::Stats& pages, double us) {
  RunSeries::Bin sums;
  sums.covered_us = us;
  sums.lent_us = pages.lent_pages * us;
  sums.cached_us = pages.cached_pages * us;
  sums.free_us = pages.free_pages * us;
  return sums;
}

}  // namespace

void RunSeries::Bin::Add(const Bin& other, double share) {
  covered_us += share * other.covered_us;
  generated_tokens += share * other.generated_tokens;
  computed_tokens += share * other.computed_tokens;
  running_us += share * other.running_us;
  waiting_us += share * other.waiting_us;
  lent_us += share * other.lent_us;
  cached_us += share * other.cached_us;
  free_us += share * other.free_us;
  preemptions += share * other.preemptions;
}

void RunSeries::OnStep(const StepRecord& step) {
  const double us = static_cast<double>(step.end_us - step.start_us);
  Bin sums = PageSums(step.pages, us);
  sums.generated_tokens = step.plan.num_logits;
  sums.computed_tokens = step.plan.batch.total_q_tokens();
  sums.running_us = step.num_running * us;
  sums.waiting_us = step.num_waiting * us;
  sums.preemptions = static_cast<double>(step.preemptions - preemptions_);
  preemptions_ = step.preemptions;
  AddSpan(static_cast<double>(step.start_us), static_cast<double>(step.end_us),
          sums);
}

void RunSeries::OnIdle(const IdleRecord& idle) {
  AddSpan(
      static_cast<double>(idle.start_us), static_cast<double>(idle.end_us),
      PageSums(idle.pages, static_cast<double>(idle.end_us - idle.start_us)));
}

void RunSeries::AddSpan(double start_us, double end_us, const Bin& sums) {
  while (end_us > width_us_ * static_cast<double>(kMaxBins)) {
    for (size_t i = 0; 2 * i < bins_.size(); ++i) {
      Bin pair = bins_[2 * i];
      if (2 * i + 1 < bins_.size()) pair.Add(bins_[2 * i + 1], 1);
      bins_[i] = pair;
    }
    bins_.resize((bins_.size() + 1) / 2);
    width_us_ *= 2;
  }
  const size_t first = static_cast<size_t>(start_us / width_us_);
  const size_t last =
      std::max(first + 1, static_cast<size_t>(std::ceil(end_us / width_us_)));
  bins_.resize(std::max(bins_.size(), last));
  // A step shorter than a microsecond of the clock has no span to share.
  if (end_us <= start_us) return bins_[first].Add(sums, 1);
  for (size_t i = first; i < last; ++i) {
    const double low = std::max(start_us, static_cast<double>(i) * width_us_);
    const double high =
        std::min(end_us, static_cast<double>(i + 1) * width_us_);
    bins_[i].Add(sums, (high - low) / (end_us - start_us));
  }
}

}  // namespace tidewheel
