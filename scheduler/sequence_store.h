// SequenceStore: the state of every request that was accepted and not yet
// taken back, in slots.
//
// It keeps what does not change while a sequence runs, and what changes only
// when it joins or leaves; what changes each step lies in RunningRows, by row.
// It decides nothing.
//
// Life of a slot: Acquire (free -> waiting), the scheduler moves it between
// waiting and running, ended, Recycle (-> free). Token and hash arrays stay
// with the slot and only grow, so a slot in steady use allocates nothing.
//
// Single-threaded. Everything is O(1); Acquire may allocate.

#ifndef TIDEWHEEL_SCHEDULER_SEQUENCE_STORE_H_
#define TIDEWHEEL_SCHEDULER_SEQUENCE_STORE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "allocator/page_allocator.h"
#include "scheduler/explanation.h"
#include "scheduler/request.h"
#include "scheduler/waiting_queue.h"

namespace tidewheel {

enum class SequenceState : uint8_t { kFree, kWaiting, kRunning, kEnded };

struct alignas(64) Sequence {
  static constexpr int32_t kMaxStopTokens = 16;
  // No token is compared equal to it.
  static constexpr int64_t kNoEndToken = std::numeric_limits<int64_t>::min();

  // What is read when a page is full comes first, in one cache line.
  std::unique_ptr<int32_t[]> tokens;   // [token_capacity]
  std::unique_ptr<uint64_t[]> hashes;  // [hash_capacity], a full page each
  int64_t end_token = kNoEndToken;
  int32_t row = -1;        // while running
  int32_t num_hashed = 0;  // pages
  int32_t hash_capacity = 0;
  int32_t isolation = IsolationRoots::kShared;
  int32_t max_tokens = 0;  // prompt included
  int32_t min_tokens = 0;  // prompt included; not stopped by tokens before
  int32_t num_stop_tokens = 0;
  FinishReason limit_reason = FinishReason::kMaxNewTokens;
  SequenceState state = SequenceState::kFree;

  RequestId id;
  Rank rank;
  int32_t priority = 0;
  int32_t token_capacity = 0;
  int32_t prompt_tokens = 0;
  int32_t num_tokens = 0;  // known ones; see RunningRows while running
  std::array<int32_t, kMaxStopTokens> stop_tokens = {};

  PageAllocator::PrefixMatch match;  // the last answer, to start from

  int32_t cached_tokens = 0;    // at the first admission
  int32_t computed_before = 0;  // tokens that preemption threw away
  int32_t preemptions = 0;
  int32_t times_passed = 0;
  int32_t step_failures = 0;
  bool is_suspect = false;  // was in a failed step and not in a good one since
  // It ends when the steps in flight are committed, and gets no token till
  // then.
  bool is_ending = false;
  // Known tokens when it was cancelled during a step, after which it is to be
  // ended; -1: it was not.
  int32_t length_when_cancelled = -1;
  // Tokens committed in all when it was preempted; it waits for more.
  int64_t progress_when_preempted = -1;

  int64_t submitted_us = 0;
  int64_t admitted_us = -1;
  int64_t waiting_since_us = 0;
  int64_t running_since_us = 0;
  int64_t tried_in_step = -1;  // the last plan when wait_reason was set
  WaitReason wait_reason = WaitReason::kNotTried;
  int32_t wait_needed = 0;
  int32_t wait_available = 0;

  // Links of the never-admitted, in order of submission; -1 ends the list.
  int32_t newer = -1;
  int32_t older = -1;

  std::span<const int32_t> known_tokens() const {
    return {tokens.get(), static_cast<size_t>(num_tokens)};
  }
  PageAllocator::Content content(int32_t length) const {
    return {{tokens.get(), static_cast<size_t>(length)},
            {hashes.get(), static_cast<size_t>(num_hashed)},
            isolation};
  }
};

class SequenceStore {
 public:
  explicit SequenceStore(int32_t num_slots);

  // A free slot, waiting, with room for max_tokens tokens and max_pages hashes;
  // nothing if all are taken. Its id is new and decodes to the slot.
  std::optional<int32_t> TryAcquire(int32_t max_tokens, int32_t max_pages);
  // REQUIRES: the slot has ended.
  void Recycle(int32_t slot);

  // The slot of an accepted request that is not recycled yet.
  std::optional<int32_t> Find(RequestId id) const;

  Sequence& operator[](int32_t slot) { return slots_[slot]; }
  const Sequence& operator[](int32_t slot) const { return slots_[slot]; }
  int32_t num_slots() const { return static_cast<int32_t>(slots_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }

 private:
  uint64_t next_arrival_ = 1;
  std::vector<Sequence> slots_;
  std::vector<int32_t> free_;  // a stack
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_SEQUENCE_STORE_H_
