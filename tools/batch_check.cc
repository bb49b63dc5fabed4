#include "tools/batch_check.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/attention_backend.h"
#include "attention/contract.h"
#include "attention/contract_dtype.h"
#include "attention/contract_strict_checks.h"
#include "attention/trace_time_contract.h"
#include "attention/trace_time_finding.h"
#include "tools/command_context.h"
#include "tools/limit_findings.h"

namespace tidewheel {
namespace {

SpelledVerdict Static(const BatchFile& file) {
  return {.jax = ValidateStatic(file.inputs, file.options, ArraySpelling::kJax),
          .numpy =
              ValidateStatic(file.inputs, file.options, ArraySpelling::kNumpy)};
}

// A file that was read has values for every index array, as many as its shape
// says and within int32, so JAX can always be asked.
JaxVerdict Dynamic(const BatchFile& file, ArraySpelling spelling) {
  const absl::StatusOr<JaxVerdict> verdict =
      ValidateDynamic(file.inputs, file.options, spelling);
  TIDEWHEEL_CHECK(verdict.ok());
  return *verdict;
}

std::vector<int32_t> Int32s(const ContractArray& array) {
  std::vector<int32_t> values;
  values.reserve(array.values->size());
  for (const int64_t value : *array.values) {
    values.push_back(static_cast<int32_t>(value));
  }
  return values;
}

// num_seqs[0] as a kernel would read it; a dtype that is not int32 is a
// finding, since JAX does not look at it.
int32_t NumSeqs(const ContractArray& array,
                std::vector<std::string>& findings) {
  if (NarrowedDtype(array.dtype) != "int32") {
    findings.push_back(absl::StrCat("num_seqs has dtype ", array.dtype,
                                    " and must be int32, which JAX "
                                    "does not check; convert it"));
  }
  if (array.values.has_value()) {
    return static_cast<int32_t>(array.values->front());
  }
  constexpr double kLargest = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(
      std::clamp(array.real_values->front(), -kLargest, kLargest));
}

// Tokens; absent without a window, or where the mask does not hide what lies
// before it.
std::optional<int64_t> HidingWindow(const ContractOptions& options) {
  const PythonValue& window = options.sliding_window;
  const PythonValue& mask = options.mask_value;
  if (window.is_none()) return std::nullopt;
  if (!mask.is_none() && !(mask.number() <= kHidingMaskValue)) {
    return std::nullopt;
  }
  // Beyond every kv_len all windows are alike.
  return window.ClampedInt(1, int64_t{1} << 32);
}

// REQUIRES: the static checks pass for jax arrays.
std::vector<std::string> Strict(const BatchFile& file) {
  const ContractInputs& inputs = file.inputs;
  std::vector<std::string> findings;
  const std::vector<int32_t> kv_lens = Int32s(inputs.kv_lens);
  const std::vector<int32_t> page_indices = Int32s(inputs.page_indices);
  const std::vector<int32_t> cu_q_lens = Int32s(inputs.cu_q_lens);
  const RaggedBatch batch = {
      .kv_lens = kv_lens,
      .page_indices = page_indices,
      .cu_q_lens = cu_q_lens,
      .num_seqs = NumSeqs(inputs.num_seqs, findings),
      .max_num_seqs = static_cast<int32_t>(inputs.page_indices.shape[0]),
      .pages_per_seq = static_cast<int32_t>(inputs.page_indices.shape[1]),
      .page_size = static_cast<int32_t>(inputs.kv_pages.shape[1]),
      .total_num_pages = static_cast<int32_t>(inputs.kv_pages.shape[0]),
      .max_num_batched_tokens = static_cast<int32_t>(inputs.q.shape[0])};
  const std::vector<std::string> rows =
      StrictFindings(batch, {.sliding_window = HidingWindow(file.options),
                             .scheduler_layout = false});
  findings.insert(findings.end(), rows.begin(), rows.end());
  return findings;
}

nlohmann::ordered_json AsJson(const JaxVerdict& verdict) {
  nlohmann::ordered_json json;
  json["passes"] = !verdict.has_value();
  json["exception"] = nullptr;
  json["message"] = nullptr;
  if (verdict.has_value()) {
    json["exception"] = verdict->exception;
    json["message"] = verdict->message;
  }
  return json;
}

nlohmann::ordered_json AsJson(const SpelledVerdict& verdict) {
  nlohmann::ordered_json json = AsJson(verdict.jax);
  json["numpy"] = AsJson(verdict.numpy);
  return json;
}

void AppendVerdict(std::string& text, const char* title,
                   const JaxVerdict& verdict) {
  absl::StrAppend(&text, title);
  if (!verdict.has_value()) {
    absl::StrAppend(&text, "passes\n");
  } else if (verdict->message.empty()) {
    absl::StrAppend(&text, verdict->exception, " (without a text)\n");
  } else {
    absl::StrAppend(&text, verdict->exception, ": ", verdict->message, "\n");
  }
}

void AppendVerdict(std::string& text, const char* title,
                   const SpelledVerdict& verdict) {
  AppendVerdict(text, title, verdict.jax);
  if (verdict.numpy != verdict.jax) {
    AppendVerdict(text, "  with numpy arrays  ", verdict.numpy);
  }
}

void AppendFindings(std::string& text, absl::string_view title, bool was_asked,
                    const std::vector<std::string>& findings) {
  const char* none = was_asked ? "none" : "not asked before the shapes hold";
  absl::StrAppend(&text, title, findings.empty() ? none : "", "\n");
  for (const std::string& finding : findings) {
    absl::StrAppend(&text, "  - ", finding, "\n");
  }
}

}  // namespace

bool BatchCheck::holds() const {
  return !jax_static.jax.has_value() && !jax_dynamic.jax.has_value() &&
         !jax_trace.has_value() && strict.empty() && limits.empty();
}

BatchCheck CheckBatch(const BatchFile& file, TpuGeneration generation) {
  const absl::string_view device_kind = DeviceKind(generation);
  BatchCheck check;
  check.generation = generation;
  check.jax_static = Static(file);
  check.jax_dynamic = {.jax = Dynamic(file, ArraySpelling::kJax),
                       .numpy = Dynamic(file, ArraySpelling::kNumpy)};
  check.jax_trace = CheckLowering(file.inputs, file.options, device_kind);
  if (check.jax_static.jax.has_value()) return check;
  if (std::optional<std::string> finding =
          TraceTimeFinding(file.inputs, file.options, device_kind)) {
    check.trace.push_back(*std::move(finding));
  }
  check.strict = Strict(file);
  check.limits = LimitFindings(file.inputs, file.options, generation);
  return check;
}

std::string BatchCheckAsText(const BatchCheck& check) {
  const bool was_asked = !check.jax_static.jax.has_value();
  std::string text;
  AppendVerdict(text, "JAX, static checks   ", check.jax_static);
  AppendVerdict(text, "JAX, dynamic checks  ", check.jax_dynamic);
  AppendFindings(text, "JAX, tracing         ", was_asked, check.trace);
  AppendFindings(text, "strict findings      ", was_asked, check.strict);
  AppendFindings(text,
                 absl::StrCat("limits of ", TpuGenerationName(check.generation),
                              "        "),
                 was_asked, check.limits);
  absl::StrAppend(&text, check.holds() ? "All hold.\n" : "Not all hold.\n");
  return text;
}

std::string BatchCheckAsJson(const BatchCheck& check) {
  nlohmann::ordered_json json;
  json["jax_static"] = AsJson(check.jax_static);
  json["jax_dynamic"] = AsJson(check.jax_dynamic);
  json["jax_trace"] = AsJson(check.jax_trace);
  json["trace"] = check.trace;
  json["strict"] = check.strict;
  json["limits"] = check.limits;
  json["chip"] = std::string(TpuGenerationName(check.generation));
  json["holds"] = check.holds();
  return json.dump(2) + "\n";
}

int RunBatchCheck(const BatchCheckOptions& options, std::FILE* out,
                  std::FILE* err) {
  const absl::StatusOr<TpuGeneration> generation =
      ParseTpuGeneration(options.chip);
  const absl::StatusOr<BatchFile> file = ReadBatchFile(options.path);
  for (const absl::Status& status : {generation.status(), file.status()}) {
    if (status.ok()) continue;
    const std::string message(status.message());
    std::fprintf(err, "tidewheel check: %s\n", message.c_str());
    return kExitBadInput;
  }
  const BatchCheck check = CheckBatch(*file, *generation);
  const std::string text =
      options.json ? BatchCheckAsJson(check) : BatchCheckAsText(check);
  std::fputs(text.c_str(), out);
  return check.holds() ? 0 : 1;
}

}  // namespace tidewheel
