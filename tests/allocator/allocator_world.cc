#include "tests/allocator/allocator_world.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

std::unique_ptr<PageAllocator> MakeAllocator(
    const PageAllocator::Options& options) {
  absl::StatusOr<std::unique_ptr<PageAllocator>> allocator =
      PageAllocator::Create(options);
  TIDEWHEEL_CHECK(allocator.ok());
  return *std::move(allocator);
}

int32_t TokenAt(int32_t pattern, size_t position) {
  return (pattern >> (position % 8)) & 1;
}

// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): stamps of
// different prefixes differ with all the certainty that a test needs.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

AllocatorWorld::AllocatorWorld(const PageAllocator::Options& options)
    : allocator_(MakeAllocator(options)), naive_(options) {
  kv_.assign(static_cast<size_t>(options.total_num_pages) *
                 static_cast<size_t>(options.page_size),
             kNobody);
  ClearChanges();
}

uint64_t& AllocatorWorld::Slot(Kv& kv, PageId page, int32_t slot) const {
  return kv[static_cast<size_t>(page) *
                static_cast<size_t>(allocator_->page_size()) +
            static_cast<size_t>(slot)];
}

std::vector<uint64_t> AllocatorWorld::Stamps(
    int32_t tenant, const std::vector<int32_t>& tokens) {
  std::vector<uint64_t> stamps;
  uint64_t stamp = Mix(static_cast<uint64_t>(tenant));
  for (const int32_t token : tokens) {
    stamp = Mix(stamp ^ static_cast<uint64_t>(token));
    stamps.push_back(stamp);
  }
  return stamps;
}

void AllocatorWorld::Expect(bool equal, const std::string& what) {
  if (!equal && difference_.ok()) {
    difference_ = absl::InternalError(absl::StrCat("answers differ: ", what));
  }
}

std::optional<int32_t> AllocatorWorld::AcquireIsolation(int32_t tenant) {
  const std::string salt = absl::StrCat("tenant", tenant);
  IsolationKey key;
  if (tenant > 0) key.salt = salt;
  const std::optional<int32_t> slot = allocator_->TryAcquireIsolation(key);
  Expect(slot == naive_.TryAcquireIsolation(tenant > 0 ? salt : ""),
         "TryAcquireIsolation");
  return slot;
}

void AllocatorWorld::ReleaseIsolation(int32_t isolation) {
  allocator_->ReleaseIsolation(isolation);
  naive_.ReleaseIsolation(isolation);
}

std::vector<uint64_t> AllocatorWorld::Hashes(const std::vector<int32_t>& tokens,
                                             int32_t isolation) const {
  const int32_t pages =
      static_cast<int32_t>(tokens.size()) / allocator_->page_size();
  std::vector<uint64_t> hashes(static_cast<size_t>(pages));
  allocator_->HashPages(tokens, isolation, 0, pages, hashes);
  return hashes;
}

void AllocatorWorld::Submit(int32_t tenant, int32_t pattern, int32_t length) {
  const int32_t most = options().pages_per_seq * options().page_size;
  if (waiting_.size() == kMostWaiting || most < 1) return;
  const std::optional<int32_t> isolation = AcquireIsolation(tenant);
  if (!isolation) return;
  Waiting request{tenant, *isolation, {}, {}, {}};
  request.tokens.resize(static_cast<size_t>(length % most + 1));
  for (size_t i = 0; i < request.tokens.size(); ++i) {
    request.tokens[i] = TokenAt(pattern, i);
  }
  request.hashes = Hashes(request.tokens, *isolation);
  waiting_.push_back(std::move(request));
}

PageAllocator::PrefixMatch AllocatorWorld::Match(const Waiting& request) {
  const PageAllocator::Content content{request.tokens, request.hashes,
                                       request.isolation};
  const PageAllocator::PrefixMatch match = allocator_->Match(content, {});
  const PageAllocator::PrefixMatch hinted =
      allocator_->Match(content, request.hint);
  Expect(hinted.num_pages == match.num_pages &&
             hinted.last.page == match.last.page &&
             hinted.last.serial == match.last.serial,
         "Match with and without a hint");
  const NaiveAllocator::Match expected =
      options().enable_prefix_cache
          ? naive_.FindPrompt(request.tokens, request.isolation)
          : NaiveAllocator::Match{};
  Expect(
      match.num_pages == expected.num_pages && match.last.page == expected.last,
      absl::StrCat("Match found ", match.num_pages, " pages, not ",
                   expected.num_pages));
  return match;
}

void AllocatorWorld::Admit(int32_t which, int32_t chunk,
                           int32_t promised_tokens, int32_t headroom_pages) {
  if (waiting_.empty()) return;
  const size_t index = static_cast<size_t>(which) % waiting_.size();
  Waiting& request = waiting_[index];
  const int32_t length = static_cast<int32_t>(request.tokens.size());
  request.hint = Match(request);
  PageAllocator::AdmitOptions admit;
  admit.match = request.hint;
  const int32_t matched = admit.match.num_pages * options().page_size;
  admit.num_tokens = matched + 1 + chunk % (length - matched);
  admit.promised_tokens =
      promised_tokens % (options().pages_per_seq * options().page_size + 1);
  admit.headroom_pages = headroom_pages;
  const NaiveAllocator::Admission expected{
      request.tokens,   request.isolation,     admit.match.num_pages,
      admit.num_tokens, admit.promised_tokens, headroom_pages};
  Expect(allocator_->PagesToAdmit(admit) == naive_.PagesToAdmit(expected),
         "PagesToAdmit");
  const int32_t unpromised = allocator_->num_unpromised();
  const int32_t pages = allocator_->PagesToAdmit(admit);
  const std::optional<int32_t> row = allocator_->TryAdmit(admit);
  Expect(row == naive_.TryAdmit(expected), "TryAdmit");
  if (!row) return;
  Expect(unpromised - allocator_->num_unpromised() == pages,
         "TryAdmit and PagesToAdmit");
  num_matched_pages_ += admit.match.num_pages;
  rows_.push_back({request.tenant, request.isolation, request.tokens,
                   request.hashes, matched, admit.num_tokens});
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index));
}

void AllocatorWorld::Cancel(int32_t which) {
  if (waiting_.empty()) return;
  const size_t index = static_cast<size_t>(which) % waiting_.size();
  ReleaseIsolation(waiting_[index].isolation);
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index));
}

void AllocatorWorld::Extend(int32_t row, int32_t more, int32_t pattern) {
  if (rows_.empty()) return;
  row %= num_rows();
  Row& state = rows_[row];
  const int32_t most = options().pages_per_seq * options().page_size;
  const int32_t new_len = std::min(state.extended + more, most);
  const int32_t pages = allocator_->PagesToExtend(row, new_len);
  Expect(pages == naive_.PagesToExtend(row, new_len), "PagesToExtend");
  const PageAllocator::Stats before = allocator_->stats();
  const bool done = allocator_->TryExtend(row, new_len);
  Expect(done == naive_.TryExtend(row, new_len), "TryExtend");
  if (!done) return;
  Expect(allocator_->stats().pages_taken - before.pages_taken == pages,
         "TryExtend and PagesToExtend");
  while (static_cast<int32_t>(state.tokens.size()) < new_len) {
    state.tokens.push_back(TokenAt(pattern, state.tokens.size()));
  }
  state.hashes = Hashes(state.tokens, state.isolation);
  state.extended = new_len;
}

void AllocatorWorld::ExecuteCopies(Kv& kv) const {
  for (const PageAllocator::PageCopy& copy : allocator_->pending_copies()) {
    for (int32_t i = 0; i < copy.num_tokens; ++i) {
      Slot(kv, copy.target, i) = Slot(kv, copy.source, i);
    }
  }
}

void AllocatorWorld::CompleteCopies() {
  num_copies_done_ += static_cast<int64_t>(allocator_->pending_copies().size());
  ExecuteCopies(kv_);
  allocator_->CompleteCopies();
  naive_.CompleteCopies();
  BlankUnreachablePages();
}

void AllocatorWorld::Write() {
  CompleteCopies();
  for (int32_t row = 0; row < num_rows(); ++row) {
    Row& state = rows_[row];
    const std::vector<uint64_t> stamps = Stamps(state.tenant, state.tokens);
    const std::span<const PageId> pages = allocator_->table().pages(row);
    for (; state.written < state.extended; ++state.written) {
      const PageId page = pages[state.written / options().page_size];
      Slot(kv_, page, state.written % options().page_size) =
          stamps[state.written];
    }
  }
}

void AllocatorWorld::Publish(int32_t row) {
  if (rows_.empty()) return;
  row %= num_rows();
  CompleteCopies();
  const Row& state = rows_[row];
  allocator_->Publish(row, {state.tokens, state.hashes, state.isolation},
                      state.written);
  naive_.Publish(row, state.tokens, state.isolation, state.written);
  BlankUnreachablePages();
}

void AllocatorWorld::Truncate(int32_t row, int32_t new_len) {
  if (rows_.empty()) return;
  row %= num_rows();
  Row& state = rows_[row];
  new_len %= state.extended + 1;
  allocator_->Truncate(row, new_len);
  naive_.Truncate(row, new_len);
  state.extended = new_len;
  state.written = std::min(state.written, new_len);
  state.tokens.resize(static_cast<size_t>(new_len));
  state.hashes = Hashes(state.tokens, state.isolation);
  BlankUnreachablePages();
}

void AllocatorWorld::GiveBack(int32_t row, int32_t unwritten) {
  if (rows_.empty()) return;
  row %= num_rows();
  Row& state = rows_[row];
  const int32_t length =
      state.written + unwritten % (state.extended - state.written + 1);
  allocator_->GiveBack(row, length);
  naive_.GiveBack(row, length);
  state.extended = length;
  BlankUnreachablePages();
}

void AllocatorWorld::Fork(int32_t row, int32_t num_tokens,
                          int32_t promised_tokens) {
  if (rows_.empty()) return;
  row %= num_rows();
  num_tokens %= rows_[row].written + 1;
  promised_tokens %= options().pages_per_seq * options().page_size + 1;
  const std::optional<int32_t> child =
      allocator_->TryFork(row, num_tokens, promised_tokens);
  Expect(child == naive_.TryFork(row, num_tokens, promised_tokens), "TryFork");
  if (!child) return;
  Row forked = rows_[row];
  allocator_->HoldIsolation(forked.isolation);
  naive_.HoldIsolation(forked.isolation);
  forked.tokens.resize(static_cast<size_t>(num_tokens));
  forked.hashes = Hashes(forked.tokens, forked.isolation);
  forked.written = forked.extended = num_tokens;
  rows_.push_back(std::move(forked));
}

void AllocatorWorld::Release(int32_t row) {
  if (rows_.empty()) return;
  row %= num_rows();
  const bool copies_pending = !allocator_->pending_copies().empty();
  const int32_t unpromised = allocator_->num_unpromised();
  const int32_t expected = allocator_->PagesFreedByRelease(row);
  allocator_->Release(row);
  naive_.Release(row);
  // A copy that is no longer needed may free its source as well.
  const int32_t freed = allocator_->num_unpromised() - unpromised;
  Expect(freed == expected || (copies_pending && freed > expected),
         "Release and PagesFreedByRelease");
  ReleaseIsolation(rows_[row].isolation);
  rows_[row] = rows_.back();
  rows_.pop_back();
  BlankUnreachablePages();
}

void AllocatorWorld::SwapRows(int32_t a, int32_t b) {
  if (rows_.empty()) return;
  allocator_->SwapRows(a % num_rows(), b % num_rows());
  naive_.SwapRows(a % num_rows(), b % num_rows());
  std::swap(rows_[a % num_rows()], rows_[b % num_rows()]);
}

void AllocatorWorld::Pin(int32_t tenant, int32_t pattern, int32_t length) {
  const std::optional<int32_t> isolation = AcquireIsolation(tenant);
  if (!isolation) return;
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < length; ++i) {
    tokens.push_back(TokenAt(pattern, static_cast<size_t>(i)));
  }
  const std::vector<uint64_t> hashes = Hashes(tokens, *isolation);
  const absl::StatusOr<PageAllocator::Pin> pin =
      allocator_->PinPrefix({tokens, hashes, *isolation});
  const auto [code, expected] = naive_.PinPrefix(tokens, *isolation);
  Expect(pin.status().code() == code,
         absl::StrCat("PinPrefix: ", pin.status().ToString()));
  if (pin.ok() && code == absl::StatusCode::kOk) {
    Expect(pin->handle == expected.handle &&
               pin->num_tokens == expected.num_tokens,
           "PinPrefix");
  }
  ReleaseIsolation(*isolation);
}

void AllocatorWorld::Unpin(int32_t handle) {
  if (options().max_pins == 0) return;
  handle %= options().max_pins;
  if (!naive_.pin_in_use(handle)) return;
  allocator_->Unpin(handle);
  naive_.Unpin(handle);
  BlankUnreachablePages();
}

void AllocatorWorld::Reset(PageAllocator::ResetMode mode) {
  const absl::StatusCode code = allocator_->ResetPrefixCache(mode).code();
  Expect(code == naive_.ResetPrefixCache(mode), "ResetPrefixCache");
  BlankUnreachablePages();
}

void AllocatorWorld::ClearChanges() {
  allocator_->ClearChanges();
  naive_.ClearChanges();
  const std::span<const PageId> entries = allocator_->table().entries();
  cleared_entries_.assign(entries.begin(), entries.end());
}

void AllocatorWorld::BlankUnreachablePages() {
  for (PageId page = 1; page < options().total_num_pages; ++page) {
    if (naive_.CountHolders(page) > 0 || naive_.IsPublished(page)) continue;
    for (int32_t i = 0; i < options().page_size; ++i) {
      Slot(kv_, page, i) = kNobody;
    }
  }
}

absl::Status AllocatorWorld::Check() const {
  TIDEWHEEL_RETURN_IF_ERROR(difference_);
  TIDEWHEEL_RETURN_IF_ERROR(allocator_->CheckInvariants());
  TIDEWHEEL_RETURN_IF_ERROR(CheckTable());
  TIDEWHEEL_RETURN_IF_ERROR(CheckChanges());
  TIDEWHEEL_RETURN_IF_ERROR(CheckBooks());
  return CheckKv();
}

absl::Status AllocatorWorld::CheckTable() const {
  const PageTable& table = allocator_->table();
  if (table.num_rows() != num_rows()) {
    return absl::InternalError(absl::StrCat("the table has ", table.num_rows(),
                                            " rows, not ", num_rows()));
  }
  std::vector<PageId> expected(table.entries().size(), kNullPage);
  for (int32_t row = 0; row < num_rows(); ++row) {
    const std::vector<PageId>& pages = naive_.rows()[row].pages;
    std::copy(pages.begin(), pages.end(),
              expected.begin() + int64_t{row} * table.pages_per_seq());
    const int32_t slots =
        static_cast<int32_t>(pages.size()) * options().page_size;
    if (allocator_->capacity(row) != slots || slots < rows_[row].extended) {
      return absl::InternalError(absl::StrCat(
          "row ", row, " has ", allocator_->capacity(row), " slots, not ",
          slots, ", for ", rows_[row].extended, " tokens"));
    }
  }
  if (!std::equal(expected.begin(), expected.end(), table.entries().begin())) {
    return absl::InternalError(
        absl::StrCat("the table is ", absl::StrJoin(table.entries(), ","),
                     " but should be ", absl::StrJoin(expected, ",")));
  }
  return absl::OkStatus();
}

absl::Status AllocatorWorld::CheckChanges() const {
  const PageTable& table = allocator_->table();
  std::vector<int32_t> listed(static_cast<size_t>(table.max_num_seqs()), 0);
  for (const int32_t row : table.changed_rows()) ++listed[row];
  for (int32_t row = 0; row < table.max_num_seqs(); ++row) {
    const int64_t first = int64_t{row} * table.pages_per_seq();
    const bool differs =
        !std::equal(cleared_entries_.begin() + first,
                    cleared_entries_.begin() + first + table.pages_per_seq(),
                    table.entries().begin() + first);
    if (listed[row] > 1 || (differs && listed[row] == 0)) {
      return absl::InternalError(
          absl::StrCat("row ", row, " is listed as changed ", listed[row],
                       " times and ", differs ? "differs" : "is the same"));
    }
  }
  for (int32_t row = 0; row < num_rows(); ++row) {
    const int32_t expected = naive_.rows()[row].previous_row;
    if (table.previous_row(row) != expected ||
        (expected != row && !table.rows_moved())) {
      return absl::InternalError(
          absl::StrCat("row ", row, " was row ", expected, ", not ",
                       table.previous_row(row), ", before"));
    }
  }
  return absl::OkStatus();
}

absl::Status AllocatorWorld::CheckBooks() const {
  const PageAllocator::Stats stats = allocator_->stats();
  const PageAllocator::Stats expected = naive_.stats();
  const auto text = [](const PageAllocator::Stats& s) {
    return absl::StrCat(s.total_pages, " pages: ", s.free_pages, " free, ",
                        s.cached_pages, " cached, ", s.lent_pages, " lent, ",
                        s.promised_pages, " promised, ", s.pages_taken,
                        " taken, ", s.pages_evicted, " evicted");
  };
  if (text(stats) != text(expected)) {
    return absl::InternalError(absl::StrCat("stats are ", text(stats),
                                            " but should be ", text(expected)));
  }
  if (stats.lent_pages < 0 || stats.lent_pages > stats.total_pages ||
      allocator_->num_unpromised() != naive_.num_unpromised()) {
    return absl::InternalError(
        absl::StrCat(stats.lent_pages, " of ", stats.total_pages,
                     " pages are lent, ", allocator_->num_unpromised(),
                     " can be lent, not ", naive_.num_unpromised()));
  }
  for (int32_t row = 0; row < num_rows(); ++row) {
    if (allocator_->OthersHoldPages(row) && !naive_.OthersAloneHoldAPage(row)) {
      return absl::InternalError(absl::StrCat(
          "no page would become available without the rows besides ", row));
    }
  }
  const auto equal = [](const PageAllocator::PageCopy& a,
                        const PageAllocator::PageCopy& b) {
    return a.source == b.source && a.target == b.target &&
           a.num_tokens == b.num_tokens;
  };
  const std::span<const PageAllocator::PageCopy> copies =
      allocator_->pending_copies();
  if (!std::equal(copies.begin(), copies.end(), naive_.copies().begin(),
                  naive_.copies().end(), equal)) {
    return absl::InternalError(absl::StrCat(copies.size(),
                                            " copies are pending, not the ",
                                            naive_.copies().size(), " due"));
  }
  return absl::OkStatus();
}

absl::Status AllocatorWorld::CheckKv() const {
  Kv kv = kv_;
  ExecuteCopies(kv);
  const auto read = [&](PageId page, int32_t slot) {
    return Slot(kv, page, slot);
  };
  for (int32_t row = 0; row < num_rows(); ++row) {
    const Row& state = rows_[row];
    const std::vector<uint64_t> stamps = Stamps(state.tenant, state.tokens);
    const std::span<const PageId> pages = allocator_->table().pages(row);
    for (int32_t i = 0; i < state.written; ++i) {
      const PageId page = pages[i / options().page_size];
      if (read(page, i % options().page_size) != stamps[i]) {
        return absl::InternalError(absl::StrCat("row ", row, " reads token ", i,
                                                " in page ", page,
                                                " and finds another's"));
      }
    }
  }
  // What a lookup may answer with; Match was compared with the naive index.
  for (const auto& [prefix, page] : naive_.published()) {
    bool found = false;
    // The tenant of a root that is no longer held is not known: any will do,
    // as long as the tokens are right.
    for (int32_t tenant = 0; tenant < 4 && !found; ++tenant) {
      const std::vector<uint64_t> stamps = Stamps(tenant, prefix.second);
      const size_t first =
          stamps.size() - static_cast<size_t>(options().page_size);
      found = true;
      for (int32_t i = 0; i < options().page_size; ++i) {
        found = found && read(page, i) == stamps[first + i];
      }
    }
    if (!found) {
      return absl::InternalError(
          absl::StrCat("page ", page, " is published as ",
                       absl::StrJoin(prefix.second, ","), " but holds else"));
    }
  }
  return absl::OkStatus();
}

std::string AllocatorWorld::Fingerprint() const {
  std::string text = naive_.Fingerprint();
  for (const Waiting& request : waiting_) {
    absl::StrAppend(&text, "W", request.tenant, ":",
                    absl::StrJoin(request.tokens, ""));
  }
  for (const Row& row : rows_) {
    absl::StrAppend(&text, "S", row.tenant, ":", row.written, "/", row.extended,
                    ":", absl::StrJoin(row.tokens, ""));
  }
  return text;
}

}  // namespace tidewheel
