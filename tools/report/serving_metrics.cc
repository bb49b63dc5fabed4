#include "tools/report/serving_metrics.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace tidewheel {
namespace {

constexpr double kUsPerMs = 1000;
constexpr double kUsPerSecond = 1e6;

std::string ReasonNotCompleted(const RequestRecord& record) {
  switch (record.state) {
    case RequestRecord::State::kNotSent:
      return "not sent";
    case RequestRecord::State::kUnfinished:
      return "unfinished";
    case RequestRecord::State::kRefused:
      return absl::StrCat("refused: ", RefusalName(record.refusal));
    case RequestRecord::State::kEnded:
      return absl::StrCat("ended: ", FinishReasonName(record.finish_reason));
  }
  return "unknown";
}

double Ms(int64_t from_us, int64_t to_us) {
  return static_cast<double>(to_us - from_us) / kUsPerMs;
}

// A request of one token has no time per output token; vLLM counts it as 0
// towards goodput, and leaves it out of TPOT.
bool IsGood(const GoodputTargets& targets, double ttft_ms, double tpot_ms,
            double e2el_ms) {
  const auto keeps = [](const std::optional<double>& target, double value) {
    return !target.has_value() || value <= *target;
  };
  return keeps(targets.ttft_ms, ttft_ms) && keeps(targets.tpot_ms, tpot_ms) &&
         keeps(targets.e2el_ms, e2el_ms);
}

struct Samples {
  std::vector<double> ttft_ms;
  std::vector<double> tpot_ms;
  std::vector<double> e2el_ms;
  std::vector<double> queue_ms;
  int64_t good = 0;
};

void AddCompleted(const RequestRecord& record, const GoodputTargets& targets,
                  Samples& samples) {
  const double ttft = Ms(record.sent_us, record.first_token_us);
  const double e2el = Ms(record.sent_us, record.ended_us);
  double tpot = 0;
  if (record.generated_tokens > 1) {
    tpot = (e2el - ttft) / (record.generated_tokens - 1);
    samples.tpot_ms.push_back(tpot);
  }
  samples.ttft_ms.push_back(ttft);
  samples.e2el_ms.push_back(e2el);
  // A request that arrives within a step is admitted after it, never before.
  samples.queue_ms.push_back(Ms(record.sent_us, record.admitted_us));
  if (IsGood(targets, ttft, tpot, e2el)) ++samples.good;
}

}  // namespace

ServingMetrics ComputeMetrics(const SimulationResult& result,
                              const MetricsOptions& options) {
  ServingMetrics metrics;
  Samples samples;
  std::map<std::string, int64_t> reasons;
  for (const RequestRecord& record : result.requests) {
    if (record.is_complete()) {
      ++metrics.completed;
      metrics.input_tokens += record.prompt_tokens;
      metrics.output_tokens += record.generated_tokens;
      AddCompleted(record, options.goodput, samples);
      continue;
    }
    ++metrics.not_completed;
    if (record.state == RequestRecord::State::kRefused) ++metrics.refused;
    ++reasons[ReasonNotCompleted(record)];
  }
  metrics.not_completed_by_reason.assign(reasons.begin(), reasons.end());

  metrics.duration_s = static_cast<double>(result.end_us) / kUsPerSecond;
  const auto per_second = [&metrics](int64_t count) {
    return metrics.duration_s > 0
               ? static_cast<double>(count) / metrics.duration_s
               : 0.0;
  };
  metrics.request_throughput = per_second(metrics.completed);
  metrics.output_throughput = per_second(metrics.output_tokens);
  metrics.total_token_throughput =
      per_second(metrics.input_tokens + metrics.output_tokens);
  if (!options.goodput.empty()) {
    metrics.request_goodput = per_second(samples.good);
  }
  const std::vector<double>& percents = options.percentiles;
  metrics.ttft_ms = DescribeSamples(std::move(samples.ttft_ms), percents);
  metrics.tpot_ms = DescribeSamples(std::move(samples.tpot_ms), percents);
  metrics.e2el_ms = DescribeSamples(std::move(samples.e2el_ms), percents);
  metrics.queue_ms = DescribeSamples(std::move(samples.queue_ms), percents);
  metrics.itl_ms = result.gaps.DescribeMs(percents);
  return metrics;
}

}  // namespace tidewheel
