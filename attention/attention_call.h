// What every attention backend checks before it computes or writes anything.
//
// The static rules of the contract over typed tensors, JAX's dynamic checks,
// and the strict ones that concern a kernel: those on how the scheduler lays
// out a table (zeros behind the pages in use, decodes first) are not asked
// here, since other callers may pad as they like.
//
// Thread-safety: pure functions. O(pages in use).

#ifndef TIDEWHEEL_ATTENTION_ATTENTION_CALL_H_
#define TIDEWHEEL_ATTENTION_ATTENTION_CALL_H_

#include "absl/status/status.h"
#include "attention/attention_backend.h"
#include "attention/ragged_batch.h"
#include "attention/tensor_view.h"

namespace tidewheel {

// Errors of all: InvalidArgument that names what does not fit, its value, the
// limit and the remedy.

// Options alone, for those who compile for them before there is a batch.
absl::Status CheckAttentionOptions(const AttentionOptions& options);
// The same for the fused form.
absl::Status CheckFusedAttentionOptions(const AttentionOptions& options);

absl::Status CheckAttentionCall(const HeadsView& q, const KvPagesView& kv_pages,
                                const RaggedBatch& batch,
                                const AttentionOptions& options,
                                const MutableHeadsView& out);

// The same for the fused form.
absl::Status CheckFusedAttentionCall(const HeadsView& q, const HeadsView& k,
                                     const HeadsView& v,
                                     const KvPagesView& kv_pages,
                                     const RaggedBatch& batch,
                                     const AttentionOptions& options,
                                     const MutableHeadsView& out);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_ATTENTION_CALL_H_
