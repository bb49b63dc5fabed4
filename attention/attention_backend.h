// AttentionBackend: what computes ragged paged attention.
//
// The contract is that of JAX's TPU kernel
// (jax.experimental.pallas.ops.tpu.ragged_paged_attention), so that a batch
// means the same here and there. For row i of the batch, a query at position
// kv_len - q_len + j sees the keys up to its own position, or the last
// `sliding_window` of them. Its logits are q.k * sm_scale, then soft-capped,
// then masked by adding mask_value; its output is softmax(logits) . V. Query
// head h reads KV head h / (num_q_heads / num_kv_heads).
//
// Every backend promises besides:
// - Rows of `out` that belong to no query are zero (JAX leaves them undefined).
// - Nothing outside the batch reaches a result: slots past kv_len, table
//   entries past the pages in use, rows past num_seqs and padding rows of q
//   may hold NaN or any id.
// - All checks come before the first write; a refused call changes nothing.
//
// It is not a model: it owns no weights, no pages and no page table.
//
// Thread-safety: one call at a time on an object, unless the backend says
// more. Tensors of a call may not overlap, but for pages that are only read.

#ifndef TIDEWHEEL_ATTENTION_ATTENTION_BACKEND_H_
#define TIDEWHEEL_ATTENTION_ATTENTION_BACKEND_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "attention/ragged_batch.h"
#include "attention/tensor_view.h"

namespace tidewheel {

// -0.7 times the largest float32, as in JAX.
inline constexpr float kDefaultMaskValue = -0.7f * 3.40282346638528859812e38f;

// A mask at or below this hides a key for good: a backend may leave hidden
// keys unread, so pages that lie wholly before the window may be the null
// page. A larger mask value lets masked keys keep some weight, as it does in
// JAX, and then all of them are read.
inline constexpr float kHidingMaskValue = -1e30f;

enum class EmptyRows {
  kRefuse,  // q_len 0 is an error.
  kSkip,    // As JAX's reference: such a row has no output.
};

struct AttentionOptions {
  float sm_scale = 1;
  // Keys that a query sees at most, its own included.
  std::optional<int32_t> sliding_window = std::nullopt;
  // cap * tanh(logit / cap).
  std::optional<float> soft_cap = std::nullopt;
  float mask_value = kDefaultMaskValue;
  // What K and V of the pages are multiplied with; the product is rounded to
  // q's type. Absent: used as they are, which is not the same as 1.
  std::optional<float> k_scale = std::nullopt;
  std::optional<float> v_scale = std::nullopt;
  EmptyRows empty_rows = EmptyRows::kRefuse;
};

class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  // "reference", "cpu", "pjrt".
  virtual absl::string_view name() const = 0;

  // Reads kv_pages, which hold this step's K and V already, and writes `out`,
  // of q's shape and type.
  //
  // Errors: InvalidArgument, with value, limit and remedy, for shapes, types
  // and options that do not fit and for a batch that breaks the contract
  // (CheckAttentionCall).
  virtual absl::Status RaggedPagedAttention(const HeadsView& q,
                                            const KvPagesView& kv_pages,
                                            const RaggedBatch& batch,
                                            const AttentionOptions& options,
                                            const MutableHeadsView& out) = 0;

  // Writes this step's `k` and `v`, [max_num_batched_tokens, num_kv_heads,
  // head_dim], into the rows' last q_len slots, then does the same as above.
  // K and V of the pages' type are copied bit for bit; others are divided by
  // their scale if there is one, clamped if the pages hold 8 bits, and rounded.
  //
  // Errors: as above, and InvalidArgument for a page that one row writes
  // while another entry names it.
  virtual absl::Status WriteKvAndAttend(const HeadsView& q, const HeadsView& k,
                                        const HeadsView& v,
                                        const MutableKvPagesView& kv_pages,
                                        const RaggedBatch& batch,
                                        const AttentionOptions& options,
                                        const MutableHeadsView& out) = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_ATTENTION_BACKEND_H_
