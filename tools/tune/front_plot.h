// FrontPlot: a Pareto front drawn with characters, for a terminal.

#ifndef TIDEWHEEL_TOOLS_TUNE_FRONT_PLOT_H_
#define TIDEWHEEL_TOOLS_TUNE_FRONT_PLOT_H_

#include <cstdint>
#include <string>

#include "tools/tune/tune_result.h"

namespace tidewheel {

// Cost to the right, value up; '*' on the front, '.' behind it, 'R' where the
// candidate `recommended` is. At most 72 columns and 15 lines. Empty where
// there is no point.
std::string FrontPlot(const ParetoFront& front, int32_t recommended);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_FRONT_PLOT_H_
