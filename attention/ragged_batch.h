// RaggedBatch: one step's sequences as a ragged paged attention kernel reads
// them.
//
// It is a view: spans over the page table and its companions, which the
// scheduler owns, with the names and shapes that JAX's kernel gives them. It
// holds no queries and no KV pages, and it does not say which request a row
// belongs to.
//
// ValidateDynamic asks what JAX's dynamic_validate_inputs asks, in its order
// and in its words; ValidateStrict asks what JAX leaves open and what some of
// its kernels answer with silently wrong numbers. A batch of the scheduler
// passes both by construction.
//
// Thread-safety: a value; the arrays behind it belong to the scheduler.
// Nothing here allocates unless it has an error to report.

#ifndef TIDEWHEEL_ATTENTION_RAGGED_BATCH_H_
#define TIDEWHEEL_ATTENTION_RAGGED_BATCH_H_

#include <array>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace tidewheel {

struct RaggedBatch {
  // [max_num_seqs], tokens: KV length of each row, this step's tokens
  // included. 0 in rows past num_seqs.
  std::span<const int32_t> kv_lens;
  // [max_num_seqs, pages_per_seq], row-major. Entries past
  // cdiv(kv_len, page_size) are 0, the null page.
  std::span<const int32_t> page_indices;
  // [max_num_seqs + 1], tokens: prefix sum of the rows' query lengths. Rows
  // past num_seqs repeat the last value.
  std::span<const int32_t> cu_q_lens;
  // Rows in use, in [1, max_num_seqs].
  int32_t num_seqs = 0;
  // (d, d, num_seqs): rows [0, d) have one query token, the rest may have
  // more. The middle value is the end of a class that is always empty here
  // (chunks of one static size).
  std::array<int32_t, 3> distribution = {0, 0, 0};

  int32_t max_num_seqs = 0;
  int32_t pages_per_seq = 0;
  int32_t page_size = 0;  // tokens
  int32_t total_num_pages = 0;
  int32_t max_num_batched_tokens = 0;

  // Query tokens of all rows.
  int32_t total_q_tokens() const { return cu_q_lens[num_seqs]; }
  // Query tokens of `row`.
  int32_t q_len(int32_t row) const {
    return cu_q_lens[row + 1] - cu_q_lens[row];
  }
  // The pages of `row`, [pages_per_seq].
  std::span<const int32_t> pages(int32_t row) const {
    return page_indices.subspan(
        static_cast<size_t>(row) * static_cast<size_t>(pages_per_seq),
        static_cast<size_t>(pages_per_seq));
  }
};

// The four dynamic checks of JAX's kernel in JAX's order, with the message
// text that JAX 0.10.2 gives for numpy arrays.
//
// Errors: InvalidArgument with JAX's text; the strict ones where a span has
// another size than the batch says, since then there is nothing to compare.
absl::Status ValidateDynamic(const RaggedBatch& batch);

// What JAX does not check: at least one row, cu_q_lens that starts at 0 and
// strictly increases, page ids in use in [1, total_num_pages), zeros behind
// them, rows with one query token first, padding as the contract says, and no
// page that two rows write or that one row writes while another reads it.
//
// O(pages in use); the last check needs scratch for the pages that the step
// writes, which is allocated here, so the scheduler calls this in tests and
// debug builds only.
//
// Errors: InvalidArgument that names the row, the value, the limit and the
// remedy.
absl::Status ValidateStrict(const RaggedBatch& batch);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_RAGGED_BATCH_H_
