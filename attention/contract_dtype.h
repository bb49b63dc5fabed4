// Names of array element types, as numpy and JAX spell them.
//
// A dtype here is any name that a caller may put on an array ("float32",
// "float8_e4m3fn", "int4"), including those that no kernel takes: refusing them
// with JAX's words is the point. scalar_types.h has the few that this project
// computes with.

#ifndef TIDEWHEEL_ATTENTION_CONTRACT_DTYPE_H_
#define TIDEWHEEL_ATTENTION_CONTRACT_DTYPE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tidewheel {

// repr() of the dtype: dtype('int32'), but dtype(bfloat16), since types that
// numpy lacks come from ml_dtypes, which prints them without quotes.
std::string DtypeRepr(absl::string_view dtype);

// What jnp.asarray and jit make of the dtype while 64-bit types are off:
// int64 becomes int32, float64 float32. Others stay.
absl::string_view NarrowedDtype(absl::string_view dtype);

// Bits of an element; absent for a name that is not known here.
std::optional<int> DtypeBits(absl::string_view dtype);

bool IsFloatingDtype(absl::string_view dtype);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_CONTRACT_DTYPE_H_
