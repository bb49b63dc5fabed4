#include "allocator/prefix_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace tidewheel {
namespace {

// How far ahead of the comparison FindLongest touches memory. A slot, an entry
// and a page of tokens are three dependent misses; the slot is asked for twice
// as early as what it leads to. 4, 8 and 16 measured within noise of each
// other on 256 pages, 0 three times as slow.
constexpr size_t kPrefetchDistance = 8;

}  // namespace

PrefixIndex::PrefixIndex(const Options& options)
    : page_size_(options.page_size),
      hash_seed_(options.hash_seed),
      hash_mask_(options.hash_mask) {
  TIDEWHEEL_CHECK_GT(options.total_num_pages, 0);
  TIDEWHEEL_CHECK_GT(options.page_size, 0);
  const size_t pages = static_cast<size_t>(options.total_num_pages);
  const size_t slots = std::bit_ceil(2 * pages);
  slot_mask_ = static_cast<uint32_t>(slots - 1);
  slots_.resize(slots);
  entries_.resize(pages);
  tokens_.resize(pages * static_cast<size_t>(page_size_));
}

uint64_t PrefixIndex::HashPage(uint64_t parent_hash,
                               std::span<const int32_t> tokens) const {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent_hash);
}

uint64_t PrefixIndex::HashRoot(absl::string_view key) const {
  return XXH3_64bits_withSeed(key.data(), key.size(), hash_seed_);
}

PrefixIndex::Node PrefixIndex::Find(const Node& parent, uint64_t hash,
                                    std::span<const int32_t> tokens) const {
  const uint32_t tag = Tag(hash);
  for (uint32_t at = Home(tag); slots_[at].page != kNullPage;
       at = (at + 1) & slot_mask_) {
    if (slots_[at].tag != tag) continue;
    const PageId page = slots_[at].page;
    if (entries_[page].parent_serial == parent.serial &&
        std::memcmp(TokensOf(page), tokens.data(), tokens.size_bytes()) == 0) {
      return {entries_[page].serial, page};
    }
  }
  return {0, kNullPage};
}

void PrefixIndex::PrefetchCandidate(uint64_t hash) const {
  const PageId page = slots_[Home(Tag(hash))].page;
  __builtin_prefetch(&entries_[page]);
  __builtin_prefetch(TokensOf(page));
}

PrefixIndex::Node PrefixIndex::FindLongest(Node start,
                                           std::span<const uint64_t> hashes,
                                           std::span<const int32_t> tokens,
                                           int32_t& num_pages) const {
  const size_t page_size = static_cast<size_t>(page_size_);
  num_pages = 0;
  Node last = start;
  for (size_t i = 0; i < std::min(hashes.size(), 2 * kPrefetchDistance); ++i) {
    Prefetch(hashes[i]);
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (i + 2 * kPrefetchDistance < hashes.size()) {
      Prefetch(hashes[i + 2 * kPrefetchDistance]);
    }
    if (i + kPrefetchDistance < hashes.size()) {
      PrefetchCandidate(hashes[i + kPrefetchDistance]);
    }
    const Node next =
        Find(last, hashes[i], tokens.subspan(i * page_size, page_size));
    if (next.serial == 0) break;
    last = next;
    ++num_pages;
  }
  return last;
}

PrefixIndex::Node PrefixIndex::Insert(const Node& parent, PageId page,
                                      uint64_t hash,
                                      std::span<const int32_t> tokens) {
  TIDEWHEEL_CHECK(!contains(page));
  TIDEWHEEL_CHECK_EQ(tokens.size(), static_cast<size_t>(page_size_));
  const uint32_t tag = Tag(hash);
  uint32_t at = Home(tag);
  while (slots_[at].page != kNullPage) at = (at + 1) & slot_mask_;
  slots_[at] = {tag, page};
  entries_[page] = {next_serial_, parent.serial, tag, parent.page};
  std::copy(
      tokens.begin(), tokens.end(),
      &tokens_[static_cast<size_t>(page) * static_cast<size_t>(page_size_)]);
  ++size_;
  return {next_serial_++, page};
}

void PrefixIndex::Erase(PageId page) {
  TIDEWHEEL_CHECK(contains(page));
  uint32_t hole = Home(entries_[page].tag);
  while (slots_[hole].page != page) hole = (hole + 1) & slot_mask_;
  // Entries behind the hole that it separates from their home move up, so that
  // probing never has to step over removed ones.
  for (uint32_t at = (hole + 1) & slot_mask_; slots_[at].page != kNullPage;
       at = (at + 1) & slot_mask_) {
    const uint32_t from_home = (at - Home(slots_[at].tag)) & slot_mask_;
    const uint32_t from_hole = (at - hole) & slot_mask_;
    if (from_home < from_hole) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
  entries_[page] = {};
  --size_;
}

void PrefixIndex::Clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  std::fill(entries_.begin(), entries_.end(), Entry{});
  size_ = 0;
}

absl::Status PrefixIndex::CheckInvariants() const {
  int32_t nodes = 0;
  for (size_t i = 1; i < entries_.size(); ++i) {
    const PageId page = static_cast<PageId>(i);
    const Entry& entry = entries_[i];
    if (entry.serial == 0) continue;
    ++nodes;
    const Node found = Find({entry.parent_serial, entry.parent},
                            static_cast<uint64_t>(entry.tag) << 32,
                            {TokensOf(page), static_cast<size_t>(page_size_)});
    if (found.page != page) {
      return absl::InternalError(absl::StrCat(
          "page ", page, " is not found by its key, page ", found.page, " is"));
    }
    if (entry.parent != kNullPage &&
        entries_[entry.parent].serial != entry.parent_serial) {
      return absl::InternalError(absl::StrCat("the parent of page ", page,
                                              ", page ", entry.parent,
                                              ", has left the index"));
    }
  }
  if (nodes != size_) {
    return absl::InternalError(
        absl::StrCat(nodes, " pages are indexed, ", size_, " are counted"));
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
