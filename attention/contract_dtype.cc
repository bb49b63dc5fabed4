#include "attention/contract_dtype.h"

#include "absl/strings/str_cat.h"

namespace tidewheel {
namespace {

enum class Kind { kBool, kInteger, kFloating, kComplex };

struct Dtype {
  absl::string_view name;
  Kind kind;
  int bits;
  bool is_numpys;
  absl::string_view narrowed;  // Empty: the same.
};

constexpr Dtype kDtypes[] = {
    {"bool", Kind::kBool, 8, true, ""},
    {"int8", Kind::kInteger, 8, true, ""},
    {"int16", Kind::kInteger, 16, true, ""},
    {"int32", Kind::kInteger, 32, true, ""},
    {"int64", Kind::kInteger, 64, true, "int32"},
    {"uint8", Kind::kInteger, 8, true, ""},
    {"uint16", Kind::kInteger, 16, true, ""},
    {"uint32", Kind::kInteger, 32, true, ""},
    {"uint64", Kind::kInteger, 64, true, "uint32"},
    {"float16", Kind::kFloating, 16, true, ""},
    {"float32", Kind::kFloating, 32, true, ""},
    {"float64", Kind::kFloating, 64, true, "float32"},
    {"complex64", Kind::kComplex, 64, true, ""},
    {"complex128", Kind::kComplex, 128, true, "complex64"},
    {"int2", Kind::kInteger, 2, false, ""},
    {"int4", Kind::kInteger, 4, false, ""},
    {"uint2", Kind::kInteger, 2, false, ""},
    {"uint4", Kind::kInteger, 4, false, ""},
    {"bfloat16", Kind::kFloating, 16, false, ""},
    {"float4_e2m1fn", Kind::kFloating, 4, false, ""},
    {"float8_e3m4", Kind::kFloating, 8, false, ""},
    {"float8_e4m3", Kind::kFloating, 8, false, ""},
    {"float8_e4m3b11fnuz", Kind::kFloating, 8, false, ""},
    {"float8_e4m3fn", Kind::kFloating, 8, false, ""},
    {"float8_e4m3fnuz", Kind::kFloating, 8, false, ""},
    {"float8_e5m2", Kind::kFloating, 8, false, ""},
    {"float8_e5m2fnuz", Kind::kFloating, 8, false, ""},
    {"float8_e8m0fnu", Kind::kFloating, 8, false, ""},
};

const Dtype* Find(absl::string_view name) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

}  // namespace

std::string DtypeRepr(absl::string_view dtype) {
  const Dtype* known = Find(dtype);
  const char* quote = known != nullptr && known->is_numpys ? "'" : "";
  return absl::StrCat("dtype(", quote, dtype, quote, ")");
}

absl::string_view NarrowedDtype(absl::string_view dtype) {
  const Dtype* known = Find(dtype);
  if (known == nullptr || known->narrowed.empty()) return dtype;
  return known->narrowed;
}

std::optional<int> DtypeBits(absl::string_view dtype) {
  const Dtype* known = Find(dtype);
  if (known == nullptr) return std::nullopt;
  return known->bits;
}

bool IsFloatingDtype(absl::string_view dtype) {
  const Dtype* known = Find(dtype);
  return known != nullptr && known->kind == Kind::kFloating;
}

}  // namespace tidewheel
