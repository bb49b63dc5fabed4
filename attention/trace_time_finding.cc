#include "attention/trace_time_finding.h"

#include "absl/strings/str_cat.h"
#include "attention/contract_dtype.h"
#include "attention/trace_time_contract.h"

namespace tidewheel {
namespace {

std::string Quoted(const JaxError& error) {
  return error.message.empty()
             ? absl::StrCat("(JAX: ", error.exception, " without a text)")
             : absl::StrCat("(JAX: ", error.exception, ": ", error.message,
                            ")");
}

// KV heads that a cache of `dtype` can have, as a list.
std::string AllowedKvHeads(absl::string_view dtype) {
  const int64_t bits = DtypeBits(dtype).value_or(32);
  // Combined heads over the packing are 1, 2, 4 or a multiple of 8.
  const int64_t packing = bits <= 32 ? 32 / bits : 1;
  std::string list;
  for (const int64_t words : {1, 2, 4}) {
    if (words * packing % 2 != 0) continue;
    absl::StrAppend(&list, words * packing / 2, ", ");
  }
  return absl::StrCat(list, "or a multiple of ", 4 * packing);
}

// The assertions of the kernel's body, which have no text of their own.
std::string ExplainAssertion(const ContractInputs& inputs,
                             const ContractOptions& options) {
  const absl::string_view q_dtype = NarrowedDtype(inputs.q.dtype);
  const absl::string_view kv_dtype = NarrowedDtype(inputs.kv_pages.dtype);
  if (q_dtype != "float32" && q_dtype != "bfloat16") {
    return absl::StrCat("q is ", q_dtype,
                        " and must be float32 or bfloat16; "
                        "convert the queries");
  }
  if (options.k_scale.is_none() != options.v_scale.is_none() &&
      kv_dtype != q_dtype) {
    return absl::StrCat(
        "only ", options.k_scale.is_none() ? "v_scale" : "k_scale",
        " is given for a cache of ", kv_dtype, " under queries of ", q_dtype,
        ", so K and V end in two dtypes; give both scales (1.0 for none) or "
        "neither");
  }
  if (inputs.q.shape[2] % 128 != 0) {
    return absl::StrCat("head_dim ", inputs.q.shape[2],
                        " must be a multiple of 128; pad q, K and V to ",
                        (inputs.q.shape[2] + 127) / 128 * 128);
  }
  return absl::StrCat("the kernel cannot take q of ", q_dtype,
                      " over pages of ", kv_dtype,
                      "; use bfloat16, or float8 with both scales");
}

std::string Explain(const ContractInputs& inputs,
                    const ContractOptions& options,
                    absl::string_view device_kind, const JaxError& error) {
  const int64_t num_q_heads = inputs.q.shape[1];
  const int64_t num_kv_heads = inputs.kv_pages.shape[2] / 2;
  const absl::string_view kv_dtype = NarrowedDtype(inputs.kv_pages.dtype);
  if (error.exception == "AssertionError" && error.message.empty()) {
    return ExplainAssertion(inputs, options);
  }
  if (error.exception == "AssertionError" ||
      error.message.find("TPU version") != std::string::npos ||
      error.message.find("invalid literal") != std::string::npos) {
    return absl::StrCat("JAX cannot choose block sizes on a device of kind \"",
                        device_kind,
                        "\"; give num_kv_pages_per_block and "
                        "num_queries_per_block");
  }
  if (error.message.find("fully tiled") != std::string::npos) {
    return absl::StrCat(num_kv_heads, " KV heads of ", kv_dtype,
                        " do not fill whole tiles and must be ",
                        AllowedKvHeads(kv_dtype),
                        "; repeat KV heads or shard them over fewer chips");
  }
  if (error.exception == "ZeroDivisionError") {
    return absl::StrCat("num_q_heads ", num_q_heads, " over ", num_kv_heads,
                        " KV heads, of ", inputs.q.dtype, " and ",
                        inputs.kv_pages.dtype,
                        ", leave the kernel nothing to "
                        "work on; give at least one query head a KV head and "
                        "dtypes of at most 32 bits");
  }
  if (error.exception == "VerificationError") {
    return "a block of one key can only be computed in float32; raise "
           "page_size or num_kv_pages_per_block so that a block holds 2 keys";
  }
  if (error.message.find("block shape") != std::string::npos) {
    return absl::StrCat("the kernel would work on blocks of fewer than 8 of ",
                        num_q_heads, " query heads over ", num_kv_heads,
                        " KV heads of ", kv_dtype,
                        "; use a cache of bfloat16 "
                        "or more query heads a KV head");
  }
  return absl::StrCat(
      "the kernel cannot take pages of ", kv_dtype,
      "; store KV as bfloat16, float8 or int8 with both scales");
}

}  // namespace

std::optional<std::string> TraceTimeFinding(const ContractInputs& inputs,
                                            const ContractOptions& options,
                                            absl::string_view device_kind) {
  const JaxVerdict error = CheckLowering(inputs, options, device_kind);
  if (!error.has_value()) return std::nullopt;
  return absl::StrCat(Explain(inputs, options, device_kind, *error), " ",
                      Quoted(*error));
}

}  // namespace tidewheel
