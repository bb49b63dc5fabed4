#include "tests/attention/stablehlo/stablehlo_attention.h"

#include <cstring>
#include <vector>

#include "allocator/status_macros.h"
#include "attention/attention_call.h"
#include "gtest/gtest.h"

namespace tidewheel {
namespace {

Bytes HeadsBytes(const HeadsView& view) {
  const char* data = static_cast<const char*>(view.data);
  return Bytes(data, data + view.num_bytes());
}

// The int32 arrays of a batch, in the order of the program's arguments.
std::vector<Bytes> BatchBytes(const RaggedBatch& batch) {
  return {BytesOf(batch.kv_lens), BytesOf(batch.page_indices),
          BytesOf(batch.cu_q_lens),
          BytesOf(std::span<const int32_t>(&batch.num_seqs, 1))};
}

// The rows of a pool, one for each slot and each head of K and of V.
struct PoolRows {
  PoolRows(const KvPagesView& kv_pages,
           const StablehloAttention::Options& options)
      : heads(static_cast<size_t>(kv_pages.num_combined_kv_heads)),
        wide_heads(heads + 2 * static_cast<size_t>(options.kv_head_padding)) {
    const size_t element = SizeOfScalar(kv_pages.type);
    row = static_cast<size_t>(kv_pages.head_dim) * element;
    wide_row = row + static_cast<size_t>(options.head_padding) * element;
    slots = kv_pages.num_bytes() / row / heads;
  }
  size_t Wide(size_t slot, size_t head) const {
    return (slot * wide_heads + head) * wide_row;
  }
  size_t wide_bytes() const { return Wide(slots, 0); }

  size_t slots = 0;
  size_t heads;
  size_t wide_heads;    // with padding
  size_t row = 0;       // bytes
  size_t wide_row = 0;  // bytes with padding
};

}  // namespace

AttentionProgramShape StablehloAttention::ShapeOf(
    const HeadsView& q, const KvPagesView& kv_pages, const RaggedBatch& batch,
    const AttentionOptions& options) const {
  AttentionProgramShape shape;
  shape.form = options_.form;
  shape.q_type = q.type;
  shape.kv_type = kv_pages.type;
  shape.new_kv_type = kv_pages.type;
  shape.num_tokens = q.num_tokens;
  shape.num_q_heads = q.num_heads;
  shape.num_kv_heads = kv_pages.num_kv_heads();
  shape.head_dim = q.head_dim;
  shape.pool_head_dim = q.head_dim + options_.head_padding;
  shape.pool_kv_heads = shape.num_kv_heads + options_.kv_head_padding;
  shape.pool_head_rows = options_.head_rows;
  shape.page_size = batch.page_size;
  shape.total_num_pages = batch.total_num_pages;
  shape.max_num_seqs = batch.max_num_seqs;
  shape.pages_per_seq = batch.pages_per_seq;
  shape.writes_kv = false;
  shape.pool_as_bits = options_.pool_as_bits;
  shape.kv_block_pages = options_.kv_block_pages;
  shape.row_tile = options_.row_tile;
  shape.query_tile = options_.query_tile;
  shape.options = options;
  return shape;
}

absl::Status StablehloAttention::Compile(const AttentionProgramShape& shape) {
  TIDEWHEEL_ASSIGN_OR_RETURN(Program program, EmitAttention(shape));
  auto& compiled = programs_[program.text];
  if (compiled == nullptr) {
    compiled = std::make_unique<DeviceProgram>(client_, std::move(program));
  }
  if (!compiled->ok()) {
    return absl::InternalError("the program did not compile");
  }
  last_program_ = compiled.get();
  last_shape_ = WithChosenTiles(shape);
  return absl::OkStatus();
}

Bytes StablehloAttention::Widened(const KvPagesView& kv_pages) const {
  const PoolRows rows(kv_pages, options_);
  Bytes bytes(rows.wide_bytes(), '\xff');  // NaN in every float type
  for (size_t slot = 0; slot < rows.slots; ++slot) {
    for (size_t head = 0; head < rows.heads; ++head) {
      std::memcpy(bytes.data() + rows.Wide(slot, head),
                  static_cast<const char*>(kv_pages.data) +
                      (slot * rows.heads + head) * rows.row,
                  rows.row);
    }
  }
  return bytes;
}

void StablehloAttention::Narrow(const Bytes& wide, int64_t wanted_written,
                                const MutableKvPagesView& kv_pages) const {
  const PoolRows rows(ReadOnly(kv_pages), options_);
  int64_t num_written = 0;
  for (size_t slot = 0; slot < rows.slots; ++slot) {
    bool is_written = true;
    for (size_t head = 0; head < rows.wide_heads; ++head) {
      const size_t real = head < rows.heads ? rows.row : 0;
      const absl::string_view padding(
          wide.data() + rows.Wide(slot, head) + real, rows.wide_row - real);
      is_written &= padding == std::string(padding.size(), '\0');
      if (real == 0) continue;
      std::memcpy(static_cast<char*>(kv_pages.data) +
                      (slot * rows.heads + head) * rows.row,
                  wide.data() + rows.Wide(slot, head), rows.row);
    }
    if (is_written) ++num_written;
  }
  if (rows.wide_bytes() > kv_pages.num_bytes()) {
    EXPECT_EQ(num_written, wanted_written);
  }
}

absl::Status StablehloAttention::RaggedPagedAttention(
    const HeadsView& q, const KvPagesView& kv_pages, const RaggedBatch& batch,
    const AttentionOptions& options, const MutableHeadsView& out) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAttentionCall(q, kv_pages, batch, options, out));
  TIDEWHEEL_RETURN_IF_ERROR(Compile(ShapeOf(q, kv_pages, batch, options)));
  std::vector<Bytes> arguments = {HeadsBytes(q), Widened(kv_pages)};
  for (Bytes& bytes : BatchBytes(batch)) arguments.push_back(std::move(bytes));
  const Bytes result = last_program_->Run(arguments)[0];
  std::memcpy(out.data, result.data(), result.size());
  return absl::OkStatus();
}

absl::Status StablehloAttention::WriteKvAndAttend(
    const HeadsView& q, const HeadsView& k, const HeadsView& v,
    const MutableKvPagesView& kv_pages, const RaggedBatch& batch,
    const AttentionOptions& options, const MutableHeadsView& out) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckFusedAttentionCall(q, k, v, ReadOnly(kv_pages),
                                                    batch, options, out));
  AttentionProgramShape shape = ShapeOf(q, ReadOnly(kv_pages), batch, options);
  shape.writes_kv = true;
  shape.new_kv_type = k.type;
  TIDEWHEEL_RETURN_IF_ERROR(Compile(shape));
  std::vector<Bytes> arguments = {HeadsBytes(q), HeadsBytes(k), HeadsBytes(v),
                                  Widened(ReadOnly(kv_pages))};
  for (Bytes& bytes : BatchBytes(batch)) arguments.push_back(std::move(bytes));
  const std::vector<Bytes> results = last_program_->Run(arguments);
  std::memcpy(out.data, results[0].data(), results[0].size());
  Narrow(results[1], batch.total_q_tokens(), kv_pages);
  return absl::OkStatus();
}

}  // namespace tidewheel
