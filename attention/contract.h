// The contract of JAX's ragged paged attention, over inputs of any kind.
//
// ValidateStatic and ValidateDynamic answer what static_validate_inputs and
// dynamic_validate_inputs of JAX 0.10.2 answer: whether the inputs pass, which
// check speaks first, the type of its exception and its text. Ranks may be
// wrong and dtypes may be anything.
//
// They are not what protects a TPU: see contract_strict_checks.h for what JAX
// leaves open and trace_time_contract.h for what comes after these checks.
//
// Checks of numpy arrays and of jax arrays differ: jnp.asarray narrows 64-bit
// dtypes first, elements print differently, and indices out of range do not
// fail. ArraySpelling says which of the two is asked.
//
// Thread-safety: pure functions over values.

#ifndef TIDEWHEEL_ATTENTION_CONTRACT_H_
#define TIDEWHEEL_ATTENTION_CONTRACT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/contract_error.h"
#include "attention/python_value.h"

namespace tidewheel {

struct ContractArray {
  std::vector<int64_t> shape;
  std::string dtype;
  // In C order; absent where only the shape and the dtype are known. Dtypes
  // that are not integers use `real_values`.
  std::optional<std::vector<int64_t>> values = std::nullopt;
  std::optional<std::vector<double>> real_values = std::nullopt;
};

struct ContractInputs {
  ContractArray q;         // [max_num_batched_tokens, num_q_heads, head_dim]
  ContractArray kv_pages;  // [total_num_pages, page_size,
                           //  2 * num_kv_heads, head_dim]
  ContractArray kv_lens;   // [max_num_seqs]
  ContractArray page_indices;  // [max_num_seqs, pages_per_seq]
  ContractArray cu_q_lens;     // [max_num_seqs + 1]
  ContractArray num_seqs;      // [1]
};

// None is each option's default, except that sm_scale's is 1.0.
struct ContractOptions {
  PythonValue sm_scale;
  PythonValue sliding_window;  // keys
  PythonValue soft_cap;
  PythonValue mask_value;
  PythonValue k_scale;
  PythonValue v_scale;
  PythonValue num_kv_pages_per_block;
  PythonValue num_queries_per_block;
  PythonValue vmem_limit_bytes;
};

JaxVerdict ValidateStatic(const ContractInputs& inputs,
                          const ContractOptions& options,
                          ArraySpelling spelling);

// Begins with the static checks, as JAX's does.
//
// Errors: InvalidArgument where the static checks pass and the values that the
// dynamic ones read are absent, fewer or more than the shape says, or beyond
// the dtype; JAX cannot be asked about such an array.
absl::StatusOr<JaxVerdict> ValidateDynamic(const ContractInputs& inputs,
                                           const ContractOptions& options,
                                           ArraySpelling spelling);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_CONTRACT_H_
