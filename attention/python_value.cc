#include "attention/python_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "allocator/check.h"
#include "attention/contract_dtype.h"

namespace tidewheel {
namespace {

// With an exponent below 1e-4 and from `least_scientific` on.
template <typename Real>
std::string ShortestRepr(Real value, double least_scientific) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::fabs(static_cast<double>(value));
  const bool scientific =
      size != 0 && (size < 1e-4 || size >= least_scientific);
  char buffer[64];
  const auto end = std::to_chars(
      buffer, buffer + sizeof(buffer), value,
      scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer, end.ptr);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string FloatRepr(double value) { return ShortestRepr(value, 1e16); }
std::string FloatRepr(float value) { return ShortestRepr(value, 1e6); }

PythonValue PythonValue::Bool(bool value) {
  PythonValue result;
  result.kind_ = Kind::kBool;
  result.integer_ = value ? 1 : 0;
  return result;
}

PythonValue PythonValue::Int(int64_t value) {
  PythonValue result;
  result.kind_ = Kind::kInt;
  result.integer_ = value;
  return result;
}

PythonValue PythonValue::Float(double value) {
  PythonValue result;
  result.kind_ = Kind::kFloat;
  result.real_ = value;
  return result;
}

PythonValue PythonValue::Numpy(absl::string_view dtype, double value) {
  PythonValue result;
  result.kind_ = Kind::kNumpy;
  result.dtype_ = std::string(dtype);
  result.real_ = value;
  return result;
}

absl::StatusOr<PythonValue> PythonValue::Parse(absl::string_view text) {
  if (text == "None") return PythonValue();
  if (text == "True" || text == "False") return Bool(text == "True");
  if (text == "np.True_") return Numpy("bool", 1);
  if (text == "np.False_") return Numpy("bool", 0);
  absl::string_view rest = text;
  double real = 0;
  if (absl::ConsumePrefix(&rest, "np.") && absl::ConsumeSuffix(&rest, ")")) {
    const size_t open = rest.find('(');
    if (open != absl::string_view::npos &&
        DtypeBits(rest.substr(0, open)).has_value() &&
        absl::SimpleAtod(rest.substr(open + 1), &real)) {
      return Numpy(rest.substr(0, open), real);
    }
  } else {
    int64_t integer = 0;
    if (absl::SimpleAtoi(text, &integer)) return Int(integer);
    if (absl::SimpleAtod(text, &real)) return Float(real);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text.substr(0, 40),
                   "\" is not a number as Python prints it; write a number, "
                   "\"-inf\" or \"np.float32(0.5)\""));
}

bool PythonValue::is_float() const {
  return kind_ == Kind::kFloat ||
         (kind_ == Kind::kNumpy && dtype_ == "float64");
}

double PythonValue::number() const {
  TIDEWHEEL_CHECK(!is_none());
  const bool whole = kind_ == Kind::kBool || kind_ == Kind::kInt;
  return whole ? static_cast<double>(integer_) : real_;
}

int64_t PythonValue::ClampedInt(int64_t least, int64_t most) const {
  TIDEWHEEL_CHECK(!is_none());
  if (kind_ == Kind::kBool || kind_ == Kind::kInt) {
    return std::clamp(integer_, least, most);
  }
  if (std::isnan(real_) || real_ <= static_cast<double>(least)) return least;
  if (real_ >= static_cast<double>(most)) return most;
  return static_cast<int64_t>(real_);
}

bool PythonValue::AtMost(int64_t bound) const {
  TIDEWHEEL_CHECK(!is_none());
  if (kind_ == Kind::kBool || kind_ == Kind::kInt) return integer_ <= bound;
  return real_ <= static_cast<double>(bound);
}

bool PythonValue::IsZero() const { return number() == 0; }

std::string PythonValue::Repr() const {
  switch (kind_) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return integer_ != 0 ? "True" : "False";
    case Kind::kInt:
      return absl::StrCat(integer_);
    case Kind::kFloat:
      return FloatRepr(real_);
    case Kind::kNumpy:
      break;
  }
  if (dtype_ == "bool") return real_ != 0 ? "np.True_" : "np.False_";
  const std::string number =
      !IsFloatingDtype(dtype_)
          ? absl::StrCat(static_cast<int64_t>(real_))
          : (dtype_ == "float64" ? FloatRepr(real_)
                                 : FloatRepr(static_cast<float>(real_)));
  return absl::StrCat("np.", dtype_, "(", number, ")");
}

}  // namespace tidewheel
