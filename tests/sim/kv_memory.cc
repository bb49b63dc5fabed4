#include "tests/sim/kv_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tidewheel {

KvMemory::KvMemory(int32_t total_num_pages, int32_t page_size)
    : page_size_(page_size),
      stamps_(static_cast<size_t>(total_num_pages) *
              static_cast<size_t>(page_size)),
      writers_(static_cast<size_t>(total_num_pages), 0) {
  for (uint64_t& stamp : stamps_) stamp = Garbage();
}

absl::Status KvMemory::Copy(const StepPlan& plan) {
  for (const PageAllocator::PageCopy& copy : plan.copies) {
    if (copy.source == kNullPage || copy.target == kNullPage) {
      return absl::InternalError("a page copy touches the null page");
    }
    std::copy_n(stamps_.begin() + int64_t{copy.source} * page_size_,
                copy.num_tokens,
                stamps_.begin() + int64_t{copy.target} * page_size_);
  }
  return absl::OkStatus();
}

absl::Status KvMemory::CheckDisjoint(const StepPlan& plan) {
  const auto first_written = [&plan, this](int32_t row) {
    return (plan.batch.kv_lens[row] - plan.batch.q_len(row)) / page_size_;
  };
  const auto num_pages = [&plan, this](int32_t row) {
    return (plan.batch.kv_lens[row] + page_size_ - 1) / page_size_;
  };
  for (const int32_t page : touched_) writers_[page] = 0;
  touched_.clear();
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    for (int32_t i = first_written(row); i < num_pages(row); ++i) {
      const int32_t page = plan.batch.pages(row)[i];
      if (page == kNullPage || writers_[page] != 0) {
        return absl::InternalError(absl::StrCat("rows ", row, " and ",
                                                writers_[page] - 1,
                                                " both write page ", page));
      }
      writers_[page] = row + 1;
      touched_.push_back(page);
    }
  }
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    for (int32_t i = 0; i < num_pages(row); ++i) {
      const int32_t page = plan.batch.pages(row)[i];
      if (writers_[page] != 0 && writers_[page] != row + 1) {
        return absl::InternalError(
            absl::StrCat("row ", row, " reads page ", page, " which row ",
                         writers_[page] - 1, " writes in the same step"));
      }
    }
  }
  return absl::OkStatus();
}

void KvMemory::Write(const StepPlan& plan, int32_t row, uint64_t root) {
  for (int32_t i = plan.batch.cu_q_lens[row]; i < plan.batch.cu_q_lens[row + 1];
       ++i) {
    const int32_t position = plan.positions[i];
    const uint64_t before =
        position == 0 ? root : stamps_[Slot(plan, row, position - 1)];
    stamps_[Slot(plan, row, position)] = StampAfter(before, plan.token_ids[i]);
  }
}

void KvMemory::Spoil(const StepPlan& plan, int32_t row) {
  const int32_t end = plan.batch.kv_lens[row];
  for (int32_t position = end - plan.batch.q_len(row); position < end;
       ++position) {
    stamps_[Slot(plan, row, position)] = Garbage();
  }
}

absl::Status KvMemory::CheckRow(const StepPlan& plan, int32_t row,
                                const std::vector<uint64_t>& expected) const {
  for (int32_t position = 0; position < plan.batch.kv_lens[row]; ++position) {
    if (stamps_[Slot(plan, row, position)] == expected[position]) continue;
    return absl::InternalError(
        absl::StrCat("row ", row, " of request ", plan.requests[row].value,
                     " reads foreign KV at position ", position, ", page ",
                     plan.batch.pages(row)[position / page_size_]));
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
