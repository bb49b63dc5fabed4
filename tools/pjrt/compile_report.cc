#include "tools/pjrt/compile_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "tools/pjrt/wrapped_text.h"

namespace tidewheel {
namespace {

using Json = nlohmann::ordered_json;
using Fate = CompileOutcome::Fate;

constexpr size_t kIndent = 4;
// Of a compiler's words on a terminal; JSON has all of them.
constexpr size_t kMaxTextBytes = 600;

std::string Mebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f", static_cast<double>(bytes) / (1 << 20));
}

const char* FateName(Fate fate) {
  switch (fate) {
    case Fate::kCompiled:
      return "compiled";
    case Fate::kRefused:
      return "refused";
    case Fate::kTimedOut:
      return "timed out";
    case Fate::kDied:
      return "died";
  }
  TIDEWHEEL_CHECK(false);
}

const char* AgreementName(CompileAgreement agreement) {
  switch (agreement) {
    case CompileAgreement::kAgrees:
      return "agrees";
    case CompileAgreement::kOpen:
      return "open";
    case CompileAgreement::kWrong:
      return "wrong";
    case CompileAgreement::kUnknown:
      return "unknown";
  }
  TIDEWHEEL_CHECK(false);
}

// What of the pool and of the temporary memory does not hold; empty if all
// does.
std::string MemoryFault(const CompileJob& job,
                        const PjrtCompiledMemoryStats& memory) {
  if (memory.alias_bytes < job.pool_bytes) {
    return absl::StrCat("the program reuses ", memory.alias_bytes, " of the ",
                        job.pool_bytes,
                        " bytes of its donated pool: each launch needs a "
                        "second pool");
  }
  const std::optional<int64_t> bound = job.prediction.temp_bound_bytes;
  if (bound.has_value() && memory.temp_bytes > *bound) {
    return absl::StrCat(
        "the program takes ", memory.temp_bytes, " bytes of temporary memory, ",
        "above the bound of ", *bound, ", and the pool has ", job.pool_bytes,
        memory.temp_bytes >= job.pool_bytes ? ": it may copy its pool" : "");
  }
  if (!bound.has_value() && memory.temp_bytes >= job.pool_bytes) {
    return absl::StrCat("the program takes ", memory.temp_bytes,
                        " bytes of temporary memory and may copy its pool of ",
                        job.pool_bytes, "; give a larger pool to tell");
  }
  return "";
}

Json OrNull(const std::optional<int64_t>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json ShapeJson(const CompileJob& job) {
  const AttentionProgramShape& shape = job.shape;
  Json json = {{"chip", std::string(TpuGenerationName(job.generation))},
               {"program", job.program},
               {"num_tokens", shape.num_tokens},
               {"max_num_seqs", shape.max_num_seqs},
               {"pages_per_seq", shape.pages_per_seq},
               {"page_size", shape.page_size},
               {"total_num_pages", shape.total_num_pages},
               {"num_q_heads", shape.num_q_heads},
               {"num_kv_heads", shape.num_kv_heads},
               {"head_dim", shape.head_dim},
               {"q_dtype", std::string(ScalarTypeName(shape.q_type))},
               {"kv_dtype", std::string(ScalarTypeName(shape.kv_type))}};
  if (job.kernel.has_value()) {
    json["file"] = job.file;
    json["num_kv_pages_per_block"] = job.kernel->num_kv_pages_per_block;
    json["num_queries_per_block"] = job.kernel->num_queries_per_block;
  }
  json["pool_bytes"] = job.pool_bytes;
  json["predicted"] = {
      {"compiles", job.prediction.compiles()},
      {"failure", job.prediction.failure},
      {"may_compile", job.prediction.may_compile},
      {"text", job.prediction.text},
      {"needed_bytes", OrNull(job.prediction.needed_bytes)},
      {"limit_bytes", OrNull(job.prediction.limit_bytes)},
      {"temp_bound_bytes", OrNull(job.prediction.temp_bound_bytes)}};
  return json;
}

void AddVerdict(const CompileOutcome& outcome,
                const CompileJudgement& judgement, Json& json) {
  json["verdict"] = FateName(outcome.fate);
  json["agreement"] = AgreementName(judgement.agreement);
  json["seconds"] = outcome.seconds;
  if (!judgement.text.empty()) json["disagreement"] = judgement.text;
  if (outcome.fate != Fate::kCompiled) {
    json["error_class"] = judgement.error_class;
    json["error"] = outcome.text;
    return;
  }
  const PjrtCompiledMemoryStats& memory = outcome.memory;
  json["pool_in_place"] = judgement.pool_in_place;
  json["argument_bytes"] = memory.argument_bytes;
  json["output_bytes"] = memory.output_bytes;
  json["alias_bytes"] = memory.alias_bytes;
  json["temp_bytes"] = memory.temp_bytes;
  json["generated_code_bytes"] = memory.generated_code_bytes;
}

std::string VerdictText(const CompileOutcome& outcome,
                        const CompileJudgement& judgement) {
  const std::string seconds = absl::StrFormat("%.1f s", outcome.seconds);
  if (outcome.fate != Fate::kCompiled) {
    return absl::StrCat(FateName(outcome.fate), " after ", seconds,
                        judgement.error_class.empty() ? "" : ", ",
                        judgement.error_class, ": ",
                        outcome.text.substr(0, kMaxTextBytes),
                        outcome.text.size() > kMaxTextBytes ? " ..." : "");
  }
  const PjrtCompiledMemoryStats& memory = outcome.memory;
  return absl::StrCat(
      "compiled in ", seconds, "; MiB: arguments ",
      Mebibytes(memory.argument_bytes), ", aliased ",
      Mebibytes(memory.alias_bytes), ", temporary ",
      Mebibytes(memory.temp_bytes), ", code ",
      Mebibytes(memory.generated_code_bytes), "; pool ",
      judgement.pool_in_place ? "in place, not copied" : "NOT in place");
}

std::string PredictionText(const CompilePrediction& prediction) {
  std::string text = prediction.text;
  if (!prediction.compiles()) {
    text = absl::StrCat(prediction.may_compile ? "perhaps " : "",
                        prediction.failure, ": ", text);
  }
  if (prediction.temp_bound_bytes.has_value()) {
    absl::StrAppend(&text, ", temporary at most ",
                    Mebibytes(*prediction.temp_bound_bytes), " MiB");
  }
  return text;
}

}  // namespace

CompileJudgement Judge(const CompileJob& job, const CompileOutcome& outcome) {
  CompileJudgement judgement;
  const bool predicted_ok = job.prediction.compiles();
  switch (outcome.fate) {
    case Fate::kTimedOut:
    case Fate::kDied:
      judgement.agreement = CompileAgreement::kUnknown;
      judgement.text = "there is no verdict to compare with";
      return judgement;
    case Fate::kRefused:
      judgement.error_class = std::string(ClassOfCompilerError(outcome.text));
      if (job.prediction.may_compile) {
        judgement.agreement = CompileAgreement::kOpen;
      } else if (predicted_ok) {
        judgement.agreement = CompileAgreement::kWrong;
        judgement.text =
            judgement.error_class == "oom_hbm"
                ? "the rules do not look at the device's memory; give fewer "
                  "pages"
                : "it was predicted to compile";
      }
      return judgement;
    case Fate::kCompiled:
      break;
  }
  judgement.text = MemoryFault(job, outcome.memory);
  judgement.pool_in_place = outcome.memory.alias_bytes >= job.pool_bytes &&
                            outcome.memory.temp_bytes < job.pool_bytes;
  if (!judgement.text.empty()) {
    judgement.agreement = CompileAgreement::kWrong;
  } else if (job.prediction.may_compile) {
    judgement.agreement = CompileAgreement::kOpen;
  } else if (!predicted_ok) {
    judgement.agreement = CompileAgreement::kWrong;
    judgement.text = "it was predicted not to compile";
  }
  return judgement;
}

void CompileReport::Begin(const Json& plugin) {
  report_ = {{"plugin", plugin}, {"shapes", Json::array()}};
  if (json_) return;
  std::fprintf(out_, "compiler    %s\n            PJRT %s, StableHLO %s\n",
               plugin.value("path", "").c_str(),
               plugin.value("pjrt_version", "").c_str(),
               plugin["stablehlo_version"].is_string()
                   ? plugin.value("stablehlo_version", "").c_str()
                   : "of unknown version");
  std::fflush(out_);
}

void CompileReport::Add(const CompileJob& job, const CompileOutcome& outcome) {
  const CompileJudgement judgement = Judge(job, outcome);
  ++num_shapes_;
  if (outcome.fate == Fate::kCompiled) ++num_compiled_;
  switch (judgement.agreement) {
    case CompileAgreement::kAgrees:
      ++num_agree_;
      break;
    case CompileAgreement::kOpen:
      ++num_open_;
      break;
    case CompileAgreement::kUnknown:
      ++num_unknown_;
      break;
    case CompileAgreement::kWrong:
      break;
  }
  seconds_ += outcome.seconds;
  peak_resident_bytes_ =
      std::max(peak_resident_bytes_, outcome.peak_resident_bytes);
  if (!json_) return Print(job, outcome, judgement);
  Json json = ShapeJson(job);
  AddVerdict(outcome, judgement, json);
  report_["shapes"].push_back(std::move(json));
}

void CompileReport::PrintParagraph(absl::string_view text) const {
  std::fprintf(
      out_, "%*s%s\n", static_cast<int>(kIndent), "",
      WrapText(text, {.first_column = kIndent, .indent = kIndent + 2}).c_str());
}

void CompileReport::Print(const CompileJob& job, const CompileOutcome& outcome,
                          const CompileJudgement& judgement) const {
  std::fprintf(out_, "\n%s\n",
               WrapText(job.Name(), {.indent = kIndent}).c_str());
  PrintParagraph(VerdictText(outcome, judgement));
  PrintParagraph(absl::StrCat("predicted: ", PredictionText(job.prediction)));
  if (!judgement.text.empty()) {
    PrintParagraph(absl::StrCat(
        judgement.agreement == CompileAgreement::kUnknown ? "UNKNOWN: "
                                                          : "DISAGREES: ",
        judgement.text));
  }
  std::fflush(out_);
}

void CompileReport::End() {
  const int64_t num_wrong = num_shapes_ - num_agree_ - num_open_ - num_unknown_;
  if (json_) {
    report_["num_shapes"] = num_shapes_;
    report_["num_compiled"] = num_compiled_;
    report_["num_agree"] = num_agree_;
    report_["num_open"] = num_open_;
    report_["num_wrong"] = num_wrong;
    report_["num_unknown"] = num_unknown_;
    report_["seconds"] = seconds_;
    report_["peak_resident_bytes"] = peak_resident_bytes_;
    std::fprintf(
        out_, "%s\n",
        report_.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  std::fprintf(
      out_, "\n%s\n",
      WrapText(absl::StrCat(
                   num_compiled_, " of ", num_shapes_,
                   " shapes compile; the prediction agrees on ", num_agree_,
                   ", leaves ", num_open_, " open, is wrong on ", num_wrong,
                   "; ", num_unknown_, " without a verdict. ",
                   absl::StrFormat("%.1f s of compiling, ", seconds_),
                   Mebibytes(peak_resident_bytes_), " MiB resident at most"),
               {.indent = kIndent})
          .c_str());
}

}  // namespace tidewheel
