#include "attention/pjrt/resident_attention.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/attention_key.h"
#include "attention/pjrt/kernel_plan.h"

namespace tidewheel {
namespace {

// Of an attention program: q, k, v, kv_pages and the batch's arrays.
constexpr size_t kQueries = 0;
constexpr size_t kKeys = 1;

// A launch that was refused leaves the pool; one that failed later has put an
// error in its place.
bool IsLost(const PjrtBuffer& pool) {
  if (pool.IsDeleted()) return true;
  const absl::StatusOr<PjrtEvent> ready = pool.ReadyEvent();
  return !ready.ok() || !ready->Poll().value_or(absl::OkStatus()).ok();
}

}  // namespace

ResidentAttention::ResidentAttention(ResidentAttentionOptions options,
                                     std::unique_ptr<ProgramCache> programs)
    : options_(std::move(options)), programs_(std::move(programs)) {}

absl::StatusOr<std::unique_ptr<ResidentAttention>> ResidentAttention::Create(
    std::shared_ptr<const PjrtClient> client,
    ResidentAttentionOptions options) {
  TIDEWHEEL_CHECK(client != nullptr);
  TIDEWHEEL_ASSIGN_OR_RETURN(const AttentionProgramShape shape,
                             ResidentShape(options, client->platform_name()));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      std::unique_ptr<ProgramCache> programs,
      ProgramCache::Create(std::move(client), {.folder = options.cache_folder,
                                               .device_id = options.device_id,
                                               .note = options.note}));
  std::unique_ptr<ResidentAttention> result(
      new ResidentAttention(std::move(options), std::move(programs)));
  result->shape_ = shape;
  TIDEWHEEL_RETURN_IF_ERROR(result->MakeParts());
  return result;
}

absl::Status ResidentAttention::LoadKernels() {
  if (options_.kernel_folder.empty()) return absl::OkStatus();
  // A folder that was asked for and is damaged is an error on any device.
  TIDEWHEEL_ASSIGN_OR_RETURN(KernelLibrary library,
                             KernelLibrary::Load(options_.kernel_folder));
  const std::string& kind = programs_->device().kind();
  const absl::StatusOr<TpuGeneration> generation = ParseTpuGeneration(kind);
  if (shape_.pool_slot_rows() != 2 * shape_.num_kv_heads) {
    if (options_.note == nullptr) return absl::OkStatus();
    options_.note(
        absl::StrCat("the kernels of '", library.folder(), "' take a pool of ",
                     2 * shape_.num_kv_heads, " rows a token; this one has ",
                     shape_.pool_slot_rows(), ", so programs are emitted"));
  } else if (programs_->client().platform_name() == "tpu" && generation.ok()) {
    generation_ = *generation;
    kernels_ = std::move(library);
  } else if (options_.note != nullptr) {
    options_.note(absl::StrCat(
        "the kernels of '", library.folder(), "' are for TPUs; this device is ",
        kind, " of platform ", programs_->client().platform_name(),
        ", so programs are emitted"));
  }
  return absl::OkStatus();
}

absl::Status ResidentAttention::MakeParts() {
  TIDEWHEEL_RETURN_IF_ERROR(LoadKernels());
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const KernelPlan plan,
      PlanKernels(shape_, options_.tokens,
                  kernels_.has_value() ? &*kernels_ : nullptr, generation_));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      table_,
      DeviceTable::Create(
          programs_.get(),
          {.max_num_seqs = options_.max_num_seqs,
           .pages_per_seq = options_.pages_per_seq,
           .page_size = options_.page_size,
           .total_num_pages = options_.total_num_pages,
           .max_num_batched_tokens = options_.tokens.max_num_batched_tokens,
           .empty_rows = options_.attention.front().empty_rows,
           .device_shape = plan.table}));
  shape_.max_num_seqs = plan.table.max_num_seqs;
  shape_.pages_per_seq = plan.table.pages_per_seq;
  TIDEWHEEL_RETURN_IF_ERROR(MakePrograms(plan.token_buckets));
  for (Flight& flight : flights_) {
    flight.layers.resize(static_cast<size_t>(options_.num_layers));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      pools_, DevicePools::Create(programs_.get(),
                                  {.kv_type = shape_.kv_type,
                                   .total_num_pages = shape_.total_num_pages,
                                   .page_size = shape_.page_size,
                                   .num_kv_heads = shape_.num_kv_heads,
                                   .pool_head_dim = shape_.pool_head_dim,
                                   .pool_kv_heads = shape_.pool_kv_heads,
                                   .pool_head_rows = shape_.pool_head_rows,
                                   .pool_as_bits = shape_.pool_as_bits},
                                  options_.num_layers));
  return absl::OkStatus();
}

absl::Status ResidentAttention::MakePrograms(
    const std::vector<int32_t>& token_buckets) {
  std::vector<AttentionOptions> distinct;
  for (int32_t layer = 0; layer < options_.num_layers; ++layer) {
    const size_t given =
        options_.attention.size() == 1 ? 0 : static_cast<size_t>(layer);
    const AttentionOptions& own = options_.attention[given];
    const auto same =
        std::ranges::find_if(distinct, [&own](const AttentionOptions& other) {
          return SameProgramOptions(own, other);
        });
    attention_of_layer_.push_back(static_cast<size_t>(same - distinct.begin()));
    if (same == distinct.end()) distinct.push_back(own);
  }
  for (const AttentionOptions& attention : distinct) {
    AttentionPrograms::Options of_layers;
    of_layers.shape = shape_;
    of_layers.shape.options = attention;
    of_layers.token_buckets = token_buckets;
    of_layers.kernels = kernels_.has_value() ? &*kernels_ : nullptr;
    of_layers.generation = generation_;
    of_layers.note = options_.note;
    TIDEWHEEL_ASSIGN_OR_RETURN(
        attention_.emplace_back(),
        AttentionPrograms::Create(programs_.get(), std::move(of_layers)));
  }
  executables_.resize(attention_.size());
  return absl::OkStatus();
}

absl::Status ResidentAttention::Warm() {
  for (const std::unique_ptr<AttentionPrograms>& attention : attention_) {
    TIDEWHEEL_RETURN_IF_ERROR(attention->Warm());
  }
  TIDEWHEEL_RETURN_IF_ERROR(table_->Warm());
  return pools_->Warm();
}

absl::Status ResidentAttention::CheckUsable() const {
  if (device_error_.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the device's KV pages are lost after \"", device_error_.message(),
      "\"; call Reset and compute their sequences anew"));
}

absl::Status ResidentAttention::CheckStepOpen() const {
  TIDEWHEEL_RETURN_IF_ERROR(CheckUsable());
  if (is_open_) return absl::OkStatus();
  return absl::FailedPreconditionError("no step is open; call BeginStep first");
}

void ResidentAttention::Lose(const absl::Status& status) {
  if (device_error_.ok()) device_error_ = status;
  table_->Forget();
}

absl::Status ResidentAttention::NoteFailure(const absl::Status& status) {
  for (int32_t layer = 0; layer < pools_->num_layers(); ++layer) {
    if (IsLost(pools_->pool(layer))) {
      Lose(status);
      break;
    }
  }
  return status;
}

absl::Status ResidentAttention::ChoosePrograms(const RaggedBatch& batch) {
  AttentionForm form = AttentionForm::kDecode;
  for (int32_t row = 0; row < batch.num_seqs; ++row) {
    if (batch.q_len(row) > 1) form = AttentionForm::kPrefill;
  }
  const size_t bucket = attention_.front()->BucketOf(batch.total_q_tokens());
  for (size_t i = 0; i < attention_.size(); ++i) {
    TIDEWHEEL_ASSIGN_OR_RETURN(executables_[i],
                               attention_[i]->Get(form, bucket));
  }
  step_tokens_ = attention_.front()->tokens(bucket);
  return absl::OkStatus();
}

absl::Status ResidentAttention::StartStep(const RaggedBatch& batch,
                                          std::span<const int32_t> changed_rows,
                                          std::span<const PageCopy> copies) {
  const size_t slot = open_slot();
  Flight& flight = flights_[slot];
  for (PjrtEvent& event : flight.layers) event = PjrtEvent();
  // Refused copies must not leave a table behind that is ahead of the caller.
  TIDEWHEEL_RETURN_IF_ERROR(pools_->CopyPages(copies, flight.layers));
  return table_->Upload(batch, changed_rows, slot, flight.table);
}

absl::Status ResidentAttention::BeginStep(const RaggedBatch& batch,
                                          std::span<const int32_t> changed_rows,
                                          std::span<const PageCopy> copies) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckUsable());
  if (is_open_) {
    return absl::FailedPreconditionError(
        "a step is open; call EndStep or AbandonStep first");
  }
  if (num_flights_ == kMaxStepsInFlight) {
    return absl::FailedPreconditionError(
        absl::StrCat(num_flights_, " steps are in flight, at most ",
                     kMaxStepsInFlight, " may be; call AwaitOldest first"));
  }
  TIDEWHEEL_RETURN_IF_ERROR(table_->Check(batch, changed_rows));
  TIDEWHEEL_RETURN_IF_ERROR(ChoosePrograms(batch));
  const absl::Status status = StartStep(batch, changed_rows, copies);
  if (!status.ok()) return NoteFailure(status);
  is_open_ = true;
  return absl::OkStatus();
}

const PjrtShape& ResidentAttention::q_shape() const {
  TIDEWHEEL_CHECK(is_open_);
  return executables_.front()->arguments()[kQueries].shape;
}

const PjrtShape& ResidentAttention::kv_shape() const {
  TIDEWHEEL_CHECK(is_open_);
  return executables_.front()->arguments()[kKeys].shape;
}

absl::Status ResidentAttention::RunLayer(int32_t layer, PjrtBuffer& q,
                                         PjrtBuffer& k, PjrtBuffer& v,
                                         PjrtBuffer& out) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckStepOpen());
  if (layer < 0 || layer >= options_.num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", layer, " is not in [0, ", options_.num_layers,
                     "); run the layers that the backend was made for"));
  }
  const size_t slot = open_slot();
  const auto index = static_cast<size_t>(layer);
  PjrtBuffer& pool = pools_->pool(layer);
  std::array<PjrtBuffer, 2> outputs;
  absl::StatusOr<PjrtEvent> event =
      executables_[attention_of_layer_[index]]->Launch(
          std::array{&q, &k, &v, &pool, &table_->kv_lens(slot),
                     &table_->page_indices(), &table_->cu_q_lens(slot),
                     &table_->num_seqs(slot)},
          outputs);
  if (!event.ok()) return NoteFailure(event.status());
  flights_[slot].layers[index] = *std::move(event);
  out = std::move(outputs[0]);
  pool = std::move(outputs[1]);
  return absl::OkStatus();
}

absl::StatusOr<PjrtBuffer> ResidentAttention::UploadHeads(
    absl::string_view name, const HeadsView& view, ScalarType type,
    const PjrtShape& shape) const {
  if (view.type != type || view.num_tokens != shape.dims()[0] ||
      view.num_heads != shape.dims()[1] || view.head_dim != shape.dims()[2]) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", ScalarTypeName(view.type), "[",
                     view.num_tokens, ", ", view.num_heads, ", ", view.head_dim,
                     "] and must be ", ScalarTypeName(type), " of ",
                     shape.ToString(), "; give step_tokens() rows"));
  }
  const auto* data = static_cast<const std::byte*>(view.data);
  return programs_->client().Upload(std::span(data, view.num_bytes()), shape,
                                    &programs_->device());
}

absl::Status ResidentAttention::RunLayer(int32_t layer, const HeadsView& q,
                                         const HeadsView& k, const HeadsView& v,
                                         const MutableHeadsView& out) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckStepOpen());
  if (out.type != q.type || out.num_bytes() != q.num_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "out has ", out.num_bytes(), " bytes of ", ScalarTypeName(out.type),
        ", q has ", q.num_bytes(), " of ", ScalarTypeName(q.type),
        "; give an array of q's shape and type"));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer q_buffer,
                             UploadHeads("q", q, shape_.q_type, q_shape()));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      PjrtBuffer k_buffer, UploadHeads("k", k, shape_.new_kv_type, kv_shape()));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      PjrtBuffer v_buffer, UploadHeads("v", v, shape_.new_kv_type, kv_shape()));
  PjrtBuffer result;
  TIDEWHEEL_RETURN_IF_ERROR(
      RunLayer(layer, q_buffer, k_buffer, v_buffer, result));
  const absl::Status status = result.ToHost(
      std::span(static_cast<std::byte*>(out.data), out.num_bytes()));
  if (!status.ok()) Lose(status);
  return status;
}

absl::Status ResidentAttention::EndStep() {
  TIDEWHEEL_RETURN_IF_ERROR(CheckStepOpen());
  is_open_ = false;
  ++num_flights_;
  return absl::OkStatus();
}

void ResidentAttention::AbandonStep() { is_open_ = false; }

absl::Status ResidentAttention::AwaitOldest() {
  if (num_flights_ == 0) {
    return absl::FailedPreconditionError(
        "no step is in flight; call BeginStep and EndStep first");
  }
  const Flight& flight = flights_[first_flight_];
  absl::Status status;
  if (!flight.table.empty()) status.Update(flight.table.Await());
  for (const PjrtEvent& event : flight.layers) {
    if (!event.empty()) status.Update(event.Await());
  }
  if (!status.ok()) Lose(status);
  DropOldest();
  return status;
}

void ResidentAttention::DropOldest() {
  TIDEWHEEL_CHECK_GT(num_flights_, 0u);
  first_flight_ = (first_flight_ + 1) % kMaxStepsInFlight;
  --num_flights_;
}

absl::Status ResidentAttention::ReadPages(std::span<const int32_t> ids,
                                          std::span<std::byte> target) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckUsable());
  const absl::Status status = pools_->ReadPages(ids, target);
  return status.ok() ? status : NoteFailure(status);
}

absl::Status ResidentAttention::WritePages(std::span<const int32_t> ids,
                                           std::span<const std::byte> source) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckUsable());
  const absl::Status status = pools_->WritePages(ids, source);
  return status.ok() ? status : NoteFailure(status);
}

absl::Status ResidentAttention::Reset() {
  is_open_ = false;
  num_flights_ = 0;
  table_->Forget();
  // What still runs may hold the old pools.
  for (Flight& flight : flights_) {
    if (!flight.table.empty()) flight.table.Await().IgnoreError();
    for (PjrtEvent& event : flight.layers) {
      if (!event.empty()) event.Await().IgnoreError();
      event = PjrtEvent();
    }
  }
  device_error_ = pools_->Reset();
  return device_error_;
}

absl::StatusOr<ResidentAttention::MemoryReport> ResidentAttention::Memory()
    const {
  MemoryReport report;
  TIDEWHEEL_ASSIGN_OR_RETURN(report.pool_bytes, pools_->PoolBytes());
  TIDEWHEEL_ASSIGN_OR_RETURN(report.table_bytes, table_->TableBytes());
  for (const std::unique_ptr<AttentionPrograms>& attention : attention_) {
    TIDEWHEEL_RETURN_IF_ERROR(attention->AddMemory(report.launches));
  }
  TIDEWHEEL_RETURN_IF_ERROR(table_->AddMemory(report.launches));
  TIDEWHEEL_RETURN_IF_ERROR(pools_->AddMemory(report.launches));
  return report;
}

}  // namespace tidewheel
