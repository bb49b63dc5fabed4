// CurveRun: a hit curve with all that its reports show.
//
// MakeCurve goes from what a user asked for to the curve; MakeRows and
// CheckCurve add the sizes that a person reads and full simulations of some.

#ifndef TIDEWHEEL_TOOLS_TUNE_CURVE_RUN_H_
#define TIDEWHEEL_TOOLS_TUNE_CURVE_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/serving_setup.h"
#include "tools/simulation.h"
#include "tools/traces/trace.h"
#include "tools/tune/hit_curve.h"
#include "tools/tune/page_paths.h"
#include "tools/tune/pool_simulation.h"

namespace tidewheel {

struct CurveOptions {
  ServingOptions serving;
  // Whether `serving` is a server that was asked for. Otherwise pages have no
  // bytes, and its page size is the one to use.
  bool has_server = false;
  Concurrency concurrency = Concurrency::kOneAtATime;
  std::vector<int64_t> sizes;  // to show besides those chosen; total_num_pages
  int32_t num_checks = 0;      // full simulations to compare with
  // Called while a simulation runs; may be empty.
  std::function<void(const SimulationProgress&)> on_progress;
};

// The pool that the named chips have room for, or that was asked for.
struct CurveServer {
  std::string model;
  int32_t devices = 0;
  int64_t bytes_per_page = 0;  // on each device
  int64_t total_num_pages = 0;
};

// A size as a line of the table.
struct CurveRow {
  int64_t total_num_pages = 0;
  HitQueries queries;
  int64_t hit_pages = 0;
  int64_t refused_requests = 0;  // too long for the pool
  // Further hit tokens, of all prompt tokens, with a GiB more on each device.
  // Only where a server is known and no request is refused.
  std::optional<double> next_gib_ratio;
  std::string mark;  // why this size is shown; may be empty

  double token_ratio() const;
  double page_ratio() const;
};

struct CurveCheck {
  int64_t total_num_pages = 0;
  int64_t curve_hit_tokens = 0;
  int64_t simulated_hit_tokens = 0;
  double curve_ratio = 0;
  double simulated_ratio = 0;
  int64_t preemptions = 0;

  double deviation() const { return curve_ratio - simulated_ratio; }
};

struct CurveRun {
  Trace trace;
  PagePaths paths;
  HitCurve curve;
  Concurrency concurrency = Concurrency::kOneAtATime;
  bool has_sessions = false;
  // Where requests overlap: in a smaller pool they wait for pages, so that the
  // curve is rough there (see TimedHitCurve). 0: it is not.
  int64_t rough_below = 0;
  std::optional<CurveServer> server;
  std::vector<std::string> notes;
  std::vector<CurveRow> rows;      // by size
  std::vector<CurveCheck> checks;  // by size
  double build_seconds = 0;        // the curve, without reading the trace

  bool has_reuse() const { return curve.ceiling().hit_pages > 0; }
  // The most that a check may deviate: nothing, where the curve is exact.
  // Sizes where it is rough are not judged.
  double tolerance() const;
  bool checks_hold() const;
};

// Errors: InvalidArgument for a trace without a request that can run, and for
// sizes that can not be; those of PrepareServing, BuildPagePaths and
// RunSimulation.
absl::StatusOr<CurveRun> MakeCurve(Trace trace, const CurveOptions& options);

// Simulates `num_checks` pools between the smallest and the ceiling's.
// Errors: as PoolSimulation::Run.
absl::Status CheckCurve(const CurveOptions& options, CurveRun& run);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_CURVE_RUN_H_
