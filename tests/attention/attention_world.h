// AttentionWorld: a small ragged batch with its tensors, for tests of attention
// backends.
//
// Rows are added one by one and get pages of their own, in an order that is
// not that of positions. Everything that no result may depend on is poison:
// NaN in unused slots and padding queries, wild ids in unused table entries.
// Numbers come from one seed.

#ifndef TIDEWHEEL_TESTS_ATTENTION_ATTENTION_WORLD_H_
#define TIDEWHEEL_TESTS_ATTENTION_ATTENTION_WORLD_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "attention/attention_backend.h"
#include "attention/ragged_batch.h"
#include "attention/tensor_view.h"

namespace tidewheel {

struct AttentionWorld {
  // Sizes; change them before the first AddRow.
  ScalarType q_type = ScalarType::kFloat32;
  ScalarType kv_type = ScalarType::kFloat32;
  int32_t num_q_heads = 4;
  int32_t num_kv_heads = 2;
  int32_t head_dim = 8;
  int32_t page_size = 4;
  int32_t pages_per_seq = 8;
  int32_t total_num_pages = 64;
  int32_t padding_rows = 1;
  int32_t padding_queries = 2;
  float v_gain = 1;
  AttentionOptions options;
  std::mt19937 random{1};

  std::vector<int32_t> q_lens;
  std::vector<int32_t> lens;                // kv_len of each row
  std::vector<int32_t> table;               // [rows, pages_per_seq]
  std::vector<char> kv;                     // the pages
  std::vector<std::vector<float>> queries;  // of each row
  int32_t next_page = 63;

  // The arrays of the batch; made by Build.
  std::vector<int32_t> kv_lens;
  std::vector<int32_t> page_indices;
  std::vector<int32_t> cu_q_lens;
  std::vector<char> q;

  size_t kv_elements() const { return Pages().num_elements(); }
  MutableKvPagesView Pages() const {
    return {kv_type,          const_cast<char*>(kv.data()),
            total_num_pages,  page_size,
            2 * num_kv_heads, head_dim};
  }
  float Draw() { return std::normal_distribution<float>(0, 1)(random); }

  void SetSlot(int32_t page, int32_t slot, int32_t combined_head, int32_t d,
               float value) {
    StoreScalar(
        kv_type, kv.data(),
        Pages().Offset(page, slot, combined_head) + static_cast<size_t>(d),
        value);
  }

  // Adds a row with `q_len` queries over `kv_len` random keys and returns its
  // number.
  int32_t AddRow(int32_t q_len, int32_t kv_len) {
    if (kv.empty()) {
      kv.resize(kv_elements() * SizeOfScalar(kv_type));
      // int8 has no NaN.
      for (size_t i = 0; i < kv_elements(); ++i) {
        StoreScalar(kv_type, kv.data(), i,
                    kv_type == ScalarType::kInt8 ? -128 : std::nanf(""));
      }
    }
    const size_t row = lens.size();
    lens.push_back(kv_len);
    q_lens.push_back(q_len);
    for (int32_t entry = 0; entry < pages_per_seq; ++entry) {
      const bool used = entry * page_size < kv_len;
      const int32_t wild[] = {-1, std::numeric_limits<int32_t>::max(),
                              std::numeric_limits<int32_t>::min(), 1000000};
      table.push_back(used ? next_page-- : wild[entry % 4]);
    }
    const float gain = kv_type == ScalarType::kInt8 ? 40.0f : 1.0f;
    for (int32_t t = 0; t < kv_len; ++t) {
      for (int32_t head = 0; head < 2 * num_kv_heads; ++head) {
        for (int32_t d = 0; d < head_dim; ++d) {
          SetSlot(Entry(row, t / page_size), t % page_size, head, d,
                  Draw() * gain * (head % 2 == 1 ? v_gain : 1));
        }
      }
    }
    queries.emplace_back();
    for (int32_t i = 0; i < q_len * num_q_heads * head_dim; ++i) {
      queries.back().push_back(Draw());
    }
    return static_cast<int32_t>(row);
  }

  int32_t& Entry(size_t row, int32_t entry) {
    return table[row * static_cast<size_t>(pages_per_seq) +
                 static_cast<size_t>(entry)];
  }

  // Lays the rows `order` out as a batch.
  RaggedBatch Build(const std::vector<int32_t>& order) {
    kv_lens.clear();
    page_indices.clear();
    cu_q_lens = {0};
    std::vector<float> values;
    for (const int32_t r : order) {
      const auto row = static_cast<size_t>(r);
      kv_lens.push_back(lens[row]);
      cu_q_lens.push_back(cu_q_lens.back() + q_lens[row]);
      const auto begin =
          table.begin() + static_cast<ptrdiff_t>(r) * pages_per_seq;
      page_indices.insert(page_indices.end(), begin, begin + pages_per_seq);
      values.insert(values.end(), queries[row].begin(), queries[row].end());
    }
    const int32_t num_seqs = static_cast<int32_t>(order.size());
    const int32_t total = cu_q_lens.back();
    for (int32_t i = 0; i < padding_rows; ++i) {
      kv_lens.push_back(3);  // stale
      cu_q_lens.push_back(-7);
      page_indices.insert(page_indices.end(),
                          static_cast<size_t>(pages_per_seq), -5);
    }
    const int32_t tokens = total + padding_queries;
    values.resize(static_cast<size_t>(tokens) *
                      static_cast<size_t>(num_q_heads * head_dim),
                  std::nanf(""));
    q.resize(values.size() * SizeOfScalar(q_type));
    for (size_t i = 0; i < values.size(); ++i) {
      StoreScalar(q_type, q.data(), i, values[i]);
    }
    return {.kv_lens = kv_lens,
            .page_indices = page_indices,
            .cu_q_lens = cu_q_lens,
            .num_seqs = num_seqs,
            .max_num_seqs = num_seqs + padding_rows,
            .pages_per_seq = pages_per_seq,
            .page_size = page_size,
            .total_num_pages = total_num_pages,
            .max_num_batched_tokens = tokens};
  }
  RaggedBatch Build() {
    std::vector<int32_t> order;
    for (size_t row = 0; row < lens.size(); ++row) {
      order.push_back(static_cast<int32_t>(row));
    }
    return Build(order);
  }

  HeadsView Queries() const {
    const size_t row_bytes = static_cast<size_t>(num_q_heads) *
                             static_cast<size_t>(head_dim) *
                             SizeOfScalar(q_type);
    return {q_type, q.data(), static_cast<int64_t>(q.size() / row_bytes),
            num_q_heads, head_dim};
  }

  // Runs `backend` on `batch`; the output as float, or empty after an error.
  std::vector<float> Run(AttentionBackend& backend, const RaggedBatch& batch,
                         absl::Status* status = nullptr) const {
    const HeadsView view = Queries();
    std::vector<char> bytes(view.num_bytes(), '\x7f');
    const absl::Status result = backend.RaggedPagedAttention(
        view, ReadOnly(Pages()), batch, options,
        {q_type, bytes.data(), view.num_tokens, num_q_heads, head_dim});
    if (status != nullptr) *status = result;
    std::vector<float> out;
    if (!result.ok()) return out;
    for (size_t i = 0; i < view.num_elements(); ++i) {
      out.push_back(LoadScalar(q_type, bytes.data(), i));
    }
    return out;
  }
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ATTENTION_ATTENTION_WORLD_H_
