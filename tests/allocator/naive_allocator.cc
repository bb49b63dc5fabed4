#include "tests/allocator/naive_allocator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tidewheel {

NaiveAllocator::NaiveAllocator(const PageAllocator::Options& options)
    : options_(options) {
  for (PageId page = options.total_num_pages - 1; page >= 1; --page) {
    free_.push_back(page);
  }
  pins_.resize(static_cast<size_t>(options.max_pins));
  isolations_.resize(static_cast<size_t>(options.max_isolation_keys) + 1);
  isolations_[0].key = "";
}

std::optional<int32_t> NaiveAllocator::TryAcquireIsolation(
    const std::string& key) {
  int32_t oldest = -1;
  for (size_t i = 0; i < isolations_.size(); ++i) {
    Isolation& slot = isolations_[i];
    if (slot.key == key) {
      ++slot.holders;
      return static_cast<int32_t>(i);
    }
    if (i > 0 && slot.holders == 0 &&
        (oldest < 0 || slot.released_at < isolations_[oldest].released_at)) {
      oldest = static_cast<int32_t>(i);
    }
  }
  if (oldest < 0) return std::nullopt;
  isolations_[oldest] = {key, next_root_++, 1, 0};
  return oldest;
}

void NaiveAllocator::HoldIsolation(int32_t slot) {
  ++isolations_[slot].holders;
}

void NaiveAllocator::ReleaseIsolation(int32_t slot) {
  if (--isolations_[slot].holders == 0) {
    isolations_[slot].released_at = ++releases_;
  }
}

PageId NaiveAllocator::Lookup(const Tokens& tokens, int32_t isolation,
                              int32_t num_pages) const {
  const Tokens prefix(tokens.begin(),
                      tokens.begin() + num_pages * options_.page_size);
  const auto found = published_.find({isolations_[isolation].root, prefix});
  return found == published_.end() ? kNullPage : found->second;
}

NaiveAllocator::Match NaiveAllocator::FindLongest(const Tokens& tokens,
                                                  int32_t isolation,
                                                  int32_t most_pages) const {
  Match match;
  while (match.num_pages < most_pages) {
    const PageId next = Lookup(tokens, isolation, match.num_pages + 1);
    if (next == kNullPage) break;
    match.last = next;
    ++match.num_pages;
  }
  return match;
}

NaiveAllocator::Match NaiveAllocator::FindPrompt(const Tokens& tokens,
                                                 int32_t isolation) const {
  if (tokens.empty()) return {};
  return FindLongest(
      tokens, isolation,
      (static_cast<int32_t>(tokens.size()) - 1) / options_.page_size);
}

std::vector<PageId> NaiveAllocator::Path(const Tokens& tokens,
                                         int32_t isolation,
                                         int32_t num_pages) const {
  std::vector<PageId> path;
  for (int32_t i = 1; i <= num_pages; ++i) {
    path.push_back(Lookup(tokens, isolation, i));
  }
  return path;
}

int32_t NaiveAllocator::CountHolders(PageId page) const {
  int64_t holders = 0;
  for (const Row& row : rows_) {
    holders += std::count(row.pages.begin(), row.pages.end(), page);
  }
  for (const auto& pin : pins_) {
    if (pin) holders += std::count(pin->begin(), pin->end(), page);
  }
  for (const auto& copy : copies_) holders += copy.source == page ? 1 : 0;
  return static_cast<int32_t>(holders);
}

bool NaiveAllocator::IsPublished(PageId page) const {
  return std::any_of(
      published_.begin(), published_.end(),
      [page](const auto& entry) { return entry.second == page; });
}

bool NaiveAllocator::OthersAloneHoldAPage(int32_t row) const {
  NaiveAllocator without_others = *this;
  without_others.rows_ = {rows_[row]};
  for (PageId page = 1; page < options_.total_num_pages; ++page) {
    if (CountHolders(page) > 0 && without_others.CountHolders(page) == 0) {
      return true;
    }
  }
  return false;
}

int32_t NaiveAllocator::CountCached(const std::vector<PageId>& path) const {
  return static_cast<int32_t>(
      std::count_if(path.begin(), path.end(),
                    [this](PageId page) { return CountHolders(page) == 0; }));
}

void NaiveAllocator::Held(PageId page) {
  lru_.erase(std::remove(lru_.begin(), lru_.end(), page), lru_.end());
}

bool NaiveAllocator::Dropped(PageId page) {
  if (CountHolders(page) > 0) return false;
  (IsPublished(page) ? lru_ : free_).push_back(page);
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].target != page) continue;
    const PageId source = copies_[i].source;
    copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(i));
    Dropped(source);
    break;
  }
  return true;
}

PageId NaiveAllocator::Take() {
  ++pages_taken_;
  if (!free_.empty()) {
    const PageId page = free_.back();
    free_.pop_back();
    return page;
  }
  ++pages_evicted_;
  const PageId page = lru_.front();
  lru_.erase(lru_.begin());
  std::erase_if(published_,
                [page](const auto& entry) { return entry.second == page; });
  return page;
}

int32_t NaiveAllocator::num_unpromised() const {
  const PageAllocator::Stats now = stats();
  return now.free_pages + now.cached_pages - now.promised_pages;
}

PageAllocator::Stats NaiveAllocator::stats() const {
  PageAllocator::Stats stats;
  stats.total_pages = options_.total_num_pages - 1;
  stats.free_pages = static_cast<int32_t>(free_.size());
  stats.cached_pages = static_cast<int32_t>(lru_.size());
  for (PageId page = 1; page < options_.total_num_pages; ++page) {
    stats.lent_pages += CountHolders(page) > 0 ? 1 : 0;
  }
  for (const Row& row : rows_) stats.promised_pages += row.promised;
  stats.pages_taken = pages_taken_;
  stats.pages_evicted = pages_evicted_;
  return stats;
}

int32_t NaiveAllocator::PagesToAdmit(const Admission& admission) const {
  const int32_t length =
      std::max(admission.num_tokens, admission.promised_tokens);
  return CeilDiv(length) - admission.num_matched +
         CountCached(Path(admission.tokens, admission.isolation,
                          admission.num_matched));
}

std::optional<int32_t> NaiveAllocator::TryAdmit(const Admission& admission) {
  if (static_cast<int32_t>(rows_.size()) == options_.max_num_seqs ||
      PagesToAdmit(admission) + admission.headroom_pages > num_unpromised()) {
    return std::nullopt;
  }
  Row row;
  row.pages =
      Path(admission.tokens, admission.isolation, admission.num_matched);
  for (const PageId page : row.pages) Held(page);
  const int32_t pages_now = CeilDiv(admission.num_tokens);
  while (static_cast<int32_t>(row.pages.size()) < pages_now) {
    row.pages.push_back(Take());
  }
  row.keeps_promise = admission.promised_tokens > 0;
  row.promised = std::max(CeilDiv(admission.promised_tokens) - pages_now, 0);
  rows_.push_back(row);
  return static_cast<int32_t>(rows_.size()) - 1;
}

bool NaiveAllocator::TailNeedsCopy(int32_t row) const {
  if (rows_[row].tail_tokens == 0) return false;
  const PageId tail = rows_[row].pages.back();
  return CountHolders(tail) > 1 || IsPublished(tail);
}

int32_t NaiveAllocator::PagesToExtend(int32_t row, int32_t new_len) const {
  const int32_t have = static_cast<int32_t>(rows_[row].pages.size());
  return std::max(CeilDiv(new_len) - have, 0) + (TailNeedsCopy(row) ? 1 : 0);
}

bool NaiveAllocator::TryExtend(int32_t row, int32_t new_len) {
  Row& state = rows_[row];
  const int32_t need = PagesToExtend(row, new_len);
  const int32_t from_promise = std::min(need, state.promised);
  if (need - from_promise > num_unpromised()) return false;
  if (TailNeedsCopy(row)) {
    if (static_cast<int32_t>(copies_.size()) == options_.max_num_seqs) {
      return false;
    }
    const PageId source = state.pages.back();
    const PageId target = Take();
    copies_.push_back({source, target, state.tail_tokens});
    state.pages.back() = target;
  }
  state.tail_tokens = 0;
  while (static_cast<int32_t>(state.pages.size()) < CeilDiv(new_len)) {
    state.pages.push_back(Take());
  }
  state.promised -= from_promise;
  return true;
}

void NaiveAllocator::GiveBack(int32_t row, int32_t length) {
  Row& state = rows_[row];
  while (static_cast<int32_t>(state.pages.size()) > CeilDiv(length)) {
    const PageId page = state.pages.back();
    state.pages.pop_back();
    if (Dropped(page) && state.keeps_promise) ++state.promised;
  }
}

void NaiveAllocator::Truncate(int32_t row, int32_t new_len) {
  GiveBack(row, new_len);
  rows_[row].tail_tokens = new_len % options_.page_size;
  if (!TailNeedsCopy(row)) rows_[row].tail_tokens = 0;
}

std::optional<int32_t> NaiveAllocator::TryFork(int32_t row, int32_t num_tokens,
                                               int32_t promised_tokens) {
  const int32_t shared = CeilDiv(num_tokens);
  Row child;
  child.tail_tokens = num_tokens % options_.page_size;
  if (promised_tokens > 0) {
    child.keeps_promise = true;
    child.promised = std::max(CeilDiv(promised_tokens) - shared, 0) +
                     (child.tail_tokens > 0 ? 1 : 0);
  }
  if (static_cast<int32_t>(rows_.size()) == options_.max_num_seqs ||
      child.promised > num_unpromised()) {
    return std::nullopt;
  }
  child.pages.assign(rows_[row].pages.begin(),
                     rows_[row].pages.begin() + shared);
  rows_.push_back(child);
  return static_cast<int32_t>(rows_.size()) - 1;
}

void NaiveAllocator::Publish(int32_t row, const Tokens& tokens,
                             int32_t isolation, int32_t committed_len) {
  if (!options_.enable_prefix_cache) return;
  for (int32_t i = 0; i < committed_len / options_.page_size; ++i) {
    PageId& page = rows_[row].pages[i];
    const PageId twin = Lookup(tokens, isolation, i + 1);
    if (twin == kNullPage) {
      const Tokens prefix(tokens.begin(),
                          tokens.begin() + (i + 1) * options_.page_size);
      published_[{isolations_[isolation].root, prefix}] = page;
    } else if (twin != page) {
      if (CountHolders(page) > 1) return;
      const PageId duplicate = page;
      page = twin;
      Held(twin);
      Dropped(duplicate);
    }
  }
}

void NaiveAllocator::Release(int32_t row) {
  std::vector<PageId>& pages = rows_[row].pages;
  while (!pages.empty()) {
    const PageId page = pages.back();
    pages.pop_back();
    Dropped(page);
  }
  rows_[row] = rows_.back();
  rows_.pop_back();
}

void NaiveAllocator::SwapRows(int32_t a, int32_t b) {
  std::swap(rows_[a], rows_[b]);
}

void NaiveAllocator::CompleteCopies() {
  for (PageAllocator::PageCopy& copy : copies_) copy.target = kNullPage;
  while (!copies_.empty()) {
    const PageId source = copies_.front().source;
    copies_.erase(copies_.begin());
    Dropped(source);
  }
}

std::pair<absl::StatusCode, PageAllocator::Pin> NaiveAllocator::PinPrefix(
    const Tokens& tokens, int32_t isolation) {
  const int32_t full_pages =
      static_cast<int32_t>(tokens.size()) / options_.page_size;
  const Match match = FindLongest(tokens, isolation, full_pages);
  if (match.num_pages == 0) return {absl::StatusCode::kNotFound, {}};
  const auto slot = std::find(pins_.begin(), pins_.end(), std::nullopt);
  const std::vector<PageId> path = Path(tokens, isolation, match.num_pages);
  if (slot == pins_.end() || CountCached(path) > num_unpromised()) {
    return {absl::StatusCode::kResourceExhausted, {}};
  }
  for (const PageId page : path) Held(page);
  *slot = path;
  return {absl::StatusCode::kOk,
          {static_cast<int32_t>(slot - pins_.begin()),
           match.num_pages * options_.page_size}};
}

void NaiveAllocator::Unpin(int32_t handle) {
  std::vector<PageId>& path = *pins_[handle];
  while (!path.empty()) {
    const PageId page = path.back();
    path.pop_back();
    Dropped(page);
  }
  pins_[handle].reset();
}

absl::StatusCode NaiveAllocator::ResetPrefixCache(
    PageAllocator::ResetMode mode) {
  if (mode == PageAllocator::ResetMode::kRefuseWhileInUse &&
      published_.size() > lru_.size()) {
    return absl::StatusCode::kFailedPrecondition;
  }
  for (auto& pin : pins_) {
    while (pin && !pin->empty()) {
      const PageId page = pin->back();
      pin->pop_back();
      Dropped(page);
    }
  }
  free_.insert(free_.end(), lru_.begin(), lru_.end());
  lru_.clear();
  published_.clear();
  return absl::StatusCode::kOk;
}

void NaiveAllocator::ClearChanges() {
  for (size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].previous_row = static_cast<int32_t>(i);
  }
}

std::string NaiveAllocator::Fingerprint() const {
  std::string text = absl::StrCat("F", absl::StrJoin(free_, ","), "L",
                                  absl::StrJoin(lru_, ","));
  for (const Row& row : rows_) {
    absl::StrAppend(&text, "R", absl::StrJoin(row.pages, ","), ";",
                    row.promised, ";", row.keeps_promise ? 1 : 0, ";",
                    row.tail_tokens);
  }
  for (const auto& [prefix, page] : published_) {
    absl::StrAppend(&text, "P", prefix.first, ":",
                    absl::StrJoin(prefix.second, ","), "=", page);
  }
  for (const auto& copy : copies_) {
    absl::StrAppend(&text, "C", copy.source, ">", copy.target, "#",
                    copy.num_tokens);
  }
  for (const auto& pin : pins_) {
    absl::StrAppend(&text, "X", pin ? absl::StrJoin(*pin, ",") : "-");
  }
  return text;
}

}  // namespace tidewheel
