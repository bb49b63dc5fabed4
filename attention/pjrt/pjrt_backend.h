// PjrtBackend: ragged paged attention of host arrays on a device that a PJRT
// plugin drives.
//
// Every call sends all of its arrays, the pages too, and brings the results
// back: for tests, tools, and callers that know AttentionBackend only. A
// server keeps its pages on the device: ResidentAttention.
//
// Lifecycle: Create, then calls of any shapes. The first call of a shape and
// options compiles (0.1 to 1 s on a CPU); the most recent kMaxPrograms are
// kept.
//
// It accepts everything that the contract allows. Where the type of k is not
// that of v, they are rounded to the pages' type on the host.
//
// Thread-safety: one call at a time.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_BACKEND_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/attention_backend.h"
#include "attention/pjrt/attention_key.h"
#include "attention/pjrt/pjrt_buffer.h"
#include "attention/pjrt/pjrt_client.h"
#include "attention/pjrt/pjrt_executable.h"
#include "attention/pjrt/program_cache.h"

namespace tidewheel {

struct PjrtBackendOptions {
  // PjrtDevice::id; absent: the client's first device.
  std::optional<int> device_id = std::nullopt;
  // Where compiled programs are kept; empty: nowhere. See ProgramCache.
  std::string cache_folder = {};
  PjrtNote note = nullptr;
};

class PjrtBackend : public AttentionBackend {
 public:
  static constexpr size_t kMaxPrograms = 64;

  // Errors: those of ProgramCache::Create.
  static absl::StatusOr<std::unique_ptr<PjrtBackend>> Create(
      std::shared_ptr<const PjrtClient> client,
      const PjrtBackendOptions& options = {});

  absl::string_view name() const override { return "pjrt"; }

  // Errors of both, besides the interface's: the compiler's and the device's;
  // `out` and the pages are then as before.
  absl::Status RaggedPagedAttention(const HeadsView& q,
                                    const KvPagesView& kv_pages,
                                    const RaggedBatch& batch,
                                    const AttentionOptions& options,
                                    const MutableHeadsView& out) override;
  absl::Status WriteKvAndAttend(const HeadsView& q, const HeadsView& k,
                                const HeadsView& v,
                                const MutableKvPagesView& kv_pages,
                                const RaggedBatch& batch,
                                const AttentionOptions& options,
                                const MutableHeadsView& out) override;

  const ProgramCache& programs() const { return *programs_; }

 private:
  struct Kept {
    AttentionKey key;
    std::unique_ptr<PjrtExecutable> executable;
  };
  // Arguments and results of a launch.
  struct Call;

  explicit PjrtBackend(std::unique_ptr<ProgramCache> programs)
      : programs_(std::move(programs)) {}

  absl::StatusOr<const PjrtExecutable*> Get(const AttentionProgramShape& shape);
  absl::Status Run(const AttentionProgramShape& shape, const Call& call);

  const std::unique_ptr<ProgramCache> programs_;
  std::list<Kept> kept_;  // the most recently used first
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_BACKEND_H_
