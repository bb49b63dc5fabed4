#include "allocator/page_allocator.h"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

absl::Status CheckPositive(absl::string_view name, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, "; it must be at least 1"));
}

// The page table must fit the memory that the kernel reads it from.
absl::Status CheckScalarMemory(const PageAllocator::Options& options) {
  if (!options.smem_bytes.has_value()) return absl::OkStatus();
  const int64_t limit = *options.smem_bytes;
  const int64_t need =
      PageTableSmemBytes(options.max_num_seqs, options.pages_per_seq);
  if (need <= limit) return absl::OkStatus();
  const int64_t max_len =
      int64_t{options.pages_per_seq} * int64_t{options.page_size};
  const std::optional<int32_t> page_size = SmallestPageSizeThatFits(
      options.max_num_seqs, max_len, options.page_size, limit);
  const int32_t rows = LargestMaxNumSeqs(options.pages_per_seq, limit);
  return absl::InvalidArgumentError(absl::StrCat(
      "a page table of max_num_seqs ", options.max_num_seqs,
      " x pages_per_seq ", options.pages_per_seq, " needs ", need,
      " bytes of scalar memory, more than the ", limit,
      " bytes that a TPU core has; ",
      page_size.has_value()
          ? absl::StrCat("raise page_size from ", options.page_size, " to ",
                         *page_size, " (pages_per_seq ",
                         (max_len + *page_size - 1) / *page_size, ")")
          : "no page_size is large enough",
      rows > 0 ? absl::StrCat(", or lower max_num_seqs to ", rows) : ""));
}

absl::Status CheckOptions(const PageAllocator::Options& options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckPositive("page_size", options.page_size));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckPositive("max_num_seqs", options.max_num_seqs));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckPositive("pages_per_seq", options.pages_per_seq));
  if (options.total_num_pages < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "total_num_pages is ", options.total_num_pages,
        "; at least 2 are needed, since page 0 is the null page and is never "
        "lent"));
  }
  if (options.max_isolation_keys < 0 || options.max_pins < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_isolation_keys is ", options.max_isolation_keys,
        " and max_pins is ", options.max_pins, "; neither may be negative"));
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t entries =
      int64_t{options.max_num_seqs} * int64_t{options.pages_per_seq};
  if (entries > kMost) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_num_seqs ", options.max_num_seqs, " x pages_per_seq ",
        options.pages_per_seq, " is a page table of ", entries,
        " entries; at most ", kMost, " can be indexed, so lower either"));
  }
  const int64_t row_tokens =
      int64_t{options.pages_per_seq} * int64_t{options.page_size};
  if (row_tokens > kMost) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pages_per_seq ", options.pages_per_seq, " x page_size ",
        options.page_size, " is a sequence of ", row_tokens,
        " tokens; at most ", kMost, " can be indexed, so lower either"));
  }
  return CheckScalarMemory(options);
}

absl::Status NoMemoryFor(const PageAllocator::Options& options) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the host has no memory for the books of total_num_pages ",
                   options.total_num_pages, " x page_size ", options.page_size,
                   " and a page table of max_num_seqs ", options.max_num_seqs,
                   " x pages_per_seq ", options.pages_per_seq, "; lower them"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageAllocator>> PageAllocator::Create(
    const Options& options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckOptions(options));
  // The sizes come from a user's flags, so a lack of memory is an error too.
  try {
    return std::unique_ptr<PageAllocator>(new PageAllocator(options));
  } catch (const std::bad_alloc&) {
    return NoMemoryFor(options);
  } catch (const std::length_error&) {
    return NoMemoryFor(options);
  }
}

// Without the prefix cache the index keeps room for one page only.
PageAllocator::PageAllocator(const Options& options)
    : options_(options),
      pool_(options.total_num_pages),
      table_(options.max_num_seqs, options.pages_per_seq),
      index_({options.enable_prefix_cache ? options.total_num_pages : 1,
              options.page_size, options.hash_seed, options.hash_mask}),
      roots_(options.max_isolation_keys, index_),
      rows_(static_cast<size_t>(options.max_num_seqs)),
      pins_(static_cast<size_t>(options.max_pins)),
      copies_(options.max_num_seqs) {}

void PageAllocator::HashPages(std::span<const int32_t> tokens,
                              int32_t isolation, int32_t first_page,
                              int32_t end_page,
                              std::span<uint64_t> hashes) const {
  const size_t page_size = static_cast<size_t>(options_.page_size);
  uint64_t hash =
      first_page == 0 ? roots_.root_hash(isolation) : hashes[first_page - 1];
  for (int32_t page = first_page; page < end_page; ++page) {
    hash = index_.HashPage(
        hash, tokens.subspan(static_cast<size_t>(page) * page_size, page_size));
    hashes[page] = hash;
  }
}

PageAllocator::PrefixMatch PageAllocator::Match(const Content& content,
                                                const PrefixMatch& hint) const {
  PrefixMatch match{roots_.root(content.isolation), 0};
  if (!options_.enable_prefix_cache || content.tokens.empty()) return match;
  if (hint.num_pages > 0 && index_.serial(hint.last.page) == hint.last.serial) {
    match = hint;
  }
  const size_t from = static_cast<size_t>(match.num_pages);
  const size_t page_size = static_cast<size_t>(options_.page_size);
  const size_t end =
      std::min(content.hashes.size(), (content.tokens.size() - 1) / page_size);
  if (from >= end) return match;
  int32_t more = 0;
  match.last =
      index_.FindLongest(match.last, content.hashes.subspan(from, end - from),
                         content.tokens.subspan(from * page_size), more);
  match.num_pages += more;
  return match;
}

int32_t PageAllocator::NumCachedOnPath(PageId last, int32_t num_pages) const {
  // A page's parent is lent if the page is, so the cached ones come last.
  int32_t cached = 0;
  for (PageId page = last; cached < num_pages && pool_.is_cached(page);
       page = index_.parent(page)) {
    ++cached;
  }
  return cached;
}

int32_t PageAllocator::PagesToAdmit(const AdmitOptions& options) const {
  const int32_t length = std::max(options.num_tokens, options.promised_tokens);
  return CeilDiv(length) - options.match.num_pages +
         NumCachedOnPath(options.match.last.page, options.match.num_pages);
}

std::optional<int32_t> PageAllocator::TryAdmit(const AdmitOptions& options) {
  const PrefixMatch& match = options.match;
  const int32_t pages_now = CeilDiv(options.num_tokens);
  TIDEWHEEL_CHECK_LE(int64_t{match.num_pages} * options_.page_size,
                     options.num_tokens);
  TIDEWHEEL_CHECK_LE(pages_now, options_.pages_per_seq);
  if (match.num_pages > 0) {
    TIDEWHEEL_CHECK_EQ(index_.serial(match.last.page), match.last.serial);
  }
  if (table_.num_rows() == options_.max_num_seqs ||
      int64_t{PagesToAdmit(options)} + options.headroom_pages >
          num_unpromised()) {
    return std::nullopt;
  }
  const int32_t row = table_.AppendRow();
  const std::span<PageId> entries = table_.AppendPages(row, pages_now);
  PageId page = match.last.page;
  for (int32_t i = match.num_pages - 1; i >= 0; --i) {
    pool_.AddReference(page);
    entries[i] = page;
    page = index_.parent(page);
  }
  for (int32_t i = match.num_pages; i < pages_now; ++i) {
    entries[i] = TakePage();
  }
  rows_[row] = {0, match.num_pages, options.promised_tokens > 0, 0};
  AddPromise(row, std::max(CeilDiv(options.promised_tokens) - pages_now, 0));
  return row;
}

void PageAllocator::AddPromise(int32_t row, int32_t pages) {
  rows_[row].promised += pages;
  promised_ += pages;
}

PageId PageAllocator::TakePage() {
  if (pool_.num_free() == 0) EvictOldest();
  ++pages_taken_;
  return pool_.Acquire();
}

void PageAllocator::EvictOldest() {
  const PageId oldest = pool_.OldestCached();
  TIDEWHEEL_CHECK_NE(oldest, kNullPage);
  const PageId next = pool_.NextCached(oldest);
  index_.Erase(oldest);
  pool_.Discard(oldest);
  ++pages_evicted_;
  if (next == kNullPage) return;
  // The next one to go is known already, and is cold: it was released long ago.
  const PageId after_next = pool_.NextCached(next);
  index_.PrefetchErase(next);
  index_.PrefetchEntry(after_next);
  pool_.Prefetch(after_next);
}

bool PageAllocator::DropPage(PageId page) {
  if (!ReturnPage(page)) return false;
  if (!copies_.empty()) ForgetCopiesTo(page);
  return true;
}

bool PageAllocator::ReturnPage(PageId page) {
  const bool published = options_.enable_prefix_cache && index_.contains(page);
  return pool_.DropReference(page, published ? PagePool::Afterlife::kCached
                                             : PagePool::Afterlife::kFree);
}

bool PageAllocator::TailNeedsCopy(int32_t row) const {
  if (rows_[row].tail_tokens == 0) return false;
  const PageId tail = table_.pages(row).back();
  return pool_.reference_count(tail) > 1 ||
         (options_.enable_prefix_cache && index_.contains(tail));
}

int32_t PageAllocator::PagesToExtend(int32_t row, int32_t new_len) const {
  return std::max(CeilDiv(new_len) - table_.num_pages(row), 0) +
         (TailNeedsCopy(row) ? 1 : 0);
}

bool PageAllocator::TryExtend(int32_t row, int32_t new_len) {
  CheckRow(row);
  const int32_t need = PagesToExtend(row, new_len);
  const int32_t from_promise = std::min(need, rows_[row].promised);
  if (need - from_promise > num_unpromised()) return false;
  int32_t new_pages = need;
  if (TailNeedsCopy(row)) {
    if (copies_.full()) return false;
    CopyTail(row);
    --new_pages;
  }
  TIDEWHEEL_CHECK_LE(table_.num_pages(row) + new_pages, options_.pages_per_seq);
  rows_[row].tail_tokens = 0;
  for (int32_t i = 0; i < new_pages; ++i) table_.AppendPage(row, TakePage());
  AddPromise(row, -from_promise);
  return true;
}

void PageAllocator::CopyTail(int32_t row) {
  const int32_t column = table_.num_pages(row) - 1;
  const PageId source = table_.pages(row)[column];
  const PageId target = TakePage();
  // The row's reference to the source passes to the copy.
  copies_.Add({source, target, rows_[row].tail_tokens});
  table_.ReplacePage(row, column, target);
}

void PageAllocator::ForgetCopiesTo(PageId target) {
  const std::optional<PageId> source = copies_.RemoveTo(target);
  if (source.has_value()) DropPage(*source);
}

void PageAllocator::CompleteCopies(int64_t step_id) {
  CompleteFirstCopies(copies_.CountUpTo(step_id));
}

void PageAllocator::CompleteFirstCopies(int32_t count) {
  if (count == 0) return;
  // A source that nobody holds now may be the target of another of these
  // copies: that one is done too, and is not to be forgotten. A later copy's
  // target is never such a source, since its row holds it.
  for (const PageCopy& copy : copies_.all().first(static_cast<size_t>(count))) {
    ReturnPage(copy.source);
  }
  copies_.RemoveFirst(count);
}

void PageAllocator::GiveBack(int32_t row, int32_t length) {
  CheckRow(row);
  TIDEWHEEL_CHECK_LE(length, capacity(row));
  TIDEWHEEL_CHECK_GE(length, 0);
  const int32_t kept = CeilDiv(length);
  int32_t given_back = 0;
  while (table_.num_pages(row) > kept) {
    if (DropPage(table_.PopPage(row))) ++given_back;
  }
  if (rows_[row].keeps_promise) AddPromise(row, given_back);
}

void PageAllocator::Truncate(int32_t row, int32_t new_len) {
  GiveBack(row, new_len);
  Row& state = rows_[row];
  state.num_published =
      std::min(state.num_published, new_len / options_.page_size);
  state.tail_tokens = new_len % options_.page_size;
  // A page that is the row's alone now may be written in place, also if it is
  // forked later: the fork is the one that copies.
  if (!TailNeedsCopy(row)) state.tail_tokens = 0;
}

std::optional<int32_t> PageAllocator::TryFork(int32_t row, int32_t num_tokens,
                                              int32_t promised_tokens) {
  CheckRow(row);
  TIDEWHEEL_CHECK_GE(num_tokens, 0);
  TIDEWHEEL_CHECK_LE(num_tokens, capacity(row));
  const int32_t shared = CeilDiv(num_tokens);
  const int32_t tail_tokens = num_tokens % options_.page_size;
  int32_t promised = 0;
  if (promised_tokens > 0) {
    promised = std::max(CeilDiv(promised_tokens) - shared, 0) +
               (tail_tokens > 0 ? 1 : 0);
  }
  if (table_.num_rows() == options_.max_num_seqs ||
      promised > num_unpromised()) {
    return std::nullopt;
  }
  const int32_t child = table_.AppendRow();
  const std::span<PageId> entries = table_.AppendPages(child, shared);
  for (int32_t i = 0; i < shared; ++i) {
    entries[i] = table_.pages(row)[i];
    pool_.AddReference(entries[i]);
  }
  rows_[child] = {
      0, std::min(rows_[row].num_published, num_tokens / options_.page_size),
      promised_tokens > 0, tail_tokens};
  AddPromise(child, promised);
  return child;
}

PrefixIndex::Node PageAllocator::NodeBefore(int32_t row, int32_t column,
                                            int32_t isolation) const {
  if (column == 0) return roots_.root(isolation);
  const PageId page = table_.pages(row)[column - 1];
  return {index_.serial(page), page};
}

void PageAllocator::Publish(int32_t row, const Content& content,
                            int32_t committed_len) {
  CheckRow(row);
  if (!options_.enable_prefix_cache) return;
  TIDEWHEEL_CHECK_LE(committed_len, capacity(row));
  const int32_t end = committed_len / options_.page_size;
  TIDEWHEEL_CHECK_GE(content.tokens.size(), static_cast<size_t>(committed_len));
  TIDEWHEEL_CHECK_GE(content.hashes.size(), static_cast<size_t>(end));
  int32_t& published = rows_[row].num_published;
  for (const PageCopy& copy : copies_.all()) {
    for (int32_t column = published; column < end; ++column) {
      TIDEWHEEL_CHECK_NE(copy.target, table_.pages(row)[column]);
    }
  }
  while (published < end && PublishPage(row, published, content)) ++published;
}

bool PageAllocator::PublishPage(int32_t row, int32_t column,
                                const Content& content) {
  const size_t page_size = static_cast<size_t>(options_.page_size);
  const PrefixIndex::Node parent = NodeBefore(row, column, content.isolation);
  const std::span<const int32_t> tokens = content.tokens.subspan(
      static_cast<size_t>(column) * page_size, page_size);
  const PageId page = table_.pages(row)[column];
  const PageId twin = index_.Find(parent, content.hashes[column], tokens).page;
  if (twin == page) return true;
  if (twin == kNullPage) {
    index_.Insert(parent, page, content.hashes[column], tokens);
    return true;
  }
  // Both hold the same KV. Sharing the twin frees a page and keeps the rule
  // that a page in use has its parents in use. A page that a fork shares stays:
  // the fork's later pages would then hang on a twin that it does not hold.
  if (pool_.reference_count(page) > 1) return false;
  pool_.AddReference(twin);
  table_.ReplacePage(row, column, twin);
  DropPage(page);
  return true;
}

void PageAllocator::Release(int32_t row) {
  CheckRow(row);
  // Last page first: a page is then always released before its parent, and the
  // cached list evicts children before parents.
  while (table_.num_pages(row) > 0) DropPage(table_.PopPage(row));
  AddPromise(row, -rows_[row].promised);
  const int32_t last = table_.num_rows() - 1;
  SwapRows(row, last);
  table_.RemoveLastRow();
  rows_[last] = {};
}

int32_t PageAllocator::PagesFreedByRelease(int32_t row) const {
  int32_t freed = rows_[row].promised;
  for (const PageId page : table_.pages(row)) {
    freed += pool_.reference_count(page) == 1 ? 1 : 0;
  }
  return freed;
}

bool PageAllocator::OthersHoldPages(int32_t row) const {
  // What pins and pending copies hold, no release frees. It may be the row's
  // own or another's as well; then this errs towards no.
  int32_t others = pool_.num_lent() - table_.num_pages(row) - copies_.size();
  for (const PinnedPath& pin : pins_) others -= pin.num_pages;
  return others > 0;
}

void PageAllocator::SwapRows(int32_t a, int32_t b) {
  CheckRow(a);
  CheckRow(b);
  if (a == b) return;
  table_.SwapRows(a, b);
  std::swap(rows_[a], rows_[b]);
}

void PageAllocator::DropPath(PageId last, int32_t num_pages) {
  PageId page = last;
  for (int32_t i = 0; i < num_pages; ++i) {
    const PageId parent = index_.parent(page);
    DropPage(page);
    page = parent;
  }
}

absl::StatusOr<PageAllocator::Pin> PageAllocator::PinPrefix(
    const Content& content) {
  int32_t num_pages = 0;
  PrefixIndex::Node last{};
  if (options_.enable_prefix_cache) {
    const size_t full_pages = std::min(
        content.hashes.size(),
        content.tokens.size() / static_cast<size_t>(options_.page_size));
    last = index_.FindLongest(roots_.root(content.isolation),
                              content.hashes.first(full_pages), content.tokens,
                              num_pages);
  }
  if (num_pages == 0) {
    return absl::NotFoundError(
        absl::StrCat("no page of this prefix of ", content.tokens.size(),
                     " tokens is cached; run a request with it first"));
  }
  size_t handle = 0;
  while (handle < pins_.size() && pins_[handle].in_use) ++handle;
  if (handle == pins_.size()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", options_.max_pins,
                     " pins are held; unpin one or raise max_pins"));
  }
  const int32_t cached = NumCachedOnPath(last.page, num_pages);
  if (cached > num_unpromised()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "pinning takes ", cached, " cached pages but only ", num_unpromised(),
        " are not promised to running sequences; try again later"));
  }
  PageId page = last.page;
  for (int32_t i = 0; i < num_pages; ++i, page = index_.parent(page)) {
    pool_.AddReference(page);
  }
  pins_[handle] = {true, last.page, num_pages};
  return Pin{static_cast<int32_t>(handle), num_pages * options_.page_size};
}

void PageAllocator::Unpin(int32_t handle) {
  TIDEWHEEL_CHECK_GE(handle, 0);
  TIDEWHEEL_CHECK_LT(handle, options_.max_pins);
  TIDEWHEEL_CHECK(pins_[handle].in_use);
  DropPath(pins_[handle].last, pins_[handle].num_pages);
  pins_[handle] = {};
}

absl::Status PageAllocator::ResetPrefixCache(ResetMode mode) {
  const int32_t held = index_.size() - pool_.num_cached();
  if (held > 0 && mode == ResetMode::kRefuseWhileInUse) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the prefix cache can not be reset while ", held,
        " of its pages are held by running sequences or pins; wait for them "
        "or force the reset"));
  }
  // A pin's path is known by the index only, so it goes first; its handle stays
  // valid and names nothing.
  for (PinnedPath& pin : pins_) {
    DropPath(pin.last, pin.num_pages);
    pin.last = kNullPage;
    pin.num_pages = 0;
  }
  while (pool_.OldestCached() != kNullPage) {
    pool_.Discard(pool_.OldestCached());
  }
  index_.Clear();
  roots_.RenewRoots();
  for (Row& row : rows_) row.num_published = 0;
  return absl::OkStatus();
}

PageAllocator::Stats PageAllocator::stats() const {
  return {pool_.total_num_pages() - 1,
          pool_.num_free(),
          pool_.num_cached(),
          pool_.num_lent(),
          promised_,
          pages_taken_,
          pages_evicted_};
}

}  // namespace tidewheel
