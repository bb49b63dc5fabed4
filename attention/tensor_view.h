// Views of dense tensors whose element type is known at run time.
//
// They hold no memory, and a view is as valid as the array behind it. All
// sizes are int64 and every offset is a product in size_t: a pool of 65,536
// pages of 16 tokens with 8 KV heads of 128 already has 2^31 elements.
//
// Thread-safety: values.

#ifndef TIDEWHEEL_ATTENTION_TENSOR_VIEW_H_
#define TIDEWHEEL_ATTENTION_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "attention/scalar_types.h"

namespace tidewheel {

// [num_tokens, num_heads, head_dim], C order: queries, this step's keys or
// values, or the output..
template <typename Pointer>
struct BasicHeadsView {
  ScalarType type = ScalarType::kFloat32;
  Pointer data = nullptr;
  int64_t num_tokens = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;

  // Elements before (token, head, 0).
  size_t Offset(int64_t token, int64_t head) const {
    return (static_cast<size_t>(token) * static_cast<size_t>(num_heads) +
            static_cast<size_t>(head)) *
           static_cast<size_t>(head_dim);
  }
  size_t num_elements() const { return Offset(num_tokens, 0); }
  size_t num_bytes() const { return num_elements() * SizeOfScalar(type); }
};

using HeadsView = BasicHeadsView<const void*>;
using MutableHeadsView = BasicHeadsView<void*>;

// [total_num_pages, page_size, 2 * num_kv_heads, head_dim], C order. Heads are
// interleaved: K of KV head h is combined head 2h, its V is 2h + 1.
template <typename Pointer>
struct BasicKvPagesView {
  ScalarType type = ScalarType::kFloat32;
  Pointer data = nullptr;
  int64_t total_num_pages = 0;
  int64_t page_size = 0;              // tokens
  int64_t num_combined_kv_heads = 0;  // 2 * num_kv_heads
  int64_t head_dim = 0;

  int64_t num_kv_heads() const { return num_combined_kv_heads / 2; }
  // Elements before (page, slot, combined_head, 0).
  size_t Offset(int64_t page, int64_t slot, int64_t combined_head) const {
    const size_t token =
        static_cast<size_t>(page) * static_cast<size_t>(page_size) +
        static_cast<size_t>(slot);
    return (token * static_cast<size_t>(num_combined_kv_heads) +
            static_cast<size_t>(combined_head)) *
           static_cast<size_t>(head_dim);
  }
  size_t num_elements() const { return Offset(total_num_pages, 0, 0); }
  size_t num_bytes() const { return num_elements() * SizeOfScalar(type); }
};

using KvPagesView = BasicKvPagesView<const void*>;
using MutableKvPagesView = BasicKvPagesView<void*>;

inline KvPagesView ReadOnly(const MutableKvPagesView& view) {
  return {view.type,
          view.data,
          view.total_num_pages,
          view.page_size,
          view.num_combined_kv_heads,
          view.head_dim};
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_TENSOR_VIEW_H_
