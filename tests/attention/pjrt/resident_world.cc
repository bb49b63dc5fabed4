#include "tests/attention/pjrt/resident_world.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

constexpr int32_t kLayers = 2;
constexpr int32_t kQHeads = 4;
constexpr int32_t kKvHeads = 2;
constexpr int32_t kPageSize = 4;
constexpr int32_t kPagesPerSeq = 6;
constexpr int32_t kMaxNumSeqs = 6;
constexpr int32_t kTotalPages = 30;
constexpr int32_t kMaxTokens = 16;

}  // namespace

ResidentAttentionOptions ResidentWorld::Options(ScalarType kv_type,
                                                ScalarType new_kv_type,
                                                int32_t head_dim,
                                                int32_t pool_head_dim) {
  ResidentAttentionOptions options;
  options.num_layers = kLayers;
  options.num_q_heads = kQHeads;
  options.num_kv_heads = kKvHeads;
  options.head_dim = head_dim;
  options.pool_head_dim = pool_head_dim;
  options.q_type = ScalarType::kFloat32;
  options.new_kv_type = new_kv_type;
  options.kv_type = kv_type;
  options.page_size = kPageSize;
  options.total_num_pages = kTotalPages;
  options.max_num_seqs = kMaxNumSeqs;
  options.pages_per_seq = kPagesPerSeq;
  options.tokens = {.max_num_batched_tokens = kMaxTokens, .smallest = 8};
  options.attention.resize(kLayers);
  options.attention[0].sm_scale = options.attention[1].sm_scale =
      1 / std::sqrt(static_cast<float>(head_dim));
  options.attention[1].sliding_window = 7;
  options.attention[1].soft_cap = 3.0f;
  return options;
}

ResidentWorld::ResidentWorld(ResidentAttention* attention,
                             const ResidentAttentionOptions& options,
                             uint32_t seed)
    : attention_(attention), options_(options), random_(seed) {
  StartOver();
}

void ResidentWorld::StartOver() {
  flights_.clear();
  rows_.clear();
  copies_.clear();
  free_pages_.clear();
  for (int32_t page = kTotalPages - 1; page > 0; --page) {
    free_pages_.push_back(page);
  }
  pools_.assign(kLayers, Bytes(PoolBytes()));
  // The device has no table yet, or none of these rows.
  for (int32_t row = 0; row < kMaxNumSeqs; ++row) changed_rows_.insert(row);
}

int32_t ResidentWorld::Below(int32_t limit) {
  return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit));
}

size_t ResidentWorld::PoolBytes() const {
  return static_cast<size_t>(kTotalPages) * attention_->page_bytes();
}

MutableKvPagesView ResidentWorld::Pages(size_t layer) {
  return {options_.kv_type, pools_[layer].data(),      kTotalPages,
          kPageSize,        2 * options_.num_kv_heads, *options_.pool_head_dim};
}

std::vector<int32_t> ResidentWorld::AllPages() const {
  std::vector<int32_t> ids(kTotalPages);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// NaN in every page but page 0, on both sides; int8 has none.
absl::Status ResidentWorld::Poison() {
  const size_t page_bytes = attention_->page_bytes();
  Bytes sent;
  for (size_t layer = 0; layer < kLayers; ++layer) {
    std::fill(pools_[layer].begin() + static_cast<ptrdiff_t>(page_bytes),
              pools_[layer].end(), '\xff');
    sent.insert(sent.end(),
                pools_[layer].begin() + static_cast<ptrdiff_t>(page_bytes),
                pools_[layer].end());
  }
  const std::vector<int32_t> ids = AllPages();
  return attention_->WritePages(std::span(ids).subspan(1),
                                std::as_bytes(std::span(sent)));
}

void ResidentWorld::Remove(size_t row) {
  for (const int32_t page : rows_[row].pages) {
    // Shared pages are free when the last row leaves them.
    bool shared = false;
    for (size_t other = 0; other < rows_.size(); ++other) {
      if (other == row) continue;
      shared |= std::ranges::count(rows_[other].pages, page) > 0;
    }
    if (!shared) free_pages_.push_back(page);
  }
  changed_rows_.insert(static_cast<int32_t>(row));
  changed_rows_.insert(static_cast<int32_t>(rows_.size()) - 1);
  std::swap(rows_[row], rows_.back());
  rows_.pop_back();
}

// A new row of the same content: full pages are shared, the last is copied.
void ResidentWorld::Fork() {
  if (rows_.empty() || rows_.size() == kMaxNumSeqs || free_pages_.empty()) {
    return;
  }
  Sequence child =
      rows_[static_cast<size_t>(Below(static_cast<int32_t>(rows_.size())))];
  if (child.len % kPageSize != 0) {
    const int32_t copy = free_pages_.back();
    free_pages_.pop_back();
    copies_.push_back({child.pages.back(), copy, child.len % kPageSize});
    child.pages.back() = copy;
  }
  rows_.push_back(std::move(child));
  changed_rows_.insert(static_cast<int32_t>(rows_.size()) - 1);
}

void ResidentWorld::Disturb() {
  if (rows_.size() < kMaxNumSeqs && (rows_.empty() || Below(3) == 0)) {
    rows_.emplace_back();
    changed_rows_.insert(static_cast<int32_t>(rows_.size()) - 1);
  }
  if (Below(5) == 0) Fork();
  // The target of a copy that is still to be done must stay.
  if (copies_.empty() && rows_.size() > 1 && Below(6) == 0) {
    Remove(static_cast<size_t>(Below(static_cast<int32_t>(rows_.size()))));
  }
  if (rows_.size() > 1 && Below(3) == 0) {
    const int32_t count = static_cast<int32_t>(rows_.size());
    const int32_t a = Below(count);
    const int32_t b = Below(count);
    std::swap(rows_[static_cast<size_t>(a)], rows_[static_cast<size_t>(b)]);
    changed_rows_.insert({a, b});
  }
}

bool ResidentWorld::Grow(size_t row, int32_t tokens) {
  Sequence& sequence = rows_[row];
  const int32_t len = sequence.len + tokens;
  const int32_t pages = (len + kPageSize - 1) / kPageSize;
  const int32_t more = pages - static_cast<int32_t>(sequence.pages.size());
  if (pages > kPagesPerSeq || more > static_cast<int32_t>(free_pages_.size())) {
    return false;
  }
  for (int32_t i = 0; i < more; ++i) {
    sequence.pages.push_back(free_pages_.back());
    free_pages_.pop_back();
    changed_rows_.insert(static_cast<int32_t>(row));
  }
  sequence.len = len;
  return true;
}

// Grows some rows, the first ones, and lays all out; num_seqs is 0 if none
// can grow.
RaggedBatch ResidentWorld::PlanBatch() {
  kv_lens_.assign(kMaxNumSeqs, 0);
  cu_q_lens_ = {0};
  page_indices_.assign(kMaxNumSeqs * kPagesPerSeq, 0);
  int32_t num_seqs = 0;
  const bool decodes = Below(2) == 0;
  const int32_t wanted = 1 + Below(static_cast<int32_t>(rows_.size()));
  while (num_seqs < wanted) {
    const int32_t left = kMaxTokens - cu_q_lens_.back() - wanted;
    const int32_t tokens = decodes ? 1 : 1 + Below(std::clamp(left, 1, 6));
    const auto row = static_cast<size_t>(num_seqs);
    if (!Grow(row, tokens)) break;
    kv_lens_[row] = rows_[row].len;
    cu_q_lens_.push_back(cu_q_lens_.back() + tokens);
    ++num_seqs;
  }
  cu_q_lens_.resize(kMaxNumSeqs + 1, cu_q_lens_.back());
  for (size_t row = 0; row < rows_.size(); ++row) {
    std::ranges::copy(
        rows_[row].pages,
        page_indices_.begin() + static_cast<ptrdiff_t>(row) * kPagesPerSeq);
  }
  return {.kv_lens = kv_lens_,
          .page_indices = page_indices_,
          .cu_q_lens = cu_q_lens_,
          .num_seqs = num_seqs,
          .max_num_seqs = kMaxNumSeqs,
          .pages_per_seq = kPagesPerSeq,
          .page_size = kPageSize,
          .total_num_pages = kTotalPages,
          .max_num_batched_tokens = kMaxTokens};
}

void ResidentWorld::MirrorCopies() {
  const size_t page_bytes = attention_->page_bytes();
  for (const PageCopy& copy : copies_) {
    for (Bytes& pool : pools_) {
      std::memcpy(pool.data() + static_cast<size_t>(copy.target) * page_bytes,
                  pool.data() + static_cast<size_t>(copy.source) * page_bytes,
                  page_bytes);
    }
  }
  num_copies_ += static_cast<int64_t>(copies_.size());
}

HeadsView ResidentWorld::DrawHeads(ScalarType type, int32_t num_heads,
                                   int32_t real_tokens, Bytes& bytes) {
  HeadsView view = {type, nullptr, attention_->step_tokens(), num_heads,
                    options_.head_dim};
  bytes.resize(view.num_bytes());
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < view.num_elements(); ++i) {
    const bool real = i < view.Offset(real_tokens, 0);
    StoreScalar(
        type, bytes.data(), i,
        real ? normal(random_) : std::numeric_limits<float>::quiet_NaN());
  }
  view.data = bytes.data();
  return view;
}

// The mirror's pages are as wide as the device's; the reference reads pages of
// head_dim, so it runs on a narrow copy that is widened again.
absl::Status ResidentWorld::RunLayer(const RaggedBatch& batch, int32_t layer,
                                     std::vector<Expected>& step) {
  Bytes q_bytes;
  Bytes k_bytes;
  Bytes v_bytes;
  const int32_t real = batch.total_q_tokens();
  const HeadsView q =
      DrawHeads(options_.q_type, options_.num_q_heads, real, q_bytes);
  const HeadsView k =
      DrawHeads(options_.new_kv_type, options_.num_kv_heads, real, k_bytes);
  const HeadsView v =
      DrawHeads(options_.new_kv_type, options_.num_kv_heads, real, v_bytes);

  const MutableKvPagesView wide = Pages(static_cast<size_t>(layer));
  MutableKvPagesView narrow = wide;
  narrow.head_dim = options_.head_dim;
  Bytes narrow_bytes(narrow.num_bytes());
  narrow.data = narrow_bytes.data();
  const size_t element = SizeOfScalar(wide.type);
  const size_t row = static_cast<size_t>(narrow.head_dim) * element;
  const size_t wide_row = static_cast<size_t>(wide.head_dim) * element;
  char* const wide_bytes = static_cast<char*>(wide.data);
  const size_t num_rows = narrow_bytes.size() / row;
  for (size_t i = 0; i < num_rows; ++i) {
    std::memcpy(&narrow_bytes[i * row], wide_bytes + i * wide_row, row);
  }
  const Bytes before = narrow_bytes;

  RaggedBatch padded = batch;
  padded.max_num_batched_tokens = attention_->step_tokens();
  Expected expected;
  expected.wanted.resize(q.num_elements());
  TIDEWHEEL_RETURN_IF_ERROR(reference_.WriteKvAndAttend(
      q, k, v, narrow, padded, options_.attention[static_cast<size_t>(layer)],
      {ScalarType::kFloat32, expected.wanted.data(), q.num_tokens, q.num_heads,
       options_.head_dim}));
  for (size_t i = 0; i < num_rows; ++i) {
    // A row that was written has zeros behind it.
    if (std::memcmp(&narrow_bytes[i * row], &before[i * row], row) == 0) {
      continue;
    }
    std::memcpy(wide_bytes + i * wide_row, &narrow_bytes[i * row], row);
    std::memset(wide_bytes + i * wide_row + row, 0, wide_row - row);
  }

  const PjrtClient& client = attention_->programs().client();
  const auto upload = [&client](const Bytes& bytes, const PjrtShape& shape) {
    return client.Upload(std::as_bytes(std::span(bytes)), shape);
  };
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer q_buffer,
                             upload(q_bytes, attention_->q_shape()));
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer k_buffer,
                             upload(k_bytes, attention_->kv_shape()));
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer v_buffer,
                             upload(v_bytes, attention_->kv_shape()));
  TIDEWHEEL_RETURN_IF_ERROR(
      attention_->RunLayer(layer, q_buffer, k_buffer, v_buffer, expected.out));
  step.push_back(std::move(expected));
  return absl::OkStatus();
}

absl::Status ResidentWorld::Step() {
  Disturb();
  const std::vector<Sequence> rows_before = rows_;
  const std::vector<int32_t> free_before = free_pages_;
  const RaggedBatch batch = PlanBatch();
  if (batch.num_seqs == 0) {
    if (copies_.empty()) Remove(0);
    return absl::OkStatus();
  }
  const std::vector<int32_t> changed(changed_rows_.begin(),
                                     changed_rows_.end());
  TIDEWHEEL_RETURN_IF_ERROR(attention_->BeginStep(batch, changed, copies_));
  MirrorCopies();
  const bool abandons = Below(8) == 0;
  std::vector<Expected> step;
  const int32_t num_layers = abandons ? Below(kLayers) : kLayers;
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    TIDEWHEEL_RETURN_IF_ERROR(RunLayer(batch, layer, step));
  }
  if (abandons) {
    // The next plan names what this one changed, and these copies, again.
    ++num_abandoned_;
    attention_->AbandonStep();
    rows_ = rows_before;
    free_pages_ = free_before;
    for (int32_t row = 0; row < kMaxNumSeqs; ++row) {
      if (row < batch.num_seqs) changed_rows_.insert(row);
    }
    return absl::OkStatus();
  }
  TIDEWHEEL_RETURN_IF_ERROR(attention_->EndStep());
  changed_rows_.clear();
  copies_.clear();
  flights_.push_back(std::move(step));
  most_in_flight_ = std::max(most_in_flight_, flights_.size());
  while (flights_.size() == ResidentAttention::kMaxStepsInFlight ||
         (!flights_.empty() && Below(4) == 0)) {
    TIDEWHEEL_RETURN_IF_ERROR(FinishOldest());
  }
  return absl::OkStatus();
}

absl::Status ResidentWorld::FinishOldest() {
  TIDEWHEEL_RETURN_IF_ERROR(attention_->AwaitOldest());
  for (const Expected& expected : flights_.front()) {
    TIDEWHEEL_RETURN_IF_ERROR(Compare(expected));
  }
  flights_.pop_front();
  return absl::OkStatus();
}

absl::Status ResidentWorld::Compare(const Expected& expected) {
  std::vector<float> got(expected.wanted.size());
  TIDEWHEEL_RETURN_IF_ERROR(
      expected.out.ToHost(std::as_writable_bytes(std::span(got))));
  float largest = 0;
  for (const float value : expected.wanted) {
    largest = std::max(largest, std::fabs(value));
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - expected.wanted[i]) / largest;
    worst_error_ = std::max(worst_error_, error);
    if (error <= 2e-5) continue;
    return absl::InternalError(absl::StrCat(
        "element ", i, " is ", got[i], " instead of ", expected.wanted[i]));
  }
  return absl::OkStatus();
}

absl::Status ResidentWorld::ComparePages() {
  const size_t page_bytes = attention_->page_bytes();
  Bytes all(kLayers * PoolBytes());
  TIDEWHEEL_RETURN_IF_ERROR(attention_->ReadPages(
      AllPages(), std::as_writable_bytes(std::span(all))));
  for (size_t layer = 0; layer < kLayers; ++layer) {
    for (size_t i = 0; i < PoolBytes(); ++i) {
      if (all[layer * PoolBytes() + i] == pools_[layer][i]) continue;
      return absl::InternalError(absl::StrCat("byte ", i % page_bytes,
                                              " of page ", i / page_bytes,
                                              " of layer ", layer, " differs"));
    }
  }
  return absl::OkStatus();
}

absl::Status ResidentWorld::Run(int32_t num_steps) {
  TIDEWHEEL_RETURN_IF_ERROR(Poison());
  for (int32_t step = 0; step < num_steps; ++step) {
    const absl::Status status = Step();
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("step ", step, ": ", status.message()));
    }
  }
  while (!flights_.empty()) TIDEWHEEL_RETURN_IF_ERROR(FinishOldest());
  return ComparePages();
}

}  // namespace tidewheel
