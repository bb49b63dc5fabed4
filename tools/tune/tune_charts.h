// The charts of a search and of a hit curve.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_CHARTS_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_CHARTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/report/chart.h"
#include "tools/report/svg_rows.h"
#include "tools/tune/curve_run.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

// The hit ratio of every pool size, drawn at some hundred of them; with the
// knee, and `chosen_pages` where they are pages of the curve's size.
Chart HitCurveChart(const CurveRun& run, std::optional<int64_t> chosen_pages);

Chart FrontChart(const TuneResult& result);

// The promised percentile by pages, and what preemptions cost.
// REQUIRES: the result has a cliff.
std::vector<Chart> CliffCharts(const TuneResult& result);

// What each change does to the promised percentile.
RowChart SensitivityChart(const TuneResult& result);

// The best candidates' figures with their intervals, at most `limit`.
RowChart CandidateChart(const TuneResult& result, size_t limit);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_CHARTS_H_
