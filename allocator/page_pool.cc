#include "allocator/page_pool.h"

#include "absl/strings/str_cat.h"

namespace tidewheel {

PagePool::PagePool(int32_t total_num_pages)
    : total_num_pages_(total_num_pages), num_free_(total_num_pages - 1) {
  TIDEWHEEL_CHECK_GE(total_num_pages, 1);
  const size_t slots = static_cast<size_t>(total_num_pages) + 1;
  next_.resize(slots);
  previous_.assign(slots, kNotCached);
  reference_count_.assign(slots - 1, 0);
  // Page 1 is lent first: low ids keep a short-lived pool compact.
  for (PageId page = 0; page < total_num_pages - 1; ++page) {
    next_[page] = page + 1;
  }
  next_[total_num_pages - 1] = kNullPage;
  next_[cached_head()] = kNullPage;
  previous_[cached_head()] = cached_head();
}

void PagePool::AddReference(PageId page) {
  if (reference_count_[page] == 0) {
    TIDEWHEEL_CHECK(is_cached(page));
    Unlink(page);
    next_[page] = kLent;
  }
  ++reference_count_[page];
}

void PagePool::Discard(PageId page) {
  TIDEWHEEL_CHECK(is_cached(page));
  Unlink(page);
  PushFree(page);
}

PageId PagePool::NextCached(PageId page) const {
  TIDEWHEEL_CHECK(is_cached(page));
  return next_[page];
}

void PagePool::PushCached(PageId page) {
  const PageId head = cached_head();
  const PageId last = previous_[head];
  next_[last] = page;
  previous_[page] = last;
  next_[page] = kNullPage;
  previous_[head] = page;
  ++num_cached_;
}

void PagePool::Unlink(PageId page) {
  const PageId after = next_[page] == kNullPage ? cached_head() : next_[page];
  next_[previous_[page]] = next_[page];
  previous_[after] = previous_[page];
  previous_[page] = kNotCached;
  --num_cached_;
}

absl::Status PagePool::CheckInvariants() const {
  std::vector<char> seen(static_cast<size_t>(total_num_pages_), 0);
  int32_t free_pages = 0;
  for (PageId page = next_[kStackHead]; page != kNullPage; page = next_[page]) {
    if (page < 1 || page >= total_num_pages_ || seen[page] != 0 ||
        reference_count_[page] != 0) {
      return absl::InternalError(
          absl::StrCat("free stack holds page ", page, " that is not free"));
    }
    seen[page] = 1;
    ++free_pages;
  }
  int32_t cached_pages = 0;
  PageId before = cached_head();
  for (PageId page = OldestCached(); page != kNullPage; page = next_[page]) {
    if (page < 1 || page >= total_num_pages_ || seen[page] != 0 ||
        reference_count_[page] != 0 || previous_[page] != before) {
      return absl::InternalError(absl::StrCat(
          "cached list holds page ", page, " that is free, lent or mislinked"));
    }
    seen[page] = 1;
    ++cached_pages;
    before = page;
  }
  if (free_pages != num_free_ || cached_pages != num_cached_) {
    return absl::InternalError(absl::StrCat(
        free_pages, " pages are free and ", cached_pages, " cached, but ",
        num_free_, " and ", num_cached_, " are counted"));
  }
  for (PageId page = 1; page < total_num_pages_; ++page) {
    if (seen[page] == 0 && reference_count_[page] <= 0) {
      return absl::InternalError(
          absl::StrCat("page ", page, " is on no list but has ",
                       reference_count_[page], " references"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
