// StablehloAttention: the emitted attention program behind the interface of a
// backend, for tests. It uploads everything in each call.
//
// Executables are kept, so calls of one shape compile once.

#ifndef TIDEWHEEL_TESTS_ATTENTION_STABLEHLO_STABLEHLO_ATTENTION_H_
#define TIDEWHEEL_TESTS_ATTENTION_STABLEHLO_STABLEHLO_ATTENTION_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "attention/attention_backend.h"
#include "attention/stablehlo/attention_program.h"
#include "tests/attention/stablehlo/device_program.h"

namespace tidewheel {

class StablehloAttention : public AttentionBackend {
 public:
  struct Options {
    AttentionForm form = AttentionForm::kDecode;
    int64_t kv_block_pages = 0;
    int64_t row_tile = 0;
    int64_t query_tile = 0;
    // What pool_head_dim is above head_dim, and pool_kv_heads above
    // num_kv_heads. Filled with NaN. And pool_head_rows.
    int64_t head_padding = 0;
    int64_t kv_head_padding = 0;
    int64_t head_rows = 0;
    bool pool_as_bits = true;
  };

  StablehloAttention(std::shared_ptr<PjrtClient> client, Options options)
      : client_(std::move(client)), options_(options) {}

  absl::string_view name() const override { return "stablehlo"; }

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

  size_t num_compiles() const { return programs_.size(); }
  // Of the last call that passed its checks.
  const DeviceProgram& last_program() const { return *last_program_; }
  const AttentionProgramShape& last_shape() const { return last_shape_; }

 private:
  AttentionProgramShape ShapeOf(const HeadsView& q, const KvPagesView& kv_pages,
                                const RaggedBatch& batch,
                                const AttentionOptions& options) const;
  absl::Status Compile(const AttentionProgramShape& shape);
  // The pool with padding, and back; expects zeros in all of the padding of
  // `wanted_written` slots.
  Bytes Widened(const KvPagesView& kv_pages) const;
  void Narrow(const Bytes& wide, int64_t wanted_written,
              const MutableKvPagesView& kv_pages) const;

  const std::shared_ptr<PjrtClient> client_;
  const Options options_;
  std::map<std::string, std::unique_ptr<DeviceProgram>> programs_;  // by text
  const DeviceProgram* last_program_ = nullptr;
  AttentionProgramShape last_shape_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ATTENTION_STABLEHLO_STABLEHLO_ATTENTION_H_
