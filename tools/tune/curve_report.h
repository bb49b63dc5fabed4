// A hit curve as people and programs read it.

#ifndef TIDEWHEEL_TOOLS_TUNE_CURVE_REPORT_H_
#define TIDEWHEEL_TOOLS_TUNE_CURVE_REPORT_H_

#include <string>

#include "tools/output_file.h"
#include "tools/tune/curve_run.h"

namespace tidewheel {

// What was counted and how: trace, definition, server, notes.
std::string CurveHeader(const CurveRun& run);

// The table, the ceiling and the knee; or that nothing is ever found.
std::string CurveTable(const CurveRun& run);

// Curve and full simulations side by side; empty without checks.
std::string CheckTable(const CurveRun& run);

// The same figures as a JSON object, with a newline.
std::string CurveJson(const CurveRun& run);

// Every size at which the curve changes, a CSV line each. Errors are the
// file's, from Close.
void WriteCurveCsv(const HitCurve& curve, OutputFile& file);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_CURVE_REPORT_H_
