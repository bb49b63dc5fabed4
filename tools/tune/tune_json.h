// A TuneResult as JSON: every figure with its interval.
//
// {"low": .., "value": .., "high": ..} is a figure at 95 %. Two searches of one
// request and seed differ in the object "work" alone.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_JSON_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_JSON_H_

#include <string>

#include "tools/tune/tune_result.h"

namespace tidewheel {

// Ends with a newline.
std::string TuneJson(const TuneResult& result);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_JSON_H_
