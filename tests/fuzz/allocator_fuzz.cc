// Random operations on PageAllocator, compared with the naive model and with
// simulated KV after each one.
//
// On a difference it prints the options and the operations, shrunk, as code
// that can be pasted into tests/allocator/page_allocator_model_test.cc, and
// aborts. The input is what DrawOptions and DrawOperation read, byte by byte;
// 0 follows its end.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "tests/allocator/allocator_operations.h"
#include "tests/allocator/allocator_world.h"

namespace tidewheel {
namespace {

void PrintAndAbort(const PageAllocator::Options& options,
                   const std::vector<Operation>& operations) {
  const std::vector<Operation> fewer = Shrink(options, operations);
  std::fprintf(
      stderr,
      "%s\nPageAllocator::Options options;\noptions.total_num_pages = %d;\n"
      "options.page_size = %d;\noptions.max_num_seqs = %d;\n"
      "options.pages_per_seq = %d;\noptions.enable_prefix_cache = %s;\n"
      "options.max_isolation_keys = %d;\noptions.max_pins = %d;\n"
      "options.hash_mask = 0x%llx;\nAllocatorWorld world(options);\n%s\n",
      Replay(options, fewer).ToString().c_str(), options.total_num_pages,
      options.page_size, options.max_num_seqs, options.pages_per_seq,
      options.enable_prefix_cache ? "true" : "false",
      options.max_isolation_keys, options.max_pins,
      static_cast<unsigned long long>(options.hash_mask),
      ToString(fewer).c_str());
  std::abort();
}

}  // namespace
}  // namespace tidewheel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  size_t at = 0;
  const std::function<uint8_t()> next = [&] {
    return at < size ? bytes[at++] : uint8_t{0};
  };
  const tidewheel::PageAllocator::Options options =
      tidewheel::DrawOptions(next);
  tidewheel::AllocatorWorld world(options);
  std::vector<tidewheel::Operation> operations;
  while (at < size) {
    operations.push_back(tidewheel::DrawOperation(next));
    tidewheel::Perform(operations.back(), world);
    if (!world.Check().ok()) tidewheel::PrintAndAbort(options, operations);
  }
  return 0;
}
