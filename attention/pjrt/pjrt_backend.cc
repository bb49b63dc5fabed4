#include "attention/pjrt/pjrt_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/attention_call.h"
#include "attention/pjrt/emitted_program.h"
#include "attention/stablehlo/attention_program.h"

namespace tidewheel {
namespace {

using Bytes = std::span<const std::byte>;

Bytes BytesOf(const HeadsView& view) {
  return {static_cast<const std::byte*>(view.data), view.num_bytes()};
}

AttentionProgramShape ShapeOf(const HeadsView& q, const KvPagesView& kv_pages,
                              const RaggedBatch& batch,
                              const AttentionOptions& options) {
  AttentionProgramShape shape;
  shape.form = AttentionForm::kDecode;
  for (int32_t row = 0; row < batch.num_seqs; ++row) {
    if (batch.q_len(row) > 1) shape.form = AttentionForm::kPrefill;
  }
  shape.q_type = q.type;
  shape.kv_type = kv_pages.type;
  shape.new_kv_type = kv_pages.type;
  shape.num_tokens = q.num_tokens;
  shape.num_q_heads = q.num_heads;
  shape.num_kv_heads = kv_pages.num_kv_heads();
  shape.head_dim = q.head_dim;
  shape.pool_head_dim = q.head_dim;
  shape.page_size = batch.page_size;
  shape.total_num_pages = batch.total_num_pages;
  shape.max_num_seqs = batch.max_num_seqs;
  shape.pages_per_seq = batch.pages_per_seq;
  shape.writes_kv = false;
  shape.options = options;
  return shape;
}

// `view` as WriteKvAndAttend stores it in pages of `type`.
std::vector<std::byte> Stored(const HeadsView& view, ScalarType type,
                              std::optional<float> scale) {
  std::vector<std::byte> stored(view.num_elements() * SizeOfScalar(type));
  if (view.type == type) {
    std::ranges::copy(BytesOf(view), stored.begin());
    return stored;
  }
  for (size_t i = 0; i < view.num_elements(); ++i) {
    float value = LoadScalar(view.type, view.data, i);
    if (scale.has_value()) value /= *scale;
    if (SizeOfScalar(type) == 1) value = ClampTo(type, value);
    StoreScalar(type, stored.data(), i, value);
  }
  return stored;
}

}  // namespace

struct PjrtBackend::Call {
  HeadsView q;
  std::optional<HeadsView> k = std::nullopt;  // both or none
  std::optional<HeadsView> v = std::nullopt;
  KvPagesView kv_pages;
  const RaggedBatch& batch;
  MutableHeadsView out;
  void* written_pages = nullptr;  // of kv_pages, if k and v are written
};

absl::StatusOr<std::unique_ptr<PjrtBackend>> PjrtBackend::Create(
    std::shared_ptr<const PjrtClient> client,
    const PjrtBackendOptions& options) {
  TIDEWHEEL_ASSIGN_OR_RETURN(
      std::unique_ptr<ProgramCache> programs,
      ProgramCache::Create(std::move(client), {.folder = options.cache_folder,
                                               .device_id = options.device_id,
                                               .note = options.note}));
  return std::unique_ptr<PjrtBackend>(new PjrtBackend(std::move(programs)));
}

absl::StatusOr<const PjrtExecutable*> PjrtBackend::Get(
    const AttentionProgramShape& shape) {
  const AttentionKey key(shape);
  const auto found = std::ranges::find(kept_, key, &Kept::key);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().executable.get();
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(std::unique_ptr<PjrtExecutable> executable,
                             CompileEmitted(EmitAttention(shape), *programs_));
  if (kept_.size() == kMaxPrograms) kept_.pop_back();
  kept_.push_front({key, std::move(executable)});
  return kept_.front().executable.get();
}

absl::Status PjrtBackend::Run(const AttentionProgramShape& given,
                              const Call& call) {
  AttentionProgramShape shape = given;
  shape.pool_as_bits = programs_->client().platform_name() == "cpu";
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtExecutable* executable, Get(shape));
  std::vector<Bytes> arrays = {BytesOf(call.q)};
  if (call.k.has_value()) {
    arrays.push_back(BytesOf(*call.k));
    arrays.push_back(BytesOf(*call.v));
  }
  arrays.emplace_back(static_cast<const std::byte*>(call.kv_pages.data),
                      call.kv_pages.num_bytes());
  const std::span<const int32_t> num_seqs(&call.batch.num_seqs, 1);
  for (const std::span<const int32_t> metadata :
       {call.batch.kv_lens, call.batch.page_indices, call.batch.cu_q_lens,
        num_seqs}) {
    arrays.push_back(std::as_bytes(metadata));
  }
  const std::span<const PjrtArgument> arguments = executable->arguments();
  TIDEWHEEL_CHECK_EQ(arguments.size(), arrays.size());
  std::vector<PjrtBuffer> buffers;
  for (size_t i = 0; i < arrays.size(); ++i) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        buffers.emplace_back(),
        programs_->client().Upload(arrays[i], arguments[i].shape,
                                   &programs_->device()));
  }
  std::vector<PjrtBuffer*> pointers;
  for (PjrtBuffer& buffer : buffers) pointers.push_back(&buffer);
  std::vector<PjrtBuffer> results(executable->outputs().size());
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtEvent done,
                             executable->Launch(pointers, results));
  TIDEWHEEL_RETURN_IF_ERROR(done.Await());
  if (call.written_pages != nullptr) {
    TIDEWHEEL_RETURN_IF_ERROR(
        results[1].ToHost(std::span(static_cast<std::byte*>(call.written_pages),
                                    call.kv_pages.num_bytes())));
  }
  return results[0].ToHost(
      std::span(static_cast<std::byte*>(call.out.data), call.out.num_bytes()));
}

absl::Status PjrtBackend::RaggedPagedAttention(const HeadsView& q,
                                               const KvPagesView& kv_pages,
                                               const RaggedBatch& batch,
                                               const AttentionOptions& options,
                                               const MutableHeadsView& out) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAttentionCall(q, kv_pages, batch, options, out));
  if (batch.total_q_tokens() == 0) {
    std::memset(out.data, 0, out.num_bytes());
    return absl::OkStatus();
  }
  return Run(ShapeOf(q, kv_pages, batch, options),
             {.q = q, .kv_pages = kv_pages, .batch = batch, .out = out});
}

absl::Status PjrtBackend::WriteKvAndAttend(
    const HeadsView& q, const HeadsView& k, const HeadsView& v,
    const MutableKvPagesView& kv_pages, const RaggedBatch& batch,
    const AttentionOptions& options, const MutableHeadsView& out) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckFusedAttentionCall(q, k, v, ReadOnly(kv_pages),
                                                    batch, options, out));
  if (batch.total_q_tokens() == 0) {
    std::memset(out.data, 0, out.num_bytes());
    return absl::OkStatus();
  }
  AttentionProgramShape shape = ShapeOf(q, ReadOnly(kv_pages), batch, options);
  shape.writes_kv = true;
  Call call = {.q = q,
               .k = k,
               .v = v,
               .kv_pages = ReadOnly(kv_pages),
               .batch = batch,
               .out = out,
               .written_pages = kv_pages.data};
  if (k.type == v.type) {
    shape.new_kv_type = k.type;
    return Run(shape, call);
  }
  const std::vector<std::byte> stored_k =
      Stored(k, kv_pages.type, options.k_scale);
  const std::vector<std::byte> stored_v =
      Stored(v, kv_pages.type, options.v_scale);
  call.k->type = call.v->type = kv_pages.type;
  call.k->data = stored_k.data();
  call.v->data = stored_v.data();
  return Run(shape, call);
}

}  // namespace tidewheel
