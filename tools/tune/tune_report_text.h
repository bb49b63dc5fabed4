// TuneReportText: a search and its result for a terminal of 80 columns.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_REPORT_TEXT_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_REPORT_TEXT_H_

#include <string>

#include "tools/tune/traffic.h"
#include "tools/tune/tune_options.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

// What is about to be searched, before it begins.
std::string TuneHeader(const TuneOptions& options, const Traffic& traffic);

// The answer, its reasons and how it was found.
std::string TuneReportText(const TuneResult& result);

// "99 % of requests: TTFT at most 500 ms, TPOT at most 50 ms".
std::string PromiseText(const Promise& promise);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_REPORT_TEXT_H_
