// PjrtBuffer: an array in a device's memory.
//
// It is not the array's value on the host: ToHost copies. Its shape is known
// without asking the plugin, which compares byte sizes only.
//
// Lifecycle:
//   1. PjrtClient::Upload, CreateUninitialized, CreateZeroed or a launch's
//      output.
//   2. An argument of any number of launches. A launch that donates it takes
//      its memory: IsDeleted is then true, the object only waits for its
//      destruction or for a new buffer to be moved into it.
//   3. Delete frees the device's memory early. Destruction frees all, once;
//      work in flight that reads the buffer goes on.
// It keeps its client alive.
//
// Move-only. A moved-from or default buffer is empty: IsDeleted is true, its
// shape is none, and other methods give FailedPrecondition, as they do after
// a donation or Delete.
//
// Thread-safety: const methods may be called concurrently.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_BUFFER_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_device.h"
#include "attention/pjrt/pjrt_event.h"
#include "attention/pjrt/pjrt_shape.h"

namespace tidewheel {

class PjrtClient;

class PjrtBuffer {
 public:
  PjrtBuffer() = default;
  // Takes over `handle`, an array of `shape` on `device` of `client`.
  //
  // REQUIRES: none is null; the device is the client's.
  PjrtBuffer(std::shared_ptr<const PjrtClient> client, const PjrtDevice* device,
             pjrt_abi::Buffer* handle, const PjrtShape& shape);
  ~PjrtBuffer();

  PjrtBuffer(PjrtBuffer&& other) noexcept;
  PjrtBuffer& operator=(PjrtBuffer&& other) noexcept;

  bool empty() const { return handle_ == nullptr; }
  const PjrtShape& shape() const { return shape_; }
  // Null where empty.
  const PjrtClient* client() const { return client_.get(); }
  const PjrtDevice* device() const { return device_; }
  pjrt_abi::Buffer* handle() const { return handle_; }

  // Whether the memory is gone: donated, deleted, or never there. A plugin
  // that can not say counts as a yes.
  bool IsDeleted() const;

  // What the array takes of the device's memory, padding included.
  absl::StatusOr<int64_t> OnDeviceSizeInBytes() const;

  // The address on the device: to tell whether two buffers share memory. Not
  // to be read.
  absl::StatusOr<uintptr_t> UnsafePointer() const;

  // When the array is written; failed if the program that writes it does.
  absl::StatusOr<PjrtEvent> ReadyEvent() const;

  // Starts copying the array, row-major, to `target`, which must stay until
  // the event is ready, also if the event is destroyed before.
  //
  // Errors: InvalidArgument if `target` has not exactly shape().num_bytes().
  absl::StatusOr<PjrtEvent> ToHostAsync(std::span<std::byte> target) const;
  // The same, done when it returns.
  //
  // Errors: also those of the program that writes the array.
  absl::Status ToHost(std::span<std::byte> target) const;

  // Frees the memory, once work that reads it is done. OK where it is gone.
  absl::Status Delete();

 private:
  void Reset();
  absl::Status CheckAlive(absl::string_view what) const;

  std::shared_ptr<const PjrtClient> client_;
  const PjrtDevice* device_ = nullptr;
  pjrt_abi::Buffer* handle_ = nullptr;
  PjrtShape shape_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_BUFFER_H_
