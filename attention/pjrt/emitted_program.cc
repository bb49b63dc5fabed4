#include "attention/pjrt/emitted_program.h"

#include <optional>

#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_element_type.h"

namespace tidewheel {

absl::StatusOr<PjrtShape> ShapeOfTensor(const TensorType& type) {
  const std::optional<PjrtElementType> element =
      PjrtElementTypeOfName(ElementTypeName(type.element));
  TIDEWHEEL_CHECK(element.has_value());
  return PjrtShape::Create(*element, type.dims);
}

absl::StatusOr<PjrtSignature> SignatureOfProgram(const Program& program) {
  PjrtSignature signature;
  for (const ProgramArgument& argument : program.arguments) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtShape shape,
                               ShapeOfTensor(argument.type));
    signature.arguments.push_back({shape, argument.donated()});
  }
  for (const TensorType& type : program.results) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtShape shape, ShapeOfTensor(type));
    signature.outputs.push_back(shape);
  }
  return signature;
}

absl::StatusOr<std::unique_ptr<PjrtExecutable>> CompileEmitted(
    const absl::StatusOr<Program>& program, ProgramCache& cache) {
  if (!program.ok()) return program.status();
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtSignature signature,
                             SignatureOfProgram(*program));
  return cache.Compile(program->text, signature);
}

}  // namespace tidewheel
