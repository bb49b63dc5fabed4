// CompileReport: a compiler's verdicts beside what was predicted, as text or
// JSON.
//
// It judges each verdict: whether the prediction holds, and whether the pool
// is in place. A pool is in place if the program reuses all of its bytes
// (alias) and has not the temporary memory that a copy of it would take.
//
// Lifecycle: 1. Begin. 2. Add, in the order of the output. 3. End.
//
// Thread-safety: one call at a time.

#ifndef TIDEWHEEL_TOOLS_PJRT_COMPILE_REPORT_H_
#define TIDEWHEEL_TOOLS_PJRT_COMPILE_REPORT_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "tools/pjrt/compile_job.h"
#include "tools/pjrt/compile_run.h"

namespace tidewheel {

enum class CompileAgreement {
  kAgrees,
  kOpen,     // nothing certain was predicted: the limit is between two bounds
  kWrong,    // a prediction that does not hold
  kUnknown,  // no verdict: timed out or died
};

struct CompileJudgement {
  CompileAgreement agreement = CompileAgreement::kAgrees;
  bool pool_in_place = false;  // of a compiled program
  std::string error_class;     // of a refused one
  std::string text;            // what does not hold; empty if all does
};

CompileJudgement Judge(const CompileJob& job, const CompileOutcome& outcome);

class CompileReport {
 public:
  CompileReport(bool json, std::FILE* out) : json_(json), out_(out) {}

  void Begin(const nlohmann::ordered_json& plugin);
  void Add(const CompileJob& job, const CompileOutcome& outcome);
  // JSON: plugin; shapes, a list of what was compiled (chip, program, sizes and
  // types, file and blocks of a kernel), predicted (compiles, failure,
  // may_compile, text, needed_bytes, limit_bytes, temp_bound_bytes), verdict
  // ("compiled", "refused", "timed out", "died"), agreement ("agrees", "open",
  // "wrong", "unknown"), seconds and what belongs to the verdict; and the
  // counts.
  void End();

  // 0 if all compiled and none against its prediction, else 1.
  int exit_code() const {
    const bool all_compiled = num_compiled_ == num_shapes_;
    return all_compiled && num_agree_ + num_open_ == num_shapes_ ? 0 : 1;
  }

 private:
  void Print(const CompileJob& job, const CompileOutcome& outcome,
             const CompileJudgement& judgement) const;
  void PrintParagraph(absl::string_view text) const;

  const bool json_;
  std::FILE* const out_;
  nlohmann::ordered_json report_;
  int64_t num_shapes_ = 0;
  int64_t num_compiled_ = 0;
  int64_t num_agree_ = 0;
  int64_t num_open_ = 0;
  int64_t num_unknown_ = 0;
  double seconds_ = 0;
  int64_t peak_resident_bytes_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_COMPILE_REPORT_H_
