// DevicePools: the KV pages of every layer, on the device.
//
// Layer i is one array [total_num_pages, page_size, 2 * num_kv_heads,
// pool_head_dim]; the arrays are alike and a page id means the same in all. It
// does not know which pages are in use: the allocator does.
//
// Lifecycle:
//   1. Create, which has the device write zeros.
//   2. Launches take pool(layer) as a donated argument and put their output in
//      its place. CopyPages, WritePages and ReadPages are such launches.
//   3. After a launch that failed on the device the pools hold errors: Reset.
//
// Page 0, the null page, is zero: nothing here writes it.
//
// No launch copies a pool. Ids go to the device in launches of 1, 2, 4, ...
// kMaxIds pages, exactly as many as there are, so that nothing is padded;
// each size is compiled when it is first used, or by Warm.
//
// Thread-safety: one call at a time.

#ifndef TIDEWHEEL_ATTENTION_PJRT_DEVICE_POOLS_H_
#define TIDEWHEEL_ATTENTION_PJRT_DEVICE_POOLS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/page_allocator_options.h"
#include "attention/pjrt/launch_memory.h"
#include "attention/pjrt/pjrt_buffer.h"
#include "attention/pjrt/pjrt_event.h"
#include "attention/pjrt/pjrt_executable.h"
#include "attention/pjrt/program_cache.h"
#include "attention/stablehlo/page_program.h"

namespace tidewheel {

class DevicePools {
 public:
  // Pages of one launch, at most.
  static constexpr int32_t kMaxIds = 64;

  // `programs` outlives this object.
  //
  // Errors: InvalidArgument for sizes below 1 or beyond int32 indices; the
  // compiler's and the device's, e.g. ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<DevicePools>> Create(
      ProgramCache* programs, const PagePoolShape& shape, int32_t num_layers);

  DevicePools(const DevicePools&) = delete;
  DevicePools& operator=(const DevicePools&) = delete;

  int32_t num_layers() const { return static_cast<int32_t>(pools_.size()); }
  const PagePoolShape& shape() const { return shape_; }
  // Bytes of one page of one layer on the host, without padded KV heads.
  size_t page_bytes() const { return page_bytes_; }
  // REQUIRES: 0 <= layer < num_layers().
  PjrtBuffer& pool(int32_t layer) { return pools_[static_cast<size_t>(layer)]; }

  // In the listed order, whole pages in all layers. Returns before it is done;
  // events[layer] becomes the completion in that layer, where there are
  // copies.
  //
  // Errors: InvalidArgument, with nothing done, for an id outside of
  // [1, total_num_pages); the plugin's.
  // REQUIRES: events has an entry a layer.
  absl::Status CopyPages(std::span<const PageCopy> copies,
                         std::span<PjrtEvent> events);

  // The pages as the device stores them, but for padded KV heads:
  // [num_layers, ids, page_bytes()].
  //
  // Errors: InvalidArgument for an id outside of [0, total_num_pages) or an
  // array of another size; the plugin's and the device's.
  absl::Status ReadPages(std::span<const int32_t> ids,
                         std::span<std::byte> target);

  // The other way. Returns when it is done.
  //
  // Errors: as above, with nothing done, also for page 0 and for an id that is
  // there twice.
  absl::Status WritePages(std::span<const int32_t> ids,
                          std::span<const std::byte> source);

  // Frees the pools and makes new ones, all zero.
  //
  // Errors: the plugin's and the device's; then there are no pools.
  absl::Status Reset();

  // Compiles every program.
  absl::Status Warm();

  // What the pools take on the device, padding included.
  absl::StatusOr<int64_t> PoolBytes() const;
  // Over the programs compiled so far.
  absl::Status AddMemory(LaunchMemory& memory) const;

 private:
  enum Kind { kCopy, kGather, kScatter, kNumKinds };
  // Of 2^i ids.
  static constexpr size_t kNumSizes = 7;
  static_assert(kMaxIds == 1 << (kNumSizes - 1));

  DevicePools(ProgramCache* programs, const PagePoolShape& shape,
              int32_t num_layers);

  absl::StatusOr<const PjrtExecutable*> Get(Kind kind, size_t log2_ids);
  absl::StatusOr<PjrtBuffer> UploadIds(std::span<const int32_t> ids) const;
  absl::Status CheckIds(std::span<const int32_t> ids, int32_t first,
                        size_t num_bytes) const;
  absl::Status LaunchCopies(std::span<const PageCopy> copies,
                            std::span<PjrtEvent> events);
  absl::Status ReadSome(std::span<const int32_t> ids, size_t log2_ids,
                        std::byte* target, size_t layer_stride);
  absl::Status WriteSome(std::span<const int32_t> ids, size_t log2_ids,
                         const std::byte* source, size_t layer_stride);

  ProgramCache* const programs_;
  const PagePoolShape shape_;
  size_t page_bytes_ = 0;
  std::unique_ptr<PjrtExecutable> zeros_;
  std::array<std::array<std::unique_ptr<PjrtExecutable>, kNumSizes>, kNumKinds>
      moves_;
  std::vector<PjrtBuffer> pools_;  // [num_layers]
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_DEVICE_POOLS_H_
