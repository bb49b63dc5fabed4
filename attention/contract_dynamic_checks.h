// The four checks of JAX's dynamic_validate_inputs on the values of a batch,
// in JAX's order, with JAX's texts and with JAX's arithmetic.
//
// These are the checks that follow the static ones: shapes and dtypes are
// taken to be right. ValidateDynamic of ragged_batch.h and of contract.h both
// end here.
//
// The arithmetic is int32 and wraps, as JAX's does. So a kv_len of
// 2^31 - page_size + 1 or more passes the page check (its division rounds up
// past the largest int32), and a q_len that overflows passes the last one.
//
// Thread-safety: pure functions. Allocates only to report an error.

#ifndef TIDEWHEEL_ATTENTION_CONTRACT_DYNAMIC_CHECKS_H_
#define TIDEWHEEL_ATTENTION_CONTRACT_DYNAMIC_CHECKS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "absl/strings/string_view.h"
#include "attention/contract_error.h"

namespace tidewheel {

struct DynamicValues {
  std::span<const int32_t> kv_lens;    // [max_num_seqs]
  std::span<const int32_t> cu_q_lens;  // [max_num_seqs + 1]
  int64_t num_seqs = 0;
  // JAX does not check this dtype: int16, uint32 and more reach the checks.
  absl::string_view num_seqs_dtype = "int32";
  // num_seqs of a dtype that is no integer, in place of `num_seqs`.
  std::optional<double> real_num_seqs = std::nullopt;
  int32_t max_num_seqs = 0;
  int32_t pages_per_seq = 0;
  int32_t page_size = 0;               // tokens
  int32_t max_num_batched_tokens = 0;  // tokens
};

// REQUIRES: the spans have the sizes written beside them, max_num_seqs >= 0,
// page_size >= 0.
JaxVerdict CheckDynamicValues(const DynamicValues& values,
                              ArraySpelling spelling);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_CONTRACT_DYNAMIC_CHECKS_H_
