// PythonValue: a number as a Python caller passes it to JAX.
//
// JAX's checks look at more than the number: `1` is not a float and fails an
// assertion where `1.0` passes, np.float64 is a float and np.float32 is not,
// and an error prints the value the way Python does. So the kind travels with
// the number.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_ATTENTION_PYTHON_VALUE_H_
#define TIDEWHEEL_ATTENTION_PYTHON_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

class PythonValue {
 public:
  // None.
  PythonValue() = default;
  static PythonValue Bool(bool value);
  static PythonValue Int(int64_t value);
  static PythonValue Float(double value);
  // `np.int32(3)`: a scalar of one of numpy's own types.
  static PythonValue Numpy(absl::string_view dtype, double value);
  // What repr() prints of a number: "inf", "-inf", "nan", "np.float32(0.5)",
  // "np.True_", and plain numbers too.
  // Errors: InvalidArgument for any other text.
  static absl::StatusOr<PythonValue> Parse(absl::string_view text);

  bool is_none() const { return kind_ == Kind::kNone; }
  // isinstance(value, float): also np.float64.
  bool is_float() const;
  // The number, 0 or 1 for a bool.
  // REQUIRES: !is_none().
  double number() const;
  // The number cut to an integer in [least, most]; NaN becomes `least`.
  // REQUIRES: !is_none(); the bounds lie within +-2^62.
  int64_t ClampedInt(int64_t least, int64_t most) const;
  // value <= bound, value == bound, value > bound as Python compares them.
  // REQUIRES: !is_none().
  bool AtMost(int64_t bound) const;
  bool IsZero() const;
  // repr(value).
  std::string Repr() const;

 private:
  enum class Kind { kNone, kBool, kInt, kFloat, kNumpy };

  Kind kind_ = Kind::kNone;
  int64_t integer_ = 0;  // kBool, kInt
  double real_ = 0;      // kFloat, kNumpy
  std::string dtype_;    // kNumpy
};

// repr() of a Python float: the shortest digits that read back as `value`.
std::string FloatRepr(double value);
// The same digits for a float32, as numpy prints them.
std::string FloatRepr(float value);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PYTHON_VALUE_H_
