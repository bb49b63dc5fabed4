// PjrtNamedValue: an option or attribute of a plugin: a name with a string, an
// integer, a list of integers, a float or a bool.
//
// PjrtNamedValueArray holds the same values in the form that the C API reads.
//
// Thread-safety: values.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_NAMED_VALUE_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_NAMED_VALUE_H_

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "attention/pjrt/pjrt_c_api.h"

namespace tidewheel {

struct PjrtNamedValue {
  std::string name;
  std::variant<std::string, int64_t, std::vector<int64_t>, float, bool> value;

  // "name=value", lists as "[1,1,1]".
  std::string ToString() const;
};

// Copies what a plugin holds. Values of a type that is not known here are
// left out: newer plugins may have more types.
std::vector<PjrtNamedValue> CopyNamedValues(
    std::span<const pjrt_abi::NamedValue> values);

// Reads the values that it was made of, so they must outlive it.
class PjrtNamedValueArray {
 public:
  explicit PjrtNamedValueArray(std::span<const PjrtNamedValue> values);

  const pjrt_abi::NamedValue* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  std::vector<pjrt_abi::NamedValue> values_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_NAMED_VALUE_H_
