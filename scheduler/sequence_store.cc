#include "scheduler/sequence_store.h"

#include <utility>

#include "allocator/check.h"

namespace tidewheel {

SequenceStore::SequenceStore(int32_t num_slots)
    : slots_(static_cast<size_t>(num_slots)) {
  free_.reserve(slots_.size());
  for (int32_t slot = num_slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

std::optional<int32_t> SequenceStore::TryAcquire(int32_t max_tokens,
                                                 int32_t max_pages) {
  if (free_.empty()) return std::nullopt;
  const int32_t slot = free_.back();
  free_.pop_back();
  Sequence& old = slots_[slot];
  Sequence fresh;
  fresh.tokens = std::move(old.tokens);
  fresh.hashes = std::move(old.hashes);
  fresh.token_capacity = old.token_capacity;
  fresh.hash_capacity = old.hash_capacity;
  if (fresh.token_capacity < max_tokens) {
    fresh.tokens = std::make_unique_for_overwrite<int32_t[]>(max_tokens);
    fresh.token_capacity = max_tokens;
  }
  if (fresh.hash_capacity < max_pages) {
    fresh.hashes = std::make_unique_for_overwrite<uint64_t[]>(max_pages);
    fresh.hash_capacity = max_pages;
  }
  fresh.state = SequenceState::kWaiting;
  const uint64_t arrival = next_arrival_++;
  fresh.rank.arrival = arrival;
  fresh.id = {arrival * slots_.size() + static_cast<uint64_t>(slot)};
  old = std::move(fresh);
  return slot;
}

void SequenceStore::Recycle(int32_t slot) {
  TIDEWHEEL_CHECK(slots_[slot].state == SequenceState::kEnded);
  slots_[slot].state = SequenceState::kFree;
  free_.push_back(slot);
}

std::optional<int32_t> SequenceStore::Find(RequestId id) const {
  const int32_t slot = static_cast<int32_t>(id.value % slots_.size());
  const Sequence& sequence = slots_[slot];
  if (!(sequence.id == id) || sequence.state == SequenceState::kFree) {
    return std::nullopt;
  }
  return slot;
}

}  // namespace tidewheel
