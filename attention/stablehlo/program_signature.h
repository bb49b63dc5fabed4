// Program: StableHLO text for static shapes, and what one must pass to it.
//
// The signature is here because a PJRT plugin does not check it: a CPU plugin
// compares byte sizes only and reinterprets bits of another type or shape, so
// the caller compares every argument with `arguments` before a launch.
//
// It is not a module in memory: the text is all that a plugin needs, and it is
// the same bytes for the same shape, so that its hash can key a cache.
//
// Thread-safety: values.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_PROGRAM_SIGNATURE_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_PROGRAM_SIGNATURE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "attention/scalar_types.h"

namespace tidewheel {

enum class ElementType {
  kBool,
  kInt8,
  kUint8,
  kUint16,
  kInt32,
  kFloat32,
  kBfloat16,
  kFloat8E4m3fn,
  kFloat8E5m2
};

// "i1", "ui8", "f8E4M3FN", ...: StableHLO's name.
absl::string_view ElementTypeName(ElementType type);
size_t SizeOfElement(ElementType type);  // bytes
ElementType ElementTypeOf(ScalarType type);
// What holds the bits of a narrow float: ui8 or ui16. Others stay as they are.
ElementType BitsTypeOf(ScalarType type);

struct TensorType {
  ElementType element = ElementType::kFloat32;
  std::vector<int64_t> dims;

  bool operator==(const TensorType&) const = default;
  int64_t num_elements() const;
  int64_t num_bytes() const;
  // "tensor<8x4xf32>".
  std::string ToString() const;
};

struct ProgramArgument {
  std::string name;
  TensorType type;
  // The result that takes over the argument's memory; the argument's buffer is
  // gone after the launch.
  std::optional<int> aliased_result;

  bool donated() const { return aliased_result.has_value(); }
};

struct Program {
  std::string name;
  std::string text;
  std::vector<ProgramArgument> arguments;
  std::vector<TensorType> results;

  // Bytes of the donated arguments, which a compiler must report as aliased.
  int64_t donated_bytes() const;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_PROGRAM_SIGNATURE_H_
