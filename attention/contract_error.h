// JaxError: how JAX refuses an input, as it would be seen in Python.
//
// The checks here repeat those of JAX 0.10.2
// (jax/experimental/pallas/ops/tpu/ragged_paged_attention/kernel.py, blob
// 5ddeab27), so a refusal is the type of the exception and its text, letter by
// letter. An AssertionError of that file has no text.

#ifndef TIDEWHEEL_ATTENTION_CONTRACT_ERROR_H_
#define TIDEWHEEL_ATTENTION_CONTRACT_ERROR_H_

#include <optional>
#include <string>

namespace tidewheel {

struct JaxError {
  std::string exception;  // "ValueError", "AssertionError", ...
  std::string message;

  friend bool operator==(const JaxError&, const JaxError&) = default;
};

// Absent: the check passes.
using JaxVerdict = std::optional<JaxError>;

// What a call of JAX returns, or what it raises instead.
template <typename T>
struct JaxResult {
  T value = {};
  JaxVerdict error = std::nullopt;
};

// Which library the caller's index arrays belong to. It decides how an element
// prints (`Array(4, dtype=int32)` or `np.int32(4)`) and what happens to 64-bit
// arrays and to indices out of range.
enum class ArraySpelling { kJax, kNumpy };

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_CONTRACT_ERROR_H_
