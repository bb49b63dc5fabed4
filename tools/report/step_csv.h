// A simulation's steps as CSV, one line each.

#ifndef TIDEWHEEL_TOOLS_REPORT_STEP_CSV_H_
#define TIDEWHEEL_TOOLS_REPORT_STEP_CSV_H_

#include <string>

#include "tools/output_file.h"
#include "tools/simulation.h"

namespace tidewheel {

void WriteStepCsvHeader(OutputFile& file);
void WriteStepCsvLine(const StepRecord& step, OutputFile& file);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_STEP_CSV_H_
