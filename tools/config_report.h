// ConfigReport: the answer of `tidewheel check` to a configuration, as text or
// JSON: its findings, what it needs, and the nearest that holds.
//
// It prints; config_check decides, nearest_configuration mends.
//
// Thread-safety: a pure function but for the stream.

#ifndef TIDEWHEEL_TOOLS_CONFIG_REPORT_H_
#define TIDEWHEEL_TOOLS_CONFIG_REPORT_H_

#include <cstdio>

#include "tools/config_check.h"

namespace tidewheel {

struct ConfigReportOptions {
  bool json = false;
};

// Returns 0 if no finding is an error, else 1.
//
// JSON: holds; findings (a list of severity, name, text); needs (those of
// pages_per_seq, smem_bytes, smem_limit_bytes, largest_max_num_seqs,
// num_kv_pages_per_block, num_queries_per_block, vmem_bytes,
// vmem_limit_bytes, block_reason, token_buckets, sequence_buckets that the
// errors leave defined); nearest, if it does not hold: null, or an object by
// flag name of what changed (an empty text means: leave the flag out).
int RunConfigReport(const ConfigurationShape& shape,
                    const ConfigReportOptions& options, std::FILE* out);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_CONFIG_REPORT_H_
