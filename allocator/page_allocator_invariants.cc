// PageAllocator::CheckInvariants: what must hold across its parts.

#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/page_allocator.h"
#include "allocator/status_macros.h"

namespace tidewheel {

absl::Status PageAllocator::CheckInvariants() const {
  TIDEWHEEL_RETURN_IF_ERROR(pool_.CheckInvariants());
  TIDEWHEEL_RETURN_IF_ERROR(table_.CheckInvariants());
  TIDEWHEEL_RETURN_IF_ERROR(index_.CheckInvariants());
  std::vector<int32_t> holders(static_cast<size_t>(pool_.total_num_pages()), 0);
  int32_t promised = 0;
  for (int32_t row = 0; row < table_.num_rows(); ++row) {
    for (const PageId page : table_.pages(row)) ++holders[page];
    promised += rows_[row].promised;
    for (int32_t i = 0; i < rows_[row].num_published; ++i) {
      if (!index_.contains(table_.pages(row)[i])) {
        return absl::InternalError(absl::StrCat(
            "row ", row, " has published page ", table_.pages(row)[i],
            " but the index does not hold it"));
      }
    }
  }
  for (const PinnedPath& pin : pins_) {
    PageId page = pin.last;
    for (int32_t i = 0; i < pin.num_pages; ++i, page = index_.parent(page)) {
      ++holders[page];
    }
  }
  for (const PageCopy& copy : copies_.all()) ++holders[copy.source];
  for (PageId page = 1; page < pool_.total_num_pages(); ++page) {
    if (holders[page] != pool_.reference_count(page)) {
      return absl::InternalError(
          absl::StrCat("page ", page, " has ", pool_.reference_count(page),
                       " references but ", holders[page], " holders"));
    }
  }
  if (promised != promised_ || num_unpromised() < 0) {
    return absl::InternalError(absl::StrCat(
        "rows are promised ", promised, " pages, ", promised_, " are counted, ",
        pool_.num_free() + pool_.num_cached(), " are available"));
  }
  if (!options_.enable_prefix_cache) return absl::OkStatus();
  return CheckEvictionOrder();
}

absl::Status PageAllocator::CheckEvictionOrder() const {
  std::vector<int32_t> place(static_cast<size_t>(pool_.total_num_pages()), 0);
  int32_t next = 0;
  for (PageId page = pool_.OldestCached(); page != kNullPage;
       page = pool_.NextCached(page)) {
    place[page] = ++next;
    if (!index_.contains(page)) {
      return absl::InternalError(
          absl::StrCat("page ", page, " is cached but not indexed"));
    }
  }
  for (PageId page = 1; page < pool_.total_num_pages(); ++page) {
    if (!index_.contains(page)) continue;
    if (pool_.is_free(page)) {
      return absl::InternalError(
          absl::StrCat("page ", page, " is free but indexed"));
    }
    const PageId parent = index_.parent(page);
    if (parent == kNullPage || !pool_.is_cached(parent)) continue;
    if (!pool_.is_cached(page) || place[page] > place[parent]) {
      return absl::InternalError(
          absl::StrCat("page ", page, " would outlive its parent ", parent));
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
