#include "attention/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/attention_call.h"

namespace tidewheel {
namespace {

// A page and a slot of it.
struct KvSlot {
  int64_t page = 0;
  int64_t slot = 0;
};

KvSlot SlotOf(const RaggedBatch& batch, int32_t row, int64_t position) {
  const std::span<const int32_t> pages = batch.pages(row);
  return {pages[static_cast<size_t>(position / batch.page_size)],
          position % batch.page_size};
}

// One row against one KV head.
class RowAttention {
 public:
  RowAttention(const HeadsView& q, const KvPagesView& kv_pages,
               const RaggedBatch& batch, const AttentionOptions& options,
               int32_t row)
      : q_(q),
        kv_pages_(kv_pages),
        batch_(batch),
        options_(options),
        row_(row),
        q_len_(batch.q_len(row)),
        kv_len_(batch.kv_lens[static_cast<size_t>(row)]) {}

  void Run(std::span<double> out) {
    const int64_t group = q_.num_heads / kv_pages_.num_kv_heads();
    for (int64_t kv_head = 0; kv_head < kv_pages_.num_kv_heads(); ++kv_head) {
      Load(2 * kv_head, options_.k_scale, keys_);
      Load(2 * kv_head + 1, options_.v_scale, values_);
      for (int64_t i = 0; i < q_len_; ++i) {
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group;
             ++head) {
          Attend(i, head, out);
        }
      }
    }
  }

 private:
  size_t head_dim() const { return static_cast<size_t>(q_.head_dim); }
  int64_t Position(int64_t i) const { return kv_len_ - q_len_ + i; }
  bool mask_hides() const { return options_.mask_value <= kHidingMaskValue; }
  // The first key that the window of a query at `position` shows.
  int64_t WindowStart(int64_t position) const {
    if (!options_.sliding_window.has_value()) return 0;
    return std::max<int64_t>(0, position - *options_.sliding_window + 1);
  }
  // Keys before this one are hidden from every query of the row.
  int64_t first_key() const {
    return mask_hides() ? WindowStart(Position(0)) : 0;
  }

  void Load(int64_t combined_head, std::optional<float> scale,
            std::vector<double>& into) const;
  void Attend(int64_t i, int64_t head, std::span<double> out);

  const HeadsView& q_;
  const KvPagesView& kv_pages_;
  const RaggedBatch& batch_;
  const AttentionOptions& options_;
  const int32_t row_;
  const int64_t q_len_;
  const int64_t kv_len_;
  // [kv_len - first_key, head_dim]
  std::vector<double> keys_;
  std::vector<double> values_;
  std::vector<double> logits_;  // [keys that one query reads]
};

void RowAttention::Load(int64_t combined_head, std::optional<float> scale,
                        std::vector<double>& into) const {
  into.clear();
  for (int64_t key = first_key(); key < kv_len_; ++key) {
    const KvSlot slot = SlotOf(batch_, row_, key);
    const size_t offset = kv_pages_.Offset(slot.page, slot.slot, combined_head);
    for (size_t d = 0; d < head_dim(); ++d) {
      float value = LoadScalar(kv_pages_.type, kv_pages_.data, offset + d);
      if (scale.has_value()) value = RoundTo(q_.type, value * *scale);
      into.push_back(value);
    }
  }
}

// Query `i` of the row under query head `head`.
void RowAttention::Attend(int64_t i, int64_t head, std::span<double> out) {
  const int64_t position = Position(i);
  const int64_t window_start = WindowStart(position);
  const int64_t begin = mask_hides() ? window_start : 0;
  const int64_t end = mask_hides() ? position + 1 : kv_len_;
  const size_t q_offset =
      q_.Offset(batch_.cu_q_lens[static_cast<size_t>(row_)] + i, head);

  logits_.clear();
  for (int64_t key = begin; key < end; ++key) {
    const double* k =
        keys_.data() + static_cast<size_t>(key - first_key()) * head_dim();
    double dot = 0;
    for (size_t d = 0; d < head_dim(); ++d) {
      dot += LoadScalar(q_.type, q_.data, q_offset + d) * k[d];
    }
    double logit = dot * options_.sm_scale;
    if (options_.soft_cap.has_value()) {
      const double cap = *options_.soft_cap;
      logit = cap * std::tanh(logit / cap);
    }
    if (key > position || key < window_start) logit += options_.mask_value;
    logits_.push_back(logit);
  }

  // Without the maximum, exp overflows from 710 on.
  const double largest = *std::ranges::max_element(logits_);
  double sum = 0;
  for (double& logit : logits_) {
    logit = std::exp(logit - largest);
    sum += logit;
  }
  const std::span<double> result = out.subspan(q_offset, head_dim());
  for (int64_t key = begin; key < end; ++key) {
    const double weight = logits_[static_cast<size_t>(key - begin)] / sum;
    const double* v =
        values_.data() + static_cast<size_t>(key - first_key()) * head_dim();
    for (size_t d = 0; d < head_dim(); ++d) result[d] += weight * v[d];
  }
}

void AttendChecked(const HeadsView& q, const KvPagesView& kv_pages,
                   const RaggedBatch& batch, const AttentionOptions& options,
                   std::span<double> out) {
  std::ranges::fill(out, 0.0);
  for (int32_t row = 0; row < batch.num_seqs; ++row) {
    if (batch.q_len(row) == 0) continue;
    RowAttention(q, kv_pages, batch, options, row).Run(out);
  }
}

void Narrow(std::span<const double> from, const MutableHeadsView& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    StoreScalar(to.type, to.data, i, static_cast<float>(from[i]));
  }
}

// One token's K or V of one head, `head_dim` elements from `from_offset` on.
void WriteHead(const HeadsView& from, size_t from_offset,
               std::optional<float> scale, const MutableKvPagesView& to,
               size_t to_offset) {
  const size_t head_dim = static_cast<size_t>(from.head_dim);
  if (from.type == to.type) {
    const size_t bytes = SizeOfScalar(to.type);
    std::memcpy(static_cast<char*>(to.data) + to_offset * bytes,
                static_cast<const char*>(from.data) + from_offset * bytes,
                head_dim * bytes);
    return;
  }
  const bool narrow = SizeOfScalar(to.type) == 1;
  for (size_t d = 0; d < head_dim; ++d) {
    float value = LoadScalar(from.type, from.data, from_offset + d);
    if (scale.has_value()) value /= *scale;
    if (narrow) value = ClampTo(to.type, value);
    StoreScalar(to.type, to.data, to_offset + d, value);
  }
}

void WriteKv(const HeadsView& k, const HeadsView& v, const RaggedBatch& batch,
             const AttentionOptions& options,
             const MutableKvPagesView& kv_pages) {
  for (int32_t row = 0; row < batch.num_seqs; ++row) {
    const size_t r = static_cast<size_t>(row);
    const int64_t q_len = batch.q_len(row);
    for (int64_t i = 0; i < q_len; ++i) {
      const int64_t token = batch.cu_q_lens[r] + i;
      const KvSlot slot =
          SlotOf(batch, row, int64_t{batch.kv_lens[r]} - q_len + i);
      for (int64_t head = 0; head < k.num_heads; ++head) {
        WriteHead(k, k.Offset(token, head), options.k_scale, kv_pages,
                  kv_pages.Offset(slot.page, slot.slot, 2 * head));
        WriteHead(v, v.Offset(token, head), options.v_scale, kv_pages,
                  kv_pages.Offset(slot.page, slot.slot, 2 * head + 1));
      }
    }
  }
}

}  // namespace

absl::Status ReferenceAttention::AttendInDouble(const HeadsView& q,
                                                const KvPagesView& kv_pages,
                                                const RaggedBatch& batch,
                                                const AttentionOptions& options,
                                                std::span<double> out) {
  TIDEWHEEL_CHECK_EQ(out.size(), q.num_elements());
  // Any array will do for the one that is not written here.
  const MutableHeadsView shape = {q.type, out.data(), q.num_tokens, q.num_heads,
                                  q.head_dim};
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAttentionCall(q, kv_pages, batch, options, shape));
  AttendChecked(q, kv_pages, batch, options, out);
  return absl::OkStatus();
}

absl::Status ReferenceAttention::RaggedPagedAttention(
    const HeadsView& q, const KvPagesView& kv_pages, const RaggedBatch& batch,
    const AttentionOptions& options, const MutableHeadsView& out) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAttentionCall(q, kv_pages, batch, options, out));
  std::vector<double> wide(q.num_elements());
  AttendChecked(q, kv_pages, batch, options, wide);
  Narrow(wide, out);
  return absl::OkStatus();
}

absl::Status ReferenceAttention::WriteKvAndAttend(
    const HeadsView& q, const HeadsView& k, const HeadsView& v,
    const MutableKvPagesView& kv_pages, const RaggedBatch& batch,
    const AttentionOptions& options, const MutableHeadsView& out) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckFusedAttentionCall(q, k, v, ReadOnly(kv_pages),
                                                    batch, options, out));
  WriteKv(k, v, batch, options, kv_pages);
  std::vector<double> wide(q.num_elements());
  AttendChecked(q, ReadOnly(kv_pages), batch, options, wide);
  Narrow(wide, out);
  return absl::OkStatus();
}

}  // namespace tidewheel
