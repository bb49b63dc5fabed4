#include "tools/tune/run_sample.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "allocator/check.h"
#include "tools/report/percentile.h"
#include "tools/tune/block_bootstrap.h"
#include "tools/tune/confidence.h"
#include "tools/tune/stationarity.h"
#include "tools/tune/warm_up.h"

namespace tidewheel {
namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

struct Latencies {
  double ttft_ms = 0;
  double e2el_ms = 0;
  double tpot_ms = 0;  // of requests with two tokens or more
};

Latencies LatenciesOf(const RequestRecord& record) {
  Latencies latencies;
  latencies.ttft_ms =
      static_cast<double>(record.first_token_us - record.sent_us) / 1e3;
  latencies.e2el_ms =
      static_cast<double>(record.ended_us - record.sent_us) / 1e3;
  if (record.generated_tokens > 1) {
    latencies.tpot_ms =
        (latencies.e2el_ms - latencies.ttft_ms) / (record.generated_tokens - 1);
  }
  return latencies;
}

// The requests that were sent, in that order.
std::vector<size_t> InOrderOfSending(const SimulationResult& result) {
  std::vector<size_t> order;
  order.reserve(result.requests.size());
  for (size_t i = 0; i < result.requests.size(); ++i) {
    if (result.requests[i].sent_us >= 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return result.requests[a].sent_us < result.requests[b].sent_us;
  });
  return order;
}

// How many requests are in flight when each is sent: the state that an empty
// start biases, and that no single slow request moves.
std::vector<double> InFlightWhenSent(const SimulationResult& result,
                                     const std::vector<size_t>& order) {
  std::vector<int64_t> ends_us;
  for (const size_t i : order) {
    const int64_t end_us = result.requests[i].ended_us;
    if (end_us >= 0) ends_us.push_back(end_us);
  }
  std::sort(ends_us.begin(), ends_us.end());
  std::vector<double> in_flight;
  in_flight.reserve(order.size());
  size_t ended = 0;
  for (const size_t i : order) {
    while (ended < ends_us.size() &&
           ends_us[ended] <= result.requests[i].sent_us) {
      ++ended;
    }
    in_flight.push_back(static_cast<double>(in_flight.size()) -
                        static_cast<double>(ended));
  }
  return in_flight;
}

// Whether the queue grows from the warm-up to the last request sent.
bool IsOverloaded(const SimulationResult& result,
                  const std::vector<size_t>& order, int64_t warm_up) {
  std::vector<double> waits_us;
  double service_us = 0;
  for (size_t k = static_cast<size_t>(warm_up); k < order.size(); ++k) {
    const RequestRecord& record = result.requests[order[k]];
    if (record.admitted_us < 0 || record.ended_us < 0) continue;
    waits_us.push_back(
        static_cast<double>(record.admitted_us - record.sent_us));
    service_us += static_cast<double>(record.ended_us - record.admitted_us);
  }
  if (waits_us.empty()) return false;
  return QueueGrows(waits_us,
                    service_us / static_cast<double>(waits_us.size()));
}

double ThroughputAfter(const SimulationResult& result,
                       const std::vector<size_t>& order, int64_t warm_up) {
  const size_t first = static_cast<size_t>(warm_up);
  if (first >= order.size()) return 0;
  double tokens = 0;
  for (size_t k = first; k < order.size(); ++k) {
    tokens += result.requests[order[k]].generated_tokens;
  }
  const double seconds =
      static_cast<double>(result.end_us -
                          result.requests[order[first]].sent_us) /
      1e6;
  return seconds > 0 ? tokens / seconds : 0;
}

void CountRun(const SimulationResult& result, LoadOutcome& counts) {
  counts.requests = static_cast<int64_t>(result.requests.size());
  for (const RequestRecord& record : result.requests) {
    counts.not_completed += record.is_complete() ? 0 : 1;
  }
  if (!result.refusal_examples.empty()) {
    counts.refusal = result.refusal_examples.front();
  }
  counts.preemptions = result.scheduler.preemptions;
  counts.recomputed_tokens = result.scheduler.recomputed_tokens;
  counts.prompt_tokens = result.scheduler.prefix_cache_queries;
  counts.cached_tokens = result.scheduler.prefix_cache_hits;
  counts.mean_used_pages = result.usage.mean_pages;
  counts.peak_used_pages = result.usage.peak_pages;
  counts.peak_running = result.peak_running;
}

// The tail of each sample after its warm-up.
std::span<const float> Tail(const std::vector<float>& values,
                            const RunSample& sample) {
  return std::span(values).subspan(static_cast<size_t>(sample.warm_up));
}

// Without the requests that have no such latency.
std::vector<float> Present(std::span<const float> values) {
  std::vector<float> present;
  present.reserve(values.size());
  std::copy_if(values.begin(), values.end(), std::back_inserter(present),
               [](float x) { return !std::isnan(x); });
  return present;
}

using Statistic = std::function<double(std::span<const float>)>;

// A statistic of all samples together, with its interval.
class Summary {
 public:
  Summary(std::span<const RunSample> samples, double percentile,
          const IntervalOptions& options)
      : samples_(samples), options_(options) {
    if (samples.size() > 1 || options.resamples == 0) return;
    const std::span<const float> strain = Tail(samples[0].strain, samples[0]);
    std::vector<float> copy(strain.begin(), strain.end());
    const double at = UpperPercentile(copy, percentile);
    std::vector<double> exceeds(strain.size());
    for (size_t i = 0; i < strain.size(); ++i) exceeds[i] = strain[i] > at;
    bootstrap_.emplace(BlockBootstrap::Options{
        .length = static_cast<int64_t>(strain.size()),
        .block_length = ChooseBlockLength(exceeds),
        .resamples = options.resamples,
        .seed = options.seed,
    });
  }

  Estimate Of(std::vector<float> RunSample::*field,
              const Statistic& statistic) const {
    std::vector<float> pooled;
    std::vector<double> each;
    for (const RunSample& sample : samples_) {
      const std::span<const float> tail = Tail(sample.*field, sample);
      pooled.insert(pooled.end(), tail.begin(), tail.end());
      if (samples_.size() > 1) each.push_back(statistic(tail));
    }
    const double value = statistic(pooled);
    if (!bootstrap_.has_value()) return StudentFactorEstimate(value, each);
    std::vector<float> resample(pooled.size());
    for (int32_t i = 0; i < bootstrap_->resamples(); ++i) {
      bootstrap_->Resample(i, pooled, resample);
      each.push_back(statistic(resample));
    }
    return BootstrapEstimate(value, std::move(each));
  }

 private:
  std::span<const RunSample> samples_;
  IntervalOptions options_;
  std::optional<BlockBootstrap> bootstrap_;
};

Statistic StrainPercentile(double percent) {
  return [percent](std::span<const float> values) {
    std::vector<float> copy(values.begin(), values.end());
    return UpperPercentile(copy, percent);
  };
}

// The interpolated percentile that `simulate` reports.
Statistic LatencyPercentile(double percent) {
  return [percent](std::span<const float> values) {
    std::vector<float> present = Present(values);
    if (present.empty()) return 0.0;
    const PercentileRank rank =
        RankOfPercentile(static_cast<int64_t>(present.size()), percent);
    const auto low = present.begin() + rank.low;
    std::nth_element(present.begin(), low, present.end());
    const double at = *low;
    if (rank.fraction == 0) return at;
    return Interpolate(at, *std::min_element(low + 1, present.end()),
                       rank.fraction);
  };
}

double BrokenRatio(std::span<const float> strain) {
  const auto broken = std::count_if(strain.begin(), strain.end(),
                                    [](float x) { return x > 1; });
  return static_cast<double>(broken) / static_cast<double>(strain.size());
}

double Mean(std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += x;
  return sum / static_cast<double>(values.size());
}

// Tokens per second follow the mean output of the requests: its relative
// interval is theirs.
Estimate Throughput(std::span<const RunSample> samples,
                    const Summary& summary) {
  double value = 0;
  for (const RunSample& sample : samples) {
    value += sample.output_tokens_per_s / static_cast<double>(samples.size());
  }
  const Estimate mean = summary.Of(&RunSample::output_tokens, Mean);
  if (!(mean.value > 0)) return {value, value, value};
  return {value, value * mean.low / mean.value, value * mean.high / mean.value};
}

void AddCounts(const LoadOutcome& from, double share, LoadOutcome& to) {
  to.requests += from.requests;
  to.not_completed += from.not_completed;
  if (to.refusal.empty()) to.refusal = from.refusal;
  to.preemptions += from.preemptions;
  to.recomputed_tokens += from.recomputed_tokens;
  to.prompt_tokens += from.prompt_tokens;
  to.cached_tokens += from.cached_tokens;
  to.mean_used_pages += share * from.mean_used_pages;
  to.peak_used_pages = std::max(to.peak_used_pages, from.peak_used_pages);
  to.peak_running = std::max(to.peak_running, from.peak_running);
  to.waited_for_rows += share * from.waited_for_rows;
  to.waited_for_pages += share * from.waited_for_pages;
  to.waited_for_tokens += share * from.waited_for_tokens;
}

}  // namespace

double StrainOf(const RequestRecord& record, const GoodputTargets& bounds) {
  if (!record.is_complete()) return kBrokenStrain;
  const Latencies latencies = LatenciesOf(record);
  double strain = 0;
  const auto add = [&strain](double latency,
                             const std::optional<double>& bound) {
    if (bound.has_value()) strain = std::max(strain, latency / *bound);
  };
  add(latencies.ttft_ms, bounds.ttft_ms);
  add(latencies.tpot_ms, bounds.tpot_ms);
  add(latencies.e2el_ms, bounds.e2el_ms);
  return std::min(strain, kBrokenStrain);
}

RunSample MakeSample(const SimulationResult& result,
                     const SampleOptions& options) {
  RunSample sample;
  const std::vector<size_t> order = InOrderOfSending(result);
  for (const size_t i : order) {
    const RequestRecord& record = result.requests[i];
    sample.strain.push_back(
        static_cast<float>(StrainOf(record, options.promise.bounds)));
    sample.output_tokens.push_back(static_cast<float>(record.generated_tokens));
    const bool complete = record.is_complete();
    const Latencies latencies = complete ? LatenciesOf(record) : Latencies();
    const auto kept = [](bool is_there, double ms) {
      return is_there ? static_cast<float>(ms) : kNone;
    };
    sample.ttft_ms.push_back(kept(complete, latencies.ttft_ms));
    sample.tpot_ms.push_back(
        kept(complete && record.generated_tokens > 1, latencies.tpot_ms));
    sample.e2el_ms.push_back(kept(complete, latencies.e2el_ms));
  }
  sample.warm_up =
      WarmUpLength(InFlightWhenSent(result, order), options.max_warm_up);
  sample.overloaded =
      !result.blocked.empty() || IsOverloaded(result, order, sample.warm_up);
  sample.output_tokens_per_s = ThroughputAfter(result, order, sample.warm_up);
  CountRun(result, sample.counts);
  return sample;
}

LoadOutcome Summarize(std::span<const RunSample> samples,
                      const Promise& promise, const IntervalOptions& options) {
  TIDEWHEEL_CHECK(!samples.empty());
  LoadOutcome outcome;
  outcome.candidate = samples[0].counts.candidate;
  outcome.request_rate = samples[0].counts.request_rate;
  const double share = 1 / static_cast<double>(samples.size());
  int64_t overloaded = 0;
  for (const RunSample& sample : samples) {
    AddCounts(sample.counts, share, outcome);
    outcome.warm_up_requests += sample.warm_up;
    overloaded += sample.overloaded ? 1 : 0;
  }
  outcome.overloaded = 2 * overloaded > static_cast<int64_t>(samples.size());
  const Summary summary(samples, promise.percentile, options);
  outcome.strain =
      summary.Of(&RunSample::strain, StrainPercentile(promise.percentile));
  // Of the share that breaks it, which is the small one, by a factor.
  const Estimate broken = summary.Of(&RunSample::strain, BrokenRatio);
  outcome.kept_ratio = {1 - broken.value, std::max(1 - broken.high, 0.0),
                        1 - broken.low};
  const Statistic latency = LatencyPercentile(promise.percentile);
  outcome.ttft_ms = summary.Of(&RunSample::ttft_ms, latency);
  outcome.tpot_ms = summary.Of(&RunSample::tpot_ms, latency);
  outcome.e2el_ms = summary.Of(&RunSample::e2el_ms, latency);
  outcome.output_tokens_per_s = Throughput(samples, summary);
  outcome.keeps_promise = !outcome.overloaded && outcome.strain.value <= 1;
  return outcome;
}

}  // namespace tidewheel
