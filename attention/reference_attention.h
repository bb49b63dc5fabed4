// ReferenceAttention: ragged paged attention in plain loops, the oracle that
// every other backend is compared with.
//
// K and V are taken as they are stored, or multiplied by their scale in
// float32 and rounded to q's type; everything else is computed in double and
// rounded once, into the output. So it agrees with the mathematics of the
// contract to 1e-12, and with JAX's TPU kernel to the rounding of the output.
// JAX's own reference also rounds the probabilities and the output to V's
// type, which this does not.
//
// It is not fast and does not try to be: use the cpu backend to serve.
//
// Complexity: O(q_len * kv_len * head_dim) a row and query head, without
// skipping. Allocates scratch for one KV head of one row in every call.
// Thread-safety: no state; calls may run at once.

#ifndef TIDEWHEEL_ATTENTION_REFERENCE_ATTENTION_H_
#define TIDEWHEEL_ATTENTION_REFERENCE_ATTENTION_H_

#include <span>

#include "absl/status/status.h"
#include "attention/attention_backend.h"

namespace tidewheel {

class ReferenceAttention : public AttentionBackend {
 public:
  absl::string_view name() const override { return "reference"; }

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

  // The same before the last rounding. `out`: [q.num_tokens, q.num_heads,
  // q.head_dim].
  // REQUIRES: out.size() == q.num_elements().
  // Errors: those of RaggedPagedAttention.
  absl::Status AttendInDouble(const HeadsView& q, const KvPagesView& kv_pages,
                              const RaggedBatch& batch,
                              const AttentionOptions& options,
                              std::span<double> out);
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_REFERENCE_ATTENTION_H_
