// A server that embeds tidewheel, cut down to its first page: proves that
// find_package, the include paths and the link work outside the tree.

#include <tidewheel/allocator/page_allocator.h>
#include <tidewheel/scheduler/scheduler.h>

#include <cstdio>
#include <utility>

int main() {
  auto allocator = tidewheel::PageAllocator::Create({.total_num_pages = 8,
                                                     .page_size = 16,
                                                     .max_num_seqs = 2,
                                                     .pages_per_seq = 4});
  if (!allocator.ok() || !(*allocator)->TryAdmit({.num_tokens = 20})) return 1;
  const int lent = (*allocator)->stats().lent_pages;
  (*allocator)->Release(0);
  auto scheduler = tidewheel::Scheduler::Create(
      {.max_num_seqs = 2, .max_model_len = 64, .max_num_batched_tokens = 32},
      *std::move(allocator));
  std::printf("%d pages lent; scheduler: %s\n", lent,
              scheduler.status().ToString().c_str());
  return lent == 2 && scheduler.ok() ? 0 : 1;
}
