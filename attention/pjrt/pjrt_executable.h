// PjrtExecutable: a program that a client has loaded and can launch.
//
// It is not the program's text, and it holds no arrays: buffers come in and
// go out with every launch.
//
// Lifecycle:
//   1. PjrtClient::Compile or PjrtClient::Load.
//   2. Launch, any number of times; launches of one device run in order, and
//      a launch may take outputs of one that is not done.
//   3. Destruction, once; launches in flight go on.
// It keeps its client alive.
//
// Invariants: one device; the outputs have known shapes.
//
// Thread-safety: const methods may be called concurrently. A buffer that one
// launch donates is nobody else's meanwhile.
// Allocation: a launch allocates nothing on our side.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_EXECUTABLE_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_EXECUTABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/pjrt/pjrt_buffer.h"
#include "attention/pjrt/pjrt_compiled_program.h"
#include "attention/pjrt/pjrt_event.h"
#include "attention/pjrt/pjrt_signature.h"

namespace tidewheel {

class PjrtExecutable {
 public:
  // Takes over `handle`, also where it fails.
  //
  // Errors: InvalidArgument if the program returns other shapes than the
  // signature says, reuses no memory although an argument is donated, or
  // needs more than one device; those of PjrtCompiledProgram::Create.
  static absl::StatusOr<std::unique_ptr<PjrtExecutable>> Create(
      std::shared_ptr<const PjrtClient> client,
      pjrt_abi::LoadedExecutable* handle, PjrtSignature signature);

  PjrtExecutable(const PjrtExecutable&) = delete;
  PjrtExecutable& operator=(const PjrtExecutable&) = delete;
  ~PjrtExecutable();

  std::span<const PjrtArgument> arguments() const {
    return signature_.arguments;
  }
  std::span<const PjrtShape> outputs() const { return program_->outputs(); }
  const PjrtDevice& device() const { return *device_; }
  absl::StatusOr<PjrtCompiledMemoryStats> MemoryStats() const {
    return program_->MemoryStats();
  }
  absl::StatusOr<std::string> Serialize() const {
    return program_->Serialize();
  }

  // Starts the program; the event is its completion. Returns before the
  // program is done. `arguments[i]` is argument i; `outputs` receive new
  // buffers, their old ones are destroyed. An output may be the very object
  // that is a donated argument. Donated arguments are then deleted.
  //
  // Errors, all before the plugin is called, with nothing changed:
  // InvalidArgument for a wrong number of arguments or outputs, and for an
  // argument that is null, empty, deleted, of another client or device, of
  // another element type or other dimensions, or donated and used twice. Then
  // the plugin's: where it refuses the launch nothing has changed; what fails
  // later is in the event and in the outputs' ReadyEvent. Internal if an
  // output is not what the plugin announced: the donated arguments are gone.
  absl::StatusOr<PjrtEvent> Launch(std::span<PjrtBuffer* const> arguments,
                                   std::span<PjrtBuffer> outputs) const;

 private:
  PjrtExecutable(std::shared_ptr<const PjrtClient> client,
                 pjrt_abi::LoadedExecutable* handle, PjrtSignature signature);

  absl::Status ReadProgram();
  absl::Status FindDevice();
  absl::Status CheckOutputsDeclared() const;
  absl::Status CheckDonation();
  absl::Status CheckArguments(std::span<PjrtBuffer* const> arguments) const;
  absl::Status CheckArgument(size_t index, const PjrtBuffer* buffer) const;
  absl::Status CheckOutput(size_t index, pjrt_abi::Buffer* handle) const;
  absl::Status TakeOutputs(std::span<pjrt_abi::Buffer* const> handles,
                           std::span<PjrtBuffer> outputs) const;

  const std::shared_ptr<const PjrtClient> client_;
  pjrt_abi::LoadedExecutable* const handle_;
  const PjrtSignature signature_;
  const PjrtDevice* device_ = nullptr;
  std::unique_ptr<PjrtCompiledProgram> program_;
  std::vector<size_t> donated_;  // indices of arguments
  // Passed to every launch so that the signature's word holds; empty where
  // the program donates nothing anyway.
  std::vector<int64_t> not_donated_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_EXECUTABLE_H_
