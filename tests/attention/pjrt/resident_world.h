// ResidentWorld: sequences that come, grow, fork, move and leave over many
// steps, on a ResidentAttention and on ReferenceAttention side by side.
//
// The mirror holds every layer's pages on the host and gets the same copies and
// the same k and v. Every output is compared, also where two steps are in
// flight, and at the end every byte of every page. Slots that nobody wrote are
// NaN, and so is padding.
//
// Thread-safety: single-threaded.

#ifndef TIDEWHEEL_TESTS_ATTENTION_PJRT_RESIDENT_WORLD_H_
#define TIDEWHEEL_TESTS_ATTENTION_PJRT_RESIDENT_WORLD_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "attention/attention_backend.h"
#include "attention/pjrt/resident_attention.h"
#include "attention/reference_attention.h"

namespace tidewheel {

class ResidentWorld {
 public:
  // 2 layers, of which the second has a window and a soft cap; 4 query heads.
  static ResidentAttentionOptions Options(ScalarType kv_type,
                                          ScalarType new_kv_type,
                                          int32_t head_dim,
                                          int32_t pool_head_dim);

  // `attention` was made with `options` and outlives this object.
  ResidentWorld(ResidentAttention* attention,
                const ResidentAttentionOptions& options, uint32_t seed);

  // Errors: Internal with what differs; those of the backend.
  absl::Status Run(int32_t num_steps);

  // Drops what was planned but not awaited, after a failure of the device:
  // sequences are gone, pages are zero.
  void StartOver();

  double worst_error() const { return worst_error_; }  // of the largest value
  int64_t num_copies() const { return num_copies_; }
  int64_t num_abandoned() const { return num_abandoned_; }
  size_t most_in_flight() const { return most_in_flight_; }

 private:
  struct Sequence {
    int32_t len = 0;  // tokens
    std::vector<int32_t> pages;
  };
  // What a layer's launch should have given.
  struct Expected {
    PjrtBuffer out;
    std::vector<float> wanted;
  };
  using Bytes = std::vector<char>;

  int32_t Below(int32_t limit);
  std::vector<int32_t> AllPages() const;
  size_t PoolBytes() const;
  MutableKvPagesView Pages(size_t layer);
  absl::Status Poison();

  void Disturb();
  void Remove(size_t row);
  void Fork();
  bool Grow(size_t row, int32_t tokens);
  RaggedBatch PlanBatch();
  void MirrorCopies();
  HeadsView DrawHeads(ScalarType type, int32_t num_heads, int32_t real_tokens,
                      Bytes& bytes);
  absl::Status RunLayer(const RaggedBatch& batch, int32_t layer,
                        std::vector<Expected>& step);
  absl::Status Step();
  absl::Status FinishOldest();
  absl::Status Compare(const Expected& expected);
  absl::Status ComparePages();

  ResidentAttention* const attention_;
  const ResidentAttentionOptions options_;
  ReferenceAttention reference_;
  std::mt19937 random_;
  std::vector<Bytes> pools_;  // [num_layers], as wide as the device's
  std::vector<Sequence> rows_;
  std::vector<int32_t> free_pages_;
  std::vector<PageCopy> copies_;
  std::set<int32_t> changed_rows_;
  // Of the batch.
  std::vector<int32_t> kv_lens_;
  std::vector<int32_t> page_indices_;
  std::vector<int32_t> cu_q_lens_;
  std::deque<std::vector<Expected>> flights_;
  double worst_error_ = 0;
  int64_t num_copies_ = 0;
  int64_t num_abandoned_ = 0;
  size_t most_in_flight_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ATTENTION_PJRT_RESIDENT_WORLD_H_
