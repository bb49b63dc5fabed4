#include "attention/pjrt/pjrt_named_value.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tidewheel {
namespace {

using pjrt_abi::NamedValueType;

struct ValueText {
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(const std::vector<int64_t>& value) const {
    return absl::StrCat("[", absl::StrJoin(value, ","), "]");
  }
  std::string operator()(float value) const { return absl::StrCat(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
};

// Writes a value into the union of the C struct.
struct ValueWriter {
  pjrt_abi::NamedValue* target;

  void operator()(const std::string& value) const {
    target->type = NamedValueType::kString;
    target->string_value = value.data();
    target->value_size = value.size();
  }
  void operator()(int64_t value) const {
    target->type = NamedValueType::kInt64;
    target->int64_value = value;
  }
  void operator()(const std::vector<int64_t>& value) const {
    target->type = NamedValueType::kInt64List;
    target->int64_array_value = value.data();
    target->value_size = value.size();
  }
  void operator()(float value) const {
    target->type = NamedValueType::kFloat;
    target->float_value = value;
  }
  void operator()(bool value) const {
    target->type = NamedValueType::kBool;
    target->bool_value = value;
  }
};

}  // namespace

std::string PjrtNamedValue::ToString() const {
  return absl::StrCat(name, "=", std::visit(ValueText(), value));
}

std::vector<PjrtNamedValue> CopyNamedValues(
    std::span<const pjrt_abi::NamedValue> values) {
  std::vector<PjrtNamedValue> copies;
  for (const pjrt_abi::NamedValue& value : values) {
    PjrtNamedValue copy;
    copy.name.assign(value.name, value.name_size);
    switch (value.type) {
      case NamedValueType::kString:
        copy.value = std::string(value.string_value, value.value_size);
        break;
      case NamedValueType::kInt64:
        copy.value = value.int64_value;
        break;
      case NamedValueType::kInt64List:
        copy.value =
            std::vector<int64_t>(value.int64_array_value,
                                 value.int64_array_value + value.value_size);
        break;
      case NamedValueType::kFloat:
        copy.value = value.float_value;
        break;
      case NamedValueType::kBool:
        copy.value = value.bool_value;
        break;
      default:
        continue;
    }
    copies.push_back(std::move(copy));
  }
  return copies;
}

PjrtNamedValueArray::PjrtNamedValueArray(
    std::span<const PjrtNamedValue> values) {
  values_.reserve(values.size());
  for (const PjrtNamedValue& value : values) {
    pjrt_abi::NamedValue target = {};
    target.struct_size = sizeof(target);
    target.name = value.name.data();
    target.name_size = value.name.size();
    target.value_size = 1;
    std::visit(ValueWriter{&target}, value.value);
    values_.push_back(target);
  }
}

}  // namespace tidewheel
