#include "allocator/isolation_roots.h"

#include "absl/strings/str_cat.h"
#include "allocator/check.h"

namespace tidewheel {
namespace {

void AppendTagged(char tag, absl::string_view value, std::string& bytes) {
  absl::StrAppend(&bytes, absl::string_view(&tag, 1), value.size(), ":", value);
}

}  // namespace

std::string IsolationKey::Encode() const {
  std::string bytes;
  if (salt.has_value()) AppendTagged('s', *salt, bytes);
  if (adapter.has_value()) AppendTagged('a', *adapter, bytes);
  for (const Content& content : contents) {
    AppendTagged('p', absl::StrCat(content.position), bytes);
    AppendTagged('c', content.id, bytes);
  }
  return bytes;
}

IsolationRoots::IsolationRoots(int32_t max_keys, PrefixIndex& index)
    : index_(index) {
  TIDEWHEEL_CHECK_GE(max_keys, 0);
  slots_.resize(static_cast<size_t>(max_keys) + 1);
  slots_[kShared].root = index.NewRoot();
  slots_[kShared].root_hash = index.HashRoot("");
  slots_[kShared].holders = 1;
}

std::optional<int32_t> IsolationRoots::TryAcquire(const IsolationKey& key) {
  const std::string bytes = key.Encode();
  if (bytes.empty()) {
    ++slots_[kShared].holders;
    return kShared;
  }
  int32_t oldest = -1;
  for (size_t i = 1; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const bool known = slot.holders > 0 || slot.released_at > 0;
    if (known && slot.bytes == bytes) {
      ++slot.holders;
      return static_cast<int32_t>(i);
    }
    if (slot.holders == 0 &&
        (oldest < 0 || slot.released_at < slots_[oldest].released_at)) {
      oldest = static_cast<int32_t>(i);
    }
  }
  if (oldest < 0) return std::nullopt;
  slots_[oldest] = {bytes, index_.NewRoot(), index_.HashRoot(bytes), 1, 0};
  return oldest;
}

void IsolationRoots::Hold(int32_t slot) {
  TIDEWHEEL_CHECK_GT(slots_[slot].holders, 0);
  ++slots_[slot].holders;
}

void IsolationRoots::Release(int32_t slot) {
  TIDEWHEEL_CHECK_GT(slots_[slot].holders, 0);
  if (--slots_[slot].holders == 0) slots_[slot].released_at = ++releases_;
}

void IsolationRoots::RenewRoots() {
  for (Slot& slot : slots_) slot.root = index_.NewRoot();
}

}  // namespace tidewheel
