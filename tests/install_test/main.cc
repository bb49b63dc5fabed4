// A server that embeds tidewheel, cut down to its first page: proves that
// find_package, the include paths and the link work outside the tree.

#include <tidewheel/allocator/page_allocator.h>

#include <cstdio>

int main() {
  auto allocator = tidewheel::PageAllocator::Create({.total_num_pages = 8,
                                                     .page_size = 16,
                                                     .max_num_seqs = 2,
                                                     .pages_per_seq = 4});
  if (!allocator.ok() || !(*allocator)->TryAdmit({.num_tokens = 20})) return 1;
  std::printf("%d pages lent\n", (*allocator)->stats().lent_pages);
  return (*allocator)->stats().lent_pages == 2 ? 0 : 1;
}
