// From the programs of attention/stablehlo to executables: their types as PJRT
// names them, and compiling one with its signature.
//
// Thread-safety: pure functions, but for the cache.

#ifndef TIDEWHEEL_ATTENTION_PJRT_EMITTED_PROGRAM_H_
#define TIDEWHEEL_ATTENTION_PJRT_EMITTED_PROGRAM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "attention/pjrt/pjrt_executable.h"
#include "attention/pjrt/pjrt_shape.h"
#include "attention/pjrt/pjrt_signature.h"
#include "attention/pjrt/program_cache.h"
#include "attention/stablehlo/program_signature.h"

namespace tidewheel {

// Errors: those of PjrtShape::Create.
absl::StatusOr<PjrtShape> ShapeOfTensor(const TensorType& type);

// Errors: those of PjrtShape::Create.
absl::StatusOr<PjrtSignature> SignatureOfProgram(const Program& program);

// Errors: those of the program, of its signature and of the compiler.
absl::StatusOr<std::unique_ptr<PjrtExecutable>> CompileEmitted(
    const absl::StatusOr<Program>& program, ProgramCache& cache);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_EMITTED_PROGRAM_H_
