// AllocatorWorld: a PageAllocator, the naive model of it, and a device whose
// KV is simulated, all given the same operations.
//
// KV is an array [total_num_pages, page_size] of stamps. A slot's stamp names
// the tenant and every token up to and including its own, which is what real KV
// is a function of. Rows write stamps, copies move them, and a page that nobody
// holds and nobody can find is filled with kNobody. So if two owners ever get
// one page, or a lookup answers with other tokens' page, some row reads a stamp
// that is not its own.
//
// Life of an operation (see allocator_operations.h):
//   1. its numbers are reduced to what is legal now; where nothing is, it does
//      nothing;
//   2. both allocators do it, and their answers are compared;
//   3. Check compares everything that can be observed, reads all KV back, and
//      calls CheckInvariants.
//
// The world writes KV only in Write, as a step does: operations in between see
// rows whose last tokens are taken but not yet written.
//
// Single-threaded. Check is O(pages x rows) and allocates.

#ifndef TIDEWHEEL_TESTS_ALLOCATOR_ALLOCATOR_WORLD_H_
#define TIDEWHEEL_TESTS_ALLOCATOR_ALLOCATOR_WORLD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "allocator/page_allocator.h"
#include "tests/allocator/naive_allocator.h"

namespace tidewheel {

class AllocatorWorld {
 public:
  static constexpr uint64_t kNobody = 0xdeadbeefdeadbeef;
  static constexpr size_t kMostWaiting = 3;

  // REQUIRES: Create accepts the options.
  explicit AllocatorWorld(const PageAllocator::Options& options);

  // One method an operation. Token t of a prompt or of what a row appends is
  // bit t % 8 of `pattern`, so prompts often share pages and often part inside
  // of one.
  void Submit(int32_t tenant, int32_t pattern, int32_t length);
  void Admit(int32_t which, int32_t chunk, int32_t promised_tokens,
             int32_t headroom_pages);
  void Cancel(int32_t which);
  void Extend(int32_t row, int32_t more, int32_t pattern);
  void Write();
  void Publish(int32_t row);
  void Truncate(int32_t row, int32_t new_len);
  void GiveBack(int32_t row, int32_t unwritten);
  void Fork(int32_t row, int32_t num_tokens, int32_t promised_tokens);
  void Release(int32_t row);
  void SwapRows(int32_t a, int32_t b);
  void Pin(int32_t tenant, int32_t pattern, int32_t length);
  void Unpin(int32_t handle);
  void Reset(PageAllocator::ResetMode mode);
  void CompleteCopies();
  void ClearChanges();

  // Errors: Internal that names the first difference.
  absl::Status Check() const;
  // Equal for two worlds exactly if the same operations have the same effects.
  std::string Fingerprint() const;

  const PageAllocator& allocator() const { return *allocator_; }
  const PageAllocator::Options& options() const {
    return allocator_->options();
  }
  int32_t num_rows() const { return static_cast<int32_t>(rows_.size()); }
  int32_t num_waiting() const { return static_cast<int32_t>(waiting_.size()); }
  int64_t num_matched_pages() const { return num_matched_pages_; }
  int64_t num_copies_done() const { return num_copies_done_; }
  // A planted bug, for the test that tests the world: page `page` is spoilt.
  void SpoilKv(PageId page) { Slot(kv_, page, 0) ^= 1; }

 private:
  // A prompt that has not been admitted, with its tenant's isolation slot.
  struct Waiting {
    int32_t tenant = 0;
    int32_t isolation = 0;
    std::vector<int32_t> tokens;
    std::vector<uint64_t> hashes;
    PageAllocator::PrefixMatch hint;
  };
  struct Row {
    int32_t tenant = 0;
    int32_t isolation = 0;
    std::vector<int32_t> tokens;
    std::vector<uint64_t> hashes;
    int32_t written = 0;   // tokens whose KV is on the device
    int32_t extended = 0;  // tokens that have slots and no other writer
  };
  using Kv = std::vector<uint64_t>;  // [total_num_pages, page_size]

  uint64_t& Slot(Kv& kv, PageId page, int32_t slot) const;
  // The stamp of each token.
  static std::vector<uint64_t> Stamps(int32_t tenant,
                                      const std::vector<int32_t>& tokens);
  std::optional<int32_t> AcquireIsolation(int32_t tenant);
  void ReleaseIsolation(int32_t isolation);
  std::vector<uint64_t> Hashes(const std::vector<int32_t>& tokens,
                               int32_t isolation) const;
  PageAllocator::PrefixMatch Match(const Waiting& request);
  void ExecuteCopies(Kv& kv) const;
  void BlankUnreachablePages();
  // Remembers the first difference between the two allocators' answers.
  void Expect(bool equal, const std::string& what);

  absl::Status CheckTable() const;
  absl::Status CheckChanges() const;
  absl::Status CheckBooks() const;
  absl::Status CheckKv() const;

  std::unique_ptr<PageAllocator> allocator_;
  NaiveAllocator naive_;
  std::vector<Waiting> waiting_;
  std::vector<Row> rows_;
  Kv kv_;
  std::vector<PageId> cleared_entries_;  // the table at the last ClearChanges
  absl::Status difference_;
  int64_t num_matched_pages_ = 0;
  int64_t num_copies_done_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ALLOCATOR_ALLOCATOR_WORLD_H_
