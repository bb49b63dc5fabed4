#include "attention/stablehlo/program_signature.h"

#include "absl/strings/str_cat.h"

namespace tidewheel {

absl::string_view ElementTypeName(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return "i1";
    case ElementType::kInt8:
      return "i8";
    case ElementType::kUint8:
      return "ui8";
    case ElementType::kUint16:
      return "ui16";
    case ElementType::kInt32:
      return "i32";
    case ElementType::kFloat32:
      return "f32";
    case ElementType::kBfloat16:
      return "bf16";
    case ElementType::kFloat8E4m3fn:
      return "f8E4M3FN";
    case ElementType::kFloat8E5m2:
      break;
  }
  return "f8E5M2";
}

size_t SizeOfElement(ElementType type) {
  switch (type) {
    case ElementType::kInt32:
    case ElementType::kFloat32:
      return 4;
    case ElementType::kUint16:
    case ElementType::kBfloat16:
      return 2;
    default:
      return 1;
  }
}

ElementType ElementTypeOf(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat32:
      return ElementType::kFloat32;
    case ScalarType::kBfloat16:
      return ElementType::kBfloat16;
    case ScalarType::kFloat8E4m3fn:
      return ElementType::kFloat8E4m3fn;
    case ScalarType::kFloat8E5m2:
      return ElementType::kFloat8E5m2;
    case ScalarType::kInt8:
      break;
  }
  return ElementType::kInt8;
}

ElementType BitsTypeOf(ScalarType type) {
  switch (type) {
    case ScalarType::kBfloat16:
      return ElementType::kUint16;
    case ScalarType::kFloat8E4m3fn:
    case ScalarType::kFloat8E5m2:
      return ElementType::kUint8;
    default:
      return ElementTypeOf(type);
  }
}

int64_t TensorType::num_elements() const {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

int64_t TensorType::num_bytes() const {
  return num_elements() * static_cast<int64_t>(SizeOfElement(element));
}

std::string TensorType::ToString() const {
  std::string text = "tensor<";
  for (const int64_t dim : dims) absl::StrAppend(&text, dim, "x");
  absl::StrAppend(&text, ElementTypeName(element), ">");
  return text;
}

int64_t Program::donated_bytes() const {
  int64_t sum = 0;
  for (const ProgramArgument& argument : arguments) {
    if (argument.donated()) sum += argument.type.num_bytes();
  }
  return sum;
}

}  // namespace tidewheel
