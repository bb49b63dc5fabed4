// TunePage: a search, or a hit curve, as a page for a browser.
//
// It shows what TuneReportText and CurveTable print, with charts. Like them it
// judges nothing: every figure and sentence is the result's.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_PAGE_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_PAGE_H_

#include "tools/output_file.h"
#include "tools/tune/curve_run.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

// `curve` is that of the same workload, or null. Errors are the file's, from
// Close.
void WriteTuneReport(const TuneResult& result, const CurveRun* curve,
                     OutputFile& file);

// Of `tune --curve`.
void WriteCurveReport(const CurveRun& run, OutputFile& file);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_PAGE_H_
