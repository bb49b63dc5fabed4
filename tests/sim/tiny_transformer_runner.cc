#include "tests/sim/tiny_transformer_runner.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

using Model = TinyTransformer;

constexpr int32_t kCombinedKvHeads = 2 * Model::kNumKvHeads;

}  // namespace

TinyTransformerRunner::TinyTransformerRunner(const TinyTransformer* model,
                                             AttentionBackend* backend,
                                             const Options& options)
    : model_(model), backend_(backend), options_(options) {
  pages_.resize(Model::kNumLayers);
  for (int32_t layer = 0; layer < Model::kNumLayers; ++layer) {
    pages_[static_cast<size_t>(layer)].resize(Pages(layer).num_bytes());
  }
  for (int32_t page = 1; page < options_.total_num_pages; ++page) {
    PoisonPage(page);
  }
}

MutableKvPagesView TinyTransformerRunner::Pages(int32_t layer) {
  return {model_->kv_type(),        pages_[static_cast<size_t>(layer)].data(),
          options_.total_num_pages, options_.page_size,
          kCombinedKvHeads,         Model::kHeadDim};
}

void TinyTransformerRunner::Fill(int32_t page, int32_t first_slot,
                                 int32_t end_slot, float value) {
  TIDEWHEEL_CHECK_GT(page, kNullPage);
  TIDEWHEEL_CHECK_LT(page, options_.total_num_pages);
  for (int32_t layer = 0; layer < Model::kNumLayers; ++layer) {
    const MutableKvPagesView pages = Pages(layer);
    const size_t end = pages.Offset(page, end_slot, 0);
    for (size_t i = pages.Offset(page, first_slot, 0); i < end; ++i) {
      StoreScalar(pages.type, pages.data, i, value);
    }
  }
}

absl::Status TinyTransformerRunner::Run(const StepPlan& plan,
                                        std::span<int32_t> sampled) {
  TIDEWHEEL_RETURN_IF_ERROR(RunLayers(plan, std::nullopt));
  return Sample(plan, sampled);
}

absl::Status TinyTransformerRunner::RunAndFail(const StepPlan& plan,
                                               int64_t num_writes) {
  TIDEWHEEL_RETURN_IF_ERROR(RunLayers(plan, num_writes));
  return absl::UnavailableError("the device was lost");
}

absl::Status TinyTransformerRunner::RunLayers(
    const StepPlan& plan, std::optional<int64_t> max_writes) {
  // A backend that writes can not be stopped in the middle.
  const KvWrites kv_writes =
      max_writes.has_value() ? KvWrites::kByRunner : options_.kv_writes;
  int64_t writes_left =
      max_writes.value_or(std::numeric_limits<int64_t>::max());
  Copy(plan);
  PoisonWhatIsWritten(plan);
  hidden_.clear();
  for (const int32_t token : plan.token_ids) {
    hidden_.push_back(model_->Embed(token));
  }
  for (int32_t layer = 0; layer < Model::kNumLayers; ++layer) {
    Project(plan, layer);
    if (kv_writes == KvWrites::kByRunner &&
        !WriteKv(plan, layer, writes_left)) {
      return absl::OkStatus();
    }
    TIDEWHEEL_RETURN_IF_ERROR(Attend(plan, layer, kv_writes));
  }
  return absl::OkStatus();
}

void TinyTransformerRunner::Copy(const StepPlan& plan) {
  for (const PageAllocator::PageCopy& copy : plan.copies) {
    TIDEWHEEL_CHECK_NE(copy.source, kNullPage);
    TIDEWHEEL_CHECK_NE(copy.target, kNullPage);
    for (int32_t layer = 0; layer < Model::kNumLayers; ++layer) {
      const MutableKvPagesView pages = Pages(layer);
      const size_t scalar = SizeOfScalar(pages.type);
      char* bytes = static_cast<char*>(pages.data);
      std::memmove(bytes + pages.Offset(copy.target, 0, 0) * scalar,
                   bytes + pages.Offset(copy.source, 0, 0) * scalar,
                   pages.Offset(0, copy.num_tokens, 0) * scalar);
    }
  }
}

void TinyTransformerRunner::PoisonWhatIsWritten(const StepPlan& plan) {
  const int32_t page_size = options_.page_size;
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    const int32_t end = plan.batch.kv_lens[row];
    int32_t position = end - plan.batch.q_len(row);
    while (position < end) {
      Fill(plan.batch.pages(row)[position / page_size], position % page_size,
           page_size, kPoison);
      position += page_size - position % page_size;
    }
  }
}

void TinyTransformerRunner::PoisonWrites(const StepPlan& plan, int32_t row) {
  const int32_t end = plan.batch.kv_lens[row];
  for (int32_t i = end - plan.batch.q_len(row); i < end; ++i) {
    const int32_t slot = i % options_.page_size;
    Fill(plan.batch.pages(row)[i / options_.page_size], slot, slot + 1,
         kPoison);
  }
}

void TinyTransformerRunner::Project(const StepPlan& plan, int32_t layer) {
  const size_t tokens = static_cast<size_t>(plan.batch.max_num_batched_tokens);
  q_.assign(tokens * Model::kQuerySize, kPoison);
  k_.assign(tokens * Model::kKvSize, kPoison);
  v_.assign(tokens * Model::kKvSize, kPoison);
  for (size_t i = 0; i < hidden_.size(); ++i) {
    const Model::Projected projected =
        model_->Project(layer, hidden_[i], plan.positions[i]);
    std::ranges::copy(projected.q, &q_[i * Model::kQuerySize]);
    std::ranges::copy(projected.k, &k_[i * Model::kKvSize]);
    std::ranges::copy(projected.v, &v_[i * Model::kKvSize]);
  }
}

// False if the writes ran out before all tokens were written.
bool TinyTransformerRunner::WriteKv(const StepPlan& plan, int32_t layer,
                                    int64_t& writes_left) {
  const MutableKvPagesView pages = Pages(layer);
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    const int32_t first = plan.batch.kv_lens[row] - plan.batch.q_len(row);
    for (int32_t i = 0; i < plan.batch.q_len(row); ++i) {
      if (writes_left-- == 0) return false;
      const int32_t page =
          plan.batch.pages(row)[(first + i) / options_.page_size];
      const int32_t slot = (first + i) % options_.page_size;
      const size_t from =
          static_cast<size_t>(plan.batch.cu_q_lens[row] + i) * Model::kKvSize;
      for (int32_t head = 0; head < Model::kNumKvHeads; ++head) {
        const size_t k_to = pages.Offset(page, slot, 2 * head);
        const size_t v_to = pages.Offset(page, slot, 2 * head + 1);
        for (size_t d = 0; d < Model::kHeadDim; ++d) {
          const size_t at =
              from + static_cast<size_t>(head) * Model::kHeadDim + d;
          StoreScalar(pages.type, pages.data, k_to + d, k_[at]);
          StoreScalar(pages.type, pages.data, v_to + d, v_[at]);
        }
      }
    }
  }
  return true;
}

absl::Status TinyTransformerRunner::Attend(const StepPlan& plan, int32_t layer,
                                           KvWrites kv_writes) {
  const int32_t tokens = plan.batch.max_num_batched_tokens;
  attention_.assign(q_.size(), kPoison);
  constexpr ScalarType kFloat = ScalarType::kFloat32;
  const HeadsView q = {kFloat, q_.data(), tokens, Model::kNumQHeads,
                       Model::kHeadDim};
  const HeadsView k = {kFloat, k_.data(), tokens, Model::kNumKvHeads,
                       Model::kHeadDim};
  HeadsView v = k;
  v.data = v_.data();
  const MutableHeadsView out = {kFloat, attention_.data(), tokens,
                                Model::kNumQHeads, Model::kHeadDim};
  AttentionOptions options;
  options.sm_scale = Model::kSmScale;
  const absl::Status status =
      kv_writes == KvWrites::kByBackend
          ? backend_->WriteKvAndAttend(q, k, v, Pages(layer), plan.batch,
                                       options, out)
          : backend_->RaggedPagedAttention(q, ReadOnly(Pages(layer)),
                                           plan.batch, options, out);
  TIDEWHEEL_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < hidden_.size(); ++i) {
    Model::Attention attention;
    std::copy_n(&attention_[i * Model::kQuerySize], Model::kQuerySize,
                attention.begin());
    model_->Finish(layer, attention, hidden_[i]);
  }
  return absl::OkStatus();
}

absl::Status TinyTransformerRunner::Sample(const StepPlan& plan,
                                           std::span<int32_t> sampled) const {
  TIDEWHEEL_CHECK_EQ(sampled.size(), plan.requests.size());
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    // Also of rows that want no token: NaN there is in the pages by now.
    for (int32_t i = plan.batch.cu_q_lens[row];
         i < plan.batch.cu_q_lens[row + 1]; ++i) {
      const bool is_last = i + 1 == plan.batch.cu_q_lens[row + 1];
      const std::optional<int32_t> token =
          model_->Greedy(hidden_[static_cast<size_t>(i)]);
      if (!token.has_value()) {
        return absl::InternalError(absl::StrCat(
            "NaN reached the logits of row ", row, ", request ",
            plan.requests[row].value, ", at position ", plan.positions[i],
            ": it read a slot that nobody had written"));
      }
      if (is_last && plan.wants_logits[row] != 0) sampled[row] = *token;
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
