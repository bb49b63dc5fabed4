// LimitsAgainst: predictions of TpuLimits beside verdicts of the TPU compiler.
//
// `tidewheel check --against FILE.csv` shows how far the rules can be trusted:
// for each sweep of the file (limits_csv.h) the confusion table, and every
// disagreement by its line and name. A compile that was given up counts
// neither way. Cases that a sweep bisects over vmem_limit also give the ratio
// of the predicted need to the smallest limit that was accepted, if the rows
// in the file close in on it.
//
// It judges nothing: disagreements are output, not errors.
//
// Thread-safety: pure functions but for the streams.

#ifndef TIDEWHEEL_TOOLS_LIMITS_AGAINST_H_
#define TIDEWHEEL_TOOLS_LIMITS_AGAINST_H_

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/limits_csv.h"

namespace tidewheel {

// A row whose verdict or class was predicted otherwise.
struct Disagreement {
  int64_t line = 0;
  std::string name;          // the shape and its limit
  std::string actual;        // "ok" or an error class
  std::string predicted;     // likewise
  std::string reason;        // the prediction's sentence
  bool may_compile = false;  // Verdict::may_compile: nothing was certain
  std::optional<int64_t> needed_bytes;  // as in Verdict
};

// One shape whose smallest accepted limit a sweep bisected.
struct BisectedCase {
  std::string name;
  int64_t predicted_need_bytes = 0;
  int64_t smallest_accepted_bytes = 0;
  int64_t largest_refused_bytes = 0;  // 0 if none was
  double ratio = 0.0;                 // need / accepted

  // Whether the limits that were tried enclose the true need to 5 %. Only
  // then does a ratio below 1 mean that the prediction is too low.
  bool is_closed() const;
};

struct SweepComparison {
  int64_t ok = 0;    // rows that compiled
  int64_t fail = 0;  // rows that did not
  int64_t timeouts = 0;
  std::vector<Disagreement> fail_predicted_ok;
  std::vector<Disagreement> ok_predicted_fail;  // also those that may compile
  // Both fail, for another reason.
  std::vector<Disagreement> other_class;
  // Rows by (actual, predicted), each "ok" or an error class.
  std::map<std::pair<std::string, std::string>, int64_t> confusion;
  // In order of ratio.
  std::vector<BisectedCase> bisected;
  // Those whose rows leave a gap.
  std::vector<BisectedCase> open_cases;
};

// By sweep. Only sweeps that are named *bisect* have bisected cases: other
// rows with a limit were not brought to the edge.
std::map<std::string, SweepComparison> CompareLimits(
    const std::vector<CompileVerdict>& rows);

struct LimitsAgainstOptions {
  std::string path;
  bool json = false;
};

// Prints the comparison to `out`; returns 0, or 1 with the reason on `err` if
// the file can not be read.
//
// JSON: an object by sweep, each with ok, fail, fail_predicted_ok,
// ok_predicted_fail, other_class and timeouts (counts), disagreements (a list
// of line, name, actual, predicted, reason, may_compile, needed_bytes or null),
// confusion (a list of actual, predicted, rows) and, where a sweep bisects,
// need_over_accepted (cases, open, min, median, max).
int RunLimitsAgainst(const LimitsAgainstOptions& options, std::FILE* out,
                     std::FILE* err);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_LIMITS_AGAINST_H_
