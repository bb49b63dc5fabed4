#include "attention/contract.h"

#include <limits>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/status_macros.h"
#include "attention/contract_dtype.h"
#include "attention/contract_dynamic_checks.h"

namespace tidewheel {
namespace {

JaxError ValueError(std::string message) {
  return {.exception = "ValueError", .message = std::move(message)};
}
JaxError AssertionError() {
  return {.exception = "AssertionError", .message = ""};
}

// repr() of a tuple: (), (2,), (1, 1).
std::string ShapeRepr(const std::vector<int64_t>& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "),
                      shape.size() == 1 ? ",)" : ")");
}

// `a, b = shape` with as many names as `rank` (Python 3.11's words).
JaxVerdict Unpack(const ContractArray& array, size_t rank) {
  if (array.shape.size() > rank) {
    return ValueError(
        absl::StrCat("too many values to unpack (expected ", rank, ")"));
  }
  if (array.shape.size() < rank) {
    return ValueError(absl::StrCat("not enough values to unpack (expected ",
                                   rank, ", got ", array.shape.size(), ")"));
  }
  return std::nullopt;
}

bool IsFloatOrNone(const PythonValue& value) {
  return value.is_none() || value.is_float();
}

// What comes before any check with a text: ranks, then bare assertions.
JaxVerdict CheckRanks(const ContractInputs& inputs,
                      const ContractOptions& options) {
  if (JaxVerdict error = Unpack(inputs.q, 3)) return error;
  if (JaxVerdict error = Unpack(inputs.kv_pages, 4)) return error;
  if (inputs.kv_pages.shape[2] % 2 != 0) return AssertionError();
  if (!IsFloatOrNone(options.k_scale)) return AssertionError();
  if (!IsFloatOrNone(options.v_scale)) return AssertionError();
  return Unpack(inputs.page_indices, 2);
}

// REQUIRES: CheckRanks passes.
JaxVerdict CheckShapes(const ContractInputs& inputs) {
  const int64_t head_dim = inputs.q.shape[2];
  const int64_t head_dim_k = inputs.kv_pages.shape[3];
  const int64_t max_num_seqs = inputs.page_indices.shape[0];
  if (inputs.num_seqs.shape != std::vector<int64_t>{1}) {
    return ValueError(absl::StrCat(
        "num_seqs.shape=", ShapeRepr(inputs.num_seqs.shape), " must be (1,)"));
  }
  if (head_dim_k != head_dim) {
    return ValueError(absl::StrCat("Q head_dim ", head_dim,
                                   " must be the same as that of K/V ",
                                   head_dim_k, "."));
  }
  constexpr absl::string_view kWhere =
      "where `max_num_seqs` is `page_indices.shape[0]`.";
  if (inputs.kv_lens.shape != std::vector<int64_t>{max_num_seqs}) {
    return ValueError(
        absl::StrCat("Expected kv_lens.shape=", ShapeRepr(inputs.kv_lens.shape),
                     " to be (", max_num_seqs, ",) ", kWhere));
  }
  if (inputs.cu_q_lens.shape != std::vector<int64_t>{max_num_seqs + 1}) {
    // Two spaces, as in JAX.
    return ValueError(absl::StrCat(
        "Expected cu_q_lens.shape=", ShapeRepr(inputs.cu_q_lens.shape),
        " to be (", max_num_seqs + 1, ",)  ", kWhere));
  }
  return std::nullopt;
}

std::string SpelledDtype(const ContractArray& array, ArraySpelling spelling) {
  return std::string(spelling == ArraySpelling::kJax
                         ? NarrowedDtype(array.dtype)
                         : absl::string_view(array.dtype));
}

JaxVerdict CheckIndexDtypes(const ContractInputs& inputs,
                            ArraySpelling spelling) {
  const std::string kv_lens = SpelledDtype(inputs.kv_lens, spelling);
  const std::string page_indices = SpelledDtype(inputs.page_indices, spelling);
  const std::string cu_q_lens = SpelledDtype(inputs.cu_q_lens, spelling);
  if (kv_lens == "int32" && page_indices == "int32" && cu_q_lens == "int32") {
    return std::nullopt;
  }
  return ValueError(absl::StrCat(
      "The dtype of `kv_lens`, `page_indices`, and `cu_q_lens` must be int32. "
      "Got kv_lens.dtype=",
      DtypeRepr(kv_lens), ", page_indices.dtype=", DtypeRepr(page_indices),
      ", cu_q_lens.dtype=", DtypeRepr(cu_q_lens), "."));
}

JaxVerdict CheckHeads(const ContractInputs& inputs) {
  const int64_t num_q_heads = inputs.q.shape[1];
  const int64_t num_kv_heads = inputs.kv_pages.shape[2] / 2;
  if (num_kv_heads == 0) {
    return JaxError{"ZeroDivisionError", "integer modulo by zero"};
  }
  if (num_q_heads % num_kv_heads == 0) return std::nullopt;
  return ValueError(
      absl::StrCat("num_q_heads=", num_q_heads,
                   " must be divisible by num_kv_heads=", num_kv_heads));
}

JaxVerdict CheckPositive(absl::string_view name, const PythonValue& value) {
  if (value.is_none() || !value.AtMost(0)) return std::nullopt;
  return ValueError(
      absl::StrCat(name, "=", value.Repr(), " must be positive."));
}

JaxVerdict CheckOptions(const ContractOptions& options, int64_t pages_per_seq) {
  if (JaxVerdict error =
          CheckPositive("sliding_window", options.sliding_window)) {
    return error;
  }
  if (!options.soft_cap.is_none() && options.soft_cap.IsZero()) {
    return ValueError(absl::StrCat("soft_cap=", options.soft_cap.Repr(),
                                   " must not be 0.0."));
  }
  const PythonValue& pages = options.num_kv_pages_per_block;
  // `not 0 < pages <= pages_per_seq`: a NaN is neither.
  if (!pages.is_none() &&
      !(pages.number() > 0 && pages.AtMost(pages_per_seq))) {
    return ValueError(absl::StrCat("num_kv_pages_per_block=", pages.Repr(),
                                   " must be in range (0, ", pages_per_seq,
                                   "]."));
  }
  if (JaxVerdict error = CheckPositive("num_queries_per_block",
                                       options.num_queries_per_block)) {
    return error;
  }
  return CheckPositive("vmem_limit_bytes", options.vmem_limit_bytes);
}

// The int32 values of a one-dimensional index array.
absl::StatusOr<std::vector<int32_t>> Int32Values(absl::string_view name,
                                                 const ContractArray& array) {
  if (!array.values.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     " has no values and the dynamic checks read them; "
                     "give its values beside its shape"));
  }
  if (static_cast<int64_t>(array.values->size()) != array.shape[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " has ", array.values->size(), " values and its shape says ",
        array.shape[0], "; make them agree"));
  }
  std::vector<int32_t> values;
  values.reserve(array.values->size());
  for (const int64_t value : *array.values) {
    if (value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, "[", values.size(), "] is ", value,
                       ", beyond int32; JAX's index arrays hold int32"));
    }
    values.push_back(static_cast<int32_t>(value));
  }
  return values;
}

// Puts num_seqs[0] and its dtype into `values`.
absl::Status ReadNumSeqs(const ContractArray& array, absl::string_view dtype,
                         DynamicValues& values) {
  const size_t integers = array.values.has_value() ? array.values->size() : 0;
  const size_t reals =
      array.real_values.has_value() ? array.real_values->size() : 0;
  if (integers + reals != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_seqs has ", integers + reals,
                     " values and must have 1; give the number of rows"));
  }
  values.num_seqs_dtype = dtype;
  if (integers == 1) {
    values.num_seqs = array.values->front();
  } else {
    values.real_num_seqs = array.real_values->front();
  }
  return absl::OkStatus();
}

absl::Status CheckDimensions(const ContractInputs& inputs) {
  for (const auto& [name, value] :
       {std::pair("max_num_seqs", inputs.page_indices.shape[0]),
        std::pair("pages_per_seq", inputs.page_indices.shape[1]),
        std::pair("page_size", inputs.kv_pages.shape[1]),
        std::pair("max_num_batched_tokens", inputs.q.shape[0])}) {
    if (value >= 0 && value <= std::numeric_limits<int32_t>::max()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", value,
                     " and must be in [0, 2147483647]; "
                     "arrays of JAX have such sizes"));
  }
  return absl::OkStatus();
}

}  // namespace

JaxVerdict ValidateStatic(const ContractInputs& inputs,
                          const ContractOptions& options,
                          ArraySpelling spelling) {
  if (JaxVerdict error = CheckRanks(inputs, options)) return error;
  if (JaxVerdict error = CheckShapes(inputs)) return error;
  if (JaxVerdict error = CheckIndexDtypes(inputs, spelling)) return error;
  if (JaxVerdict error = CheckHeads(inputs)) return error;
  return CheckOptions(options, inputs.page_indices.shape[1]);
}

absl::StatusOr<JaxVerdict> ValidateDynamic(const ContractInputs& inputs,
                                           const ContractOptions& options,
                                           ArraySpelling spelling) {
  if (JaxVerdict error = ValidateStatic(inputs, options, spelling)) {
    return error;
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckDimensions(inputs));
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::vector<int32_t> kv_lens,
                             Int32Values("kv_lens", inputs.kv_lens));
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::vector<int32_t> cu_q_lens,
                             Int32Values("cu_q_lens", inputs.cu_q_lens));
  const std::string num_seqs_dtype = SpelledDtype(inputs.num_seqs, spelling);
  DynamicValues values = {
      .kv_lens = kv_lens,
      .cu_q_lens = cu_q_lens,
      .max_num_seqs = static_cast<int32_t>(inputs.page_indices.shape[0]),
      .pages_per_seq = static_cast<int32_t>(inputs.page_indices.shape[1]),
      .page_size = static_cast<int32_t>(inputs.kv_pages.shape[1]),
      .max_num_batched_tokens = static_cast<int32_t>(inputs.q.shape[0])};
  TIDEWHEEL_RETURN_IF_ERROR(
      ReadNumSeqs(inputs.num_seqs, num_seqs_dtype, values));
  return CheckDynamicValues(values, spelling);
}

}  // namespace tidewheel
