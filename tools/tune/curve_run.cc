#include "tools/tune/curve_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/tune/stack_pass.h"

namespace tidewheel {
namespace {

constexpr int32_t kDefaultPageSize = 16;
constexpr int kChosenRows = 12;

double Ratio(int64_t hits, int64_t of) {
  return of > 0 ? static_cast<double>(hits) / static_cast<double>(of) : 0;
}

int64_t LongestTokens(const Trace& trace, std::optional<int32_t> limit) {
  int64_t longest = 2;  // the least max_model_len
  for (const TraceRequest& request : trace.requests) {
    const int64_t total =
        int64_t{request.prompt_tokens} + request.output_tokens;
    if (!limit.has_value() || total <= *limit) {
      longest = std::max(longest, total);
    }
  }
  return longest;
}

// `count` sizes from `first` to `last`, evenly spaced by their logarithm.
std::vector<int64_t> LogSpaced(int64_t first, int64_t last, int count) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / (count - 1) : 1;
    sizes.push_back(std::llround(
        static_cast<double>(first) *
        std::pow(static_cast<double>(last) / static_cast<double>(first),
                 share)));
  }
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// What a server decides about the curve: the page size and the longest request.
struct ServerFacts {
  std::optional<CurveServer> server;
  int32_t page_size = 0;
  std::optional<int32_t> max_model_len;
  std::vector<std::string> notes;
};

absl::StatusOr<ServerFacts> LearnServer(const CurveOptions& options) {
  const ServerPlanOptions& plan = options.serving.plan;
  ServerFacts facts;
  facts.max_model_len = plan.max_model_len;
  if (!options.has_server) {
    facts.page_size = plan.page_size.value_or(kDefaultPageSize);
    return facts;
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const ServingSetup setup,
                             PrepareServing(options.serving));
  const ModelShape::Options& model = setup.model.shape.options();
  facts.page_size = setup.plan.page_size;
  if (!facts.max_model_len.has_value()) {
    facts.max_model_len = model.max_position_embeddings;
  }
  facts.server = CurveServer{
      .model = model.name,
      .devices = setup.plan.devices,
      .bytes_per_page = setup.plan.capacity.bytes_per_page,
      .total_num_pages = setup.plan.capacity.total_num_pages,
  };
  facts.notes = setup.notes;
  return facts;
}

// The serving options of simulations for a curve with these paths.
ServingOptions ServingFor(const CurveOptions& options, const Trace& trace,
                          const PagePaths& paths,
                          std::optional<int32_t> max_model_len) {
  ServingOptions serving = options.serving;
  serving.plan.page_size = paths.page_size;
  serving.plan.max_model_len =
      static_cast<int32_t>(LongestTokens(trace, max_model_len));
  return serving;
}

void SortByAdmission(const std::vector<Residency>& residencies,
                     PagePaths& paths) {
  std::stable_sort(
      paths.requests.begin(), paths.requests.end(),
      [&](const PagePaths::Request& a, const PagePaths::Request& b) {
        return residencies[a.index].admitted_us <
               residencies[b.index].admitted_us;
      });
}

absl::Status CheckSizes(const CurveOptions& options, const HitCurve& curve) {
  std::vector<int64_t> sizes = options.sizes;
  const std::optional<int64_t> pool = options.serving.plan.total_num_pages;
  if (pool.has_value()) sizes.push_back(*pool);
  for (const int64_t size : sizes) {
    if (size < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("size ", size,
                       " leaves no page to lend, since page 0 is the null "
                       "page; give sizes of at least 2 pages"));
    }
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (size > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat("size ", size,
                       " is more than pages can be counted; give sizes of "
                       "at most ",
                       kMost));
    }
    if (options.concurrency == Concurrency::kAsTheyCome &&
        size < curve.smallest()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "size ", size,
          " refuses the longest request, which changes when "
          "the others run; give sizes of at least ",
          curve.smallest(), " pages, or ask for one request at a time"));
    }
  }
  return absl::OkStatus();
}

CurveRow MakeRow(const CurveRun& run, int64_t size, std::string mark) {
  CurveRow row;
  row.total_num_pages = size;
  row.mark = std::move(mark);
  if (size >= run.curve.smallest()) {
    row.queries = run.curve.queries();
    row.hit_pages = run.curve.HitPages(size);
    if (!run.server.has_value()) return row;
    const int64_t gib_pages = (int64_t{1} << 30) / run.server->bytes_per_page;
    if (gib_pages == 0) return row;
    const int64_t more = run.curve.HitPages(size + gib_pages) - row.hit_pages;
    row.next_gib_ratio =
        Ratio(run.curve.Tokens(more), row.queries.prompt_tokens);
    return row;
  }
  const int32_t usable = static_cast<int32_t>(size - 1);
  const auto fits = [usable](const PagePaths::Request& request) {
    return request.num_taken <= usable;
  };
  const std::vector<PagePaths::Request>& requests = run.paths.requests;
  const int64_t taken = std::count_if(requests.begin(), requests.end(), fits);
  row.refused_requests = static_cast<int64_t>(requests.size()) - taken;
  row.queries.page_size = run.paths.page_size;
  if (taken == 0) return row;
  const HitCurve curve = ComputeHitCurve(run.paths, usable);
  row.queries = curve.queries();
  row.hit_pages = curve.HitPages(size);
  return row;
}

void MakeRows(const CurveOptions& options, CurveRun& run) {
  struct Marked {
    int64_t size;
    std::string mark;
  };
  std::vector<Marked> sizes;
  const HitCurve& curve = run.curve;
  const int64_t ceiling = curve.ceiling().total_num_pages;
  for (const int64_t size : options.sizes) sizes.push_back({size, "asked for"});
  const std::optional<int64_t> asked = options.serving.plan.total_num_pages;
  if (asked.has_value()) {
    sizes.push_back({*asked, "--num-pages"});
  } else if (run.server.has_value()) {
    sizes.push_back({run.server->total_num_pages, "fits the chips"});
  }
  if (const auto knee = curve.Knee(); knee.has_value()) {
    sizes.push_back({knee->total_num_pages, "knee"});
  }
  sizes.push_back({curve.smallest(), "smallest"});
  if (run.rough_below > curve.smallest()) {
    sizes.push_back({run.rough_below, "holds all that runs"});
  }
  sizes.push_back({ceiling, "ceiling"});
  for (const int64_t size : LogSpaced(curve.smallest(), ceiling, kChosenRows)) {
    sizes.push_back({size, ""});
  }
  std::stable_sort(
      sizes.begin(), sizes.end(),
      [](const Marked& a, const Marked& b) { return a.size < b.size; });
  for (Marked& size : sizes) {
    if (!run.rows.empty() && run.rows.back().total_num_pages == size.size) {
      std::string& mark = run.rows.back().mark;
      if (!size.mark.empty() && !mark.empty()) mark += ", ";
      mark += size.mark;
      continue;
    }
    run.rows.push_back(MakeRow(run, size.size, std::move(size.mark)));
  }
}

}  // namespace

double CurveRow::token_ratio() const {
  return Ratio(hit_pages * queries.page_size, queries.prompt_tokens);
}

double CurveRow::page_ratio() const {
  return Ratio(hit_pages, queries.prompt_pages);
}

double CurveRun::tolerance() const {
  constexpr double kEstimate = 0.01;
  return concurrency == Concurrency::kOneAtATime && !has_sessions ? 0
                                                                  : kEstimate;
}

bool CurveRun::checks_hold() const {
  return std::all_of(checks.begin(), checks.end(), [this](const auto& check) {
    return check.total_num_pages < rough_below ||
           std::abs(check.deviation()) <= tolerance();
  });
}

absl::StatusOr<CurveRun> MakeCurve(Trace trace, const CurveOptions& options) {
  using Clock = std::chrono::steady_clock;
  TIDEWHEEL_ASSIGN_OR_RETURN(ServerFacts facts, LearnServer(options));
  const Clock::time_point start = Clock::now();
  TIDEWHEEL_ASSIGN_OR_RETURN(
      PagePaths paths,
      BuildPagePaths(trace, {facts.page_size, facts.max_model_len}));
  if (paths.requests.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "all ", paths.excluded_requests, " requests are longer than ",
        facts.max_model_len.value_or(0),
        " tokens, the longest that is allowed; raise --max-model-len"));
  }
  const bool has_sessions =
      std::any_of(trace.requests.begin(), trace.requests.end(),
                  [](const TraceRequest& r) { return r.after_request >= 0; });
  std::vector<Residency> residencies;
  if (has_sessions || options.concurrency == Concurrency::kAsTheyCome) {
    const ServingOptions serving =
        ServingFor(options, trace, paths, facts.max_model_len);
    const PoolSimulation simulation{trace, serving, options.concurrency,
                                    options.on_progress};
    TIDEWHEEL_ASSIGN_OR_RETURN(residencies,
                               MeasureResidencies(simulation, paths));
  }
  std::optional<HitCurve> curve;
  int64_t rough_below = 0;
  if (options.concurrency == Concurrency::kOneAtATime) {
    // When a turn comes depends on how long those before it ran.
    if (has_sessions) SortByAdmission(residencies, paths);
    curve = ComputeHitCurve(paths);
  } else {
    TimedHitCurve timed = ComputeTimedHitCurve(paths, residencies);
    curve = std::move(timed.curve);
    rough_below = timed.all_running_pages;
  }
  const double seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  TIDEWHEEL_RETURN_IF_ERROR(CheckSizes(options, *curve));
  CurveRun run{.trace = std::move(trace),
               .paths = std::move(paths),
               .curve = *std::move(curve),
               .concurrency = options.concurrency,
               .has_sessions = has_sessions,
               .rough_below = rough_below,
               .server = std::move(facts.server),
               .notes = std::move(facts.notes),
               .rows = {},
               .checks = {},
               .build_seconds = seconds};
  run.notes.insert(run.notes.end(), run.trace.notes.begin(),
                   run.trace.notes.end());
  if (run.paths.excluded_requests > 0) {
    run.notes.push_back(absl::StrCat(
        run.paths.excluded_requests, " requests with ",
        run.paths.excluded_prompt_tokens, " prompt tokens are longer than ",
        facts.max_model_len.value_or(0),
        " tokens; pools of every size refuse them, and no figure counts them"));
  }
  MakeRows(options, run);
  return run;
}

absl::Status CheckCurve(const CurveOptions& options, CurveRun& run) {
  // Lengths that were excluded stay refused: no longer one was taken.
  std::optional<int32_t> longest;
  for (const PagePaths::Request& request : run.paths.requests) {
    const TraceRequest& original = run.trace.requests[request.index];
    longest = std::max(longest.value_or(0),
                       original.prompt_tokens + original.output_tokens);
  }
  const ServingOptions serving =
      ServingFor(options, run.trace, run.paths, longest);
  const PoolSimulation simulation{run.trace, serving, run.concurrency,
                                  options.on_progress};
  for (const int64_t size :
       LogSpaced(run.curve.smallest(), run.curve.ceiling().total_num_pages,
                 options.num_checks)) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const SimulationResult result,
                               simulation.Run(size));
    const int64_t hit_pages = run.curve.HitPages(size);
    const SchedulerStats& stats = result.scheduler;
    run.checks.push_back({.total_num_pages = size,
                          .curve_hit_tokens = run.curve.Tokens(hit_pages),
                          .simulated_hit_tokens = stats.prefix_cache_hits,
                          .curve_ratio = run.curve.TokenRatio(hit_pages),
                          .simulated_ratio = Ratio(stats.prefix_cache_hits,
                                                   stats.prefix_cache_queries),
                          .preemptions = stats.preemptions});
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
