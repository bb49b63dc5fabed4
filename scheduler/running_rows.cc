#include "scheduler/running_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"

namespace tidewheel {

RunningRows::RunningRows(int32_t max_num_seqs, PageAllocator& allocator,
                         SequenceStore& sequences)
    : allocator_(allocator), sequences_(sequences) {
  const size_t rows = static_cast<size_t>(max_num_seqs);
  slot.resize(rows);
  request.resize(rows);
  serial.resize(rows);
  computed.resize(rows);
  length.resize(rows);
  known.resize(rows);
  capacity.resize(rows);
  q_len.resize(rows);
  last_token.resize(rows);
  event_at.resize(rows);
  end_token.resize(rows);
  tokens.resize(rows);
}

void RunningRows::Join(int32_t row, int32_t new_slot, int32_t computed_tokens) {
  Sequence& sequence = sequences_[new_slot];
  sequence.state = SequenceState::kRunning;
  sequence.row = row;
  slot[row] = new_slot;
  request[row] = sequence.id;
  serial[row] = ++last_serial_;
  computed[row] = computed_tokens;
  length[row] = sequence.num_tokens;
  known[row] = sequence.num_tokens;
  capacity[row] = allocator_.capacity(row);
  q_len[row] = 0;
  last_token[row] = sequence.tokens[sequence.num_tokens - 1];
  end_token[row] = sequence.end_token;
  tokens[row] = sequence.tokens.get();
  SetNextEvent(row);
}

void RunningRows::Leave(int32_t row) {
  Sequence& sequence = sequences_[slot[row]];
  sequence.num_tokens = known[row];
  ++changes_;
  // Close the hole group by group, so that each stays in one piece.
  if (row < num_decodes) row = Unschedule(row);
  if (row < num_singles) {
    Swap(row, --num_singles);
    row = num_singles;
  }
  if (row < num_scheduled) {
    Swap(row, --num_scheduled);
    row = num_scheduled;
  }
  const int32_t last = num_rows() - 1;
  Swap(row, last);
  allocator_.Release(last);
  sequence.row = -1;
}

void RunningRows::Settle(int32_t row) {
  allocator_.GiveBack(row, computed[row]);
  capacity[row] = std::min(capacity[row], allocator_.capacity(row));
  Sequence& sequence = sequences_[slot[row]];
  sequence.is_ending =
      sequence.length_when_cancelled >= 0 || length[row] == sequence.max_tokens;
  SetNextEvent(row);
  if (row < num_decodes && pending(row) != 1) Unschedule(row);
}

void RunningRows::StartOver(int32_t row, int32_t computed_tokens) {
  ++changes_;
  serial[row] = ++last_serial_;
  length[row] = known[row];
  computed[row] = computed_tokens;
  Settle(row);
}

void RunningRows::BeginStep() {
  num_singles = num_scheduled = num_decodes;
  for (int32_t row = num_decodes; row < num_rows(); ++row) q_len[row] = 0;
}

int32_t RunningRows::Schedule(int32_t row, int32_t new_tokens) {
  TIDEWHEEL_CHECK_GE(row, num_scheduled);
  q_len[row] = new_tokens;
  const bool samples = new_tokens == pending(row);
  Swap(row, num_scheduled);
  row = num_scheduled++;
  if (new_tokens > 1) return row;
  Swap(row, num_singles);
  row = num_singles++;
  if (!samples) return row;
  Swap(row, num_decodes);
  return num_decodes++;
}

int32_t RunningRows::Unschedule(int32_t row) {
  TIDEWHEEL_CHECK_LT(row, num_decodes);
  Swap(row, --num_decodes);
  Swap(num_decodes, --num_singles);
  Swap(num_singles, --num_scheduled);
  q_len[num_scheduled] = 0;
  return num_scheduled;
}

void RunningRows::Swap(int32_t a, int32_t b) {
  if (a == b) return;
  ++changes_;
  allocator_.SwapRows(a, b);
  std::swap(slot[a], slot[b]);
  std::swap(request[a], request[b]);
  std::swap(serial[a], serial[b]);
  std::swap(computed[a], computed[b]);
  std::swap(length[a], length[b]);
  std::swap(known[a], known[b]);
  std::swap(capacity[a], capacity[b]);
  std::swap(q_len[a], q_len[b]);
  std::swap(last_token[a], last_token[b]);
  std::swap(event_at[a], event_at[b]);
  std::swap(end_token[a], end_token[b]);
  std::swap(tokens[a], tokens[b]);
  sequences_[slot[a]].row = a;
  sequences_[slot[b]].row = b;
}

void RunningRows::SetNextEvent(int32_t row) {
  const Sequence& sequence = sequences_[slot[row]];
  const int32_t page_size = allocator_.page_size();
  if (sequence.num_stop_tokens > 0) {
    event_at[row] = computed[row] + 1;
    return;
  }
  const int32_t to_next_page = page_size - computed[row] % page_size;
  // The last token is never computed: a sequence ends when it has sampled it.
  const int32_t last = sequence.max_tokens - 1;
  event_at[row] =
      last - computed[row] > to_next_page ? computed[row] + to_next_page : last;
}

absl::Status RunningRows::CheckInvariants() const {
  if (num_decodes < 0 || num_decodes > num_singles ||
      num_singles > num_scheduled || num_scheduled > num_rows()) {
    return absl::InternalError(absl::StrCat("groups end at ", num_decodes, ", ",
                                            num_singles, ", ", num_scheduled,
                                            " of ", num_rows(), " rows"));
  }
  for (int32_t row = 0; row < num_rows(); ++row) {
    const Sequence& sequence = sequences_[slot[row]];
    if (sequence.row != row || sequence.state != SequenceState::kRunning ||
        !(sequence.id == request[row])) {
      return absl::InternalError(
          absl::StrCat("row ", row, " and slot ", slot[row], " disagree"));
    }
    if (pending(row) < 1 || computed[row] > capacity[row] ||
        capacity[row] > allocator_.capacity(row) ||
        length[row] + (sequence.is_ending ? 0 : 1) > sequence.max_tokens ||
        known[row] > length[row] ||
        last_token[row] != sequence.tokens[known[row] - 1]) {
      return absl::InternalError(
          absl::StrCat("row ", row, " has computed ", computed[row], " of ",
                       length[row], " tokens with slots for ", capacity[row],
                       " and a limit of ", sequence.max_tokens));
    }
    if (row < num_decodes && pending(row) != 1) {
      return absl::InternalError(absl::StrCat(
          "row ", row, " decodes with ", pending(row), " tokens to compute"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
