// What is done to a program before a compiler sees it.
//
// Some compilers end the process on input that they should refuse: empty
// compile options (CPU plugins), a `?` dimension (libtpu 0.0.52). Both are
// kept from them here. In MLIR bytecode a `?` dimension is not recognised:
// bytecode from elsewhere belongs in a process that may die.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_PROGRAM_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_PROGRAM_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "attention/pjrt/pjrt_c_api_client.h"
#include "attention/pjrt/pjrt_shape.h"

namespace tidewheel {

// `program` is StableHLO as MLIR text or bytecode.
//
// Errors: InvalidArgument for nothing but blanks, and for text with a `?`
// outside of comments and strings, naming its line.
absl::Status CheckProgram(absl::string_view program);

// `program` as the C API takes it, StableHLO in either form. Points into it.
pjrt_abi::Block<pjrt_abi::Program> MlirProgram(absl::string_view program);

// A serialized CompileOptionsProto for one replica and one partition, never
// empty; on the device of that id where one is given, else on the client's
// first.
//
//   1A n { 20 01 (num_replicas) 28 01 (num_partitions)
//          4A m { 08 01 10 01 1A k { 0A l id } } (device_assignment) }
//
// REQUIRES: device_id >= 0
std::string CompileOptionsBytes(std::optional<int> device_id);

// StableHLO text of a program without arguments that returns zeros. It spreads
// one scalar, so that neither the text nor the executable holds the array.
std::string ZeroFillProgram(const PjrtShape& shape);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_PROGRAM_H_
