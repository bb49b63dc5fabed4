#include "attention/pjrt/pjrt_program.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "allocator/check.h"

namespace tidewheel {
namespace {

// The four bytes that MLIR bytecode begins with.
constexpr absl::string_view kBytecodeMark = "ML\xefR";

// The position behind the comment or string that begins at `begin`.
size_t SkipQuoted(absl::string_view text, size_t begin) {
  if (text[begin] == '/') {
    const size_t end = text.find('\n', begin);
    return end == absl::string_view::npos ? text.size() : end;
  }
  size_t position = begin + 1;
  while (position < text.size() && text[position] != '"') {
    position += text[position] == '\\' ? 2 : 1;
  }
  return position + 1;
}

// Field `number` of a message, with `bytes` as its content.
std::string LengthDelimited(int number, const std::string& bytes) {
  TIDEWHEEL_CHECK_LT(bytes.size(), size_t{128});  // one byte of length
  std::string field;
  field.push_back(static_cast<char>(number << 3 | 2));
  field.push_back(static_cast<char>(bytes.size()));
  return field + bytes;
}

std::string Varint(unsigned value) {
  std::string bytes;
  while (value >= 128) {
    bytes.push_back(static_cast<char>((value & 127) | 128));
    value >>= 7;
  }
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

}  // namespace

absl::Status CheckProgram(absl::string_view program) {
  if (absl::StripAsciiWhitespace(program).empty()) {
    return absl::InvalidArgumentError(
        "the program is empty; pass StableHLO text or MLIR bytecode with a "
        "function @main");
  }
  if (absl::ConsumePrefix(&program, kBytecodeMark)) return absl::OkStatus();
  size_t line = 1;
  for (size_t i = 0; i < program.size();) {
    const bool comment = program.substr(i, 2) == "//";
    if (comment || program[i] == '"') {
      i = SkipQuoted(program, i);
      continue;
    }
    if (program[i] == '\n') ++line;
    if (program[i] == '?') {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line,
                       " of the program has a dimension '?'; PJRT programs "
                       "have static shapes: export one for each size"));
    }
    ++i;
  }
  return absl::OkStatus();
}

pjrt_abi::Block<pjrt_abi::Program> MlirProgram(absl::string_view program) {
  constexpr absl::string_view kFormat = "mlir";
  pjrt_abi::Block<pjrt_abi::Program> block;
  block->code = program.data();
  block->code_size = program.size();
  block->format = kFormat.data();
  block->format_size = kFormat.size();
  return block;
}

std::string CompileOptionsBytes(std::optional<int> device_id) {
  std::string build_options("\x20\x01\x28\x01", 4);
  if (device_id.has_value()) {
    TIDEWHEEL_CHECK_GE(*device_id, 0);
    const std::string devices =
        LengthDelimited(1, Varint(static_cast<unsigned>(*device_id)));
    build_options += LengthDelimited(
        9, std::string("\x08\x01\x10\x01", 4) + LengthDelimited(3, devices));
  }
  return LengthDelimited(3, build_options);
}

std::string ZeroFillProgram(const PjrtShape& shape) {
  const PjrtElementType type = shape.element_type();
  const bool is_float =
      type == PjrtElementType::kF64 || type == PjrtElementType::kF32 ||
      type == PjrtElementType::kBf16 || type == PjrtElementType::kF16 ||
      type == PjrtElementType::kF8E5m2 || type == PjrtElementType::kF8E4m3fn;
  const absl::string_view zero = type == PjrtElementType::kPred ? "false"
                                 : is_float                     ? "0.0"
                                                                : "0";
  const std::string scalar = PjrtShape(type, {}).ToString();
  const std::string array = shape.ToString();
  return absl::StrCat(
      "module @zeros {\n  func.func public @main() -> ", array,
      " {\n    %zero = stablehlo.constant dense<", zero, "> : ", scalar,
      "\n    %zeros = stablehlo.broadcast_in_dim %zero, dims = "
      "[] : (",
      scalar, ") -> ", array, "\n    return %zeros : ", array, "\n  }\n}\n");
}

}  // namespace tidewheel
