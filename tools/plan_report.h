// A ServerPlan as text and as JSON.
//
// Both show every step of the arithmetic, from the memory of a chip to tokens,
// so that a reader can check it without the source.

#ifndef TIDEWHEEL_TOOLS_PLAN_REPORT_H_
#define TIDEWHEEL_TOOLS_PLAN_REPORT_H_

#include <string>
#include <vector>

#include "tools/model_config.h"
#include "tools/server_plan.h"

namespace tidewheel {

// Lines for a terminal of 80 columns, where no note is longer.
std::string PlanAsText(const ModelConfig& model,
                       const ServerPlanOptions& options,
                       const ServerPlan& plan);

// One object, keys in the order of the text, ending with a newline.
std::string PlanAsJson(const ModelConfig& model,
                       const ServerPlanOptions& options,
                       const ServerPlan& plan);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PLAN_REPORT_H_
