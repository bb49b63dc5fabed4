// The LLM inference traces of the Azure public dataset, 2023 and 2024:
// TIMESTAMP,ContextTokens,GeneratedTokens with calendar times (seven digits of
// a second in 2023; six and a zone in 2024). Source:
// github.com/Azure/AzurePublicDataset; Patel et al., Splitwise, ISCA 2024.

#ifndef TIDEWHEEL_TOOLS_TRACES_AZURE_TRACE_H_
#define TIDEWHEEL_TOOLS_TRACES_AZURE_TRACE_H_

#include "tools/traces/csv_trace.h"

namespace tidewheel {

const CsvTraceLayout& AzureTraceLayout();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_AZURE_TRACE_H_
