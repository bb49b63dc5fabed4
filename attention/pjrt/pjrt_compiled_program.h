// PjrtCompiledProgram: what a compiler made of a program: its outputs, its
// memory use, and its bytes for a cache.
//
// It can not run: PjrtExecutable is the one that a client has loaded. This
// one is all there is for a device that is not there.
//
// Lifecycle: made by PjrtTopology::Compile, or inside a PjrtExecutable;
// destroyed once. It keeps what it was compiled with alive.
//
// Thread-safety: const methods may be called concurrently.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_COMPILED_PROGRAM_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_COMPILED_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_plugin.h"
#include "attention/pjrt/pjrt_shape.h"

namespace tidewheel {

// Of one launch, in bytes of the device's memory, padding included.
struct PjrtCompiledMemoryStats {
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;  // alias_bytes included
  // Outputs that take an argument's memory: 0 if no donation took.
  int64_t alias_bytes = 0;
  int64_t temp_bytes = 0;
  int64_t generated_code_bytes = 0;
};

class PjrtCompiledProgram {
 public:
  // Takes over `handle`, also where it fails, and keeps `owner` alive.
  //
  // Errors: Unimplemented for an output that PjrtShape can not hold; Internal
  // if the plugin contradicts itself; the plugin's.
  static absl::StatusOr<std::unique_ptr<PjrtCompiledProgram>> Create(
      const PjrtPlugin* plugin, std::shared_ptr<const void> owner,
      pjrt_abi::Executable* handle);

  PjrtCompiledProgram(const PjrtCompiledProgram&) = delete;
  PjrtCompiledProgram& operator=(const PjrtCompiledProgram&) = delete;
  ~PjrtCompiledProgram();

  std::span<const PjrtShape> outputs() const { return outputs_; }

  // Errors: the plugin's; Unimplemented where it keeps none.
  absl::StatusOr<PjrtCompiledMemoryStats> MemoryStats() const;

  // For PjrtClient::Load on the same build of the same plugin, and for a TPU
  // of the same generation. Two compiles of one program may differ in bytes.
  absl::StatusOr<std::string> Serialize() const;

 private:
  PjrtCompiledProgram(const PjrtPlugin* plugin,
                      std::shared_ptr<const void> owner,
                      pjrt_abi::Executable* handle);

  absl::Status ReadOutputs();

  const PjrtPlugin* const plugin_;
  const std::shared_ptr<const void> owner_;
  pjrt_abi::Executable* const handle_;
  std::vector<PjrtShape> outputs_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_COMPILED_PROGRAM_H_
