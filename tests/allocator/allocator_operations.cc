#include "tests/allocator/allocator_operations.h"

#include <cstddef>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

std::string Statement(absl::string_view name,
                      std::initializer_list<int32_t> values) {
  return absl::StrCat(name, "{", absl::StrJoin(values, ", "),
                      "}.Perform(world);");
}

struct Printer {
  std::string operator()(const Submit& o) const {
    return Statement("Submit", {o.tenant, o.pattern, o.length});
  }
  std::string operator()(const Admit& o) const {
    return Statement("Admit",
                     {o.which, o.chunk, o.promised_tokens, o.headroom_pages});
  }
  std::string operator()(const Cancel& o) const {
    return Statement("Cancel", {o.which});
  }
  std::string operator()(const Extend& o) const {
    return Statement("Extend", {o.row, o.more, o.pattern});
  }
  std::string operator()(const Write&) const { return Statement("Write", {}); }
  std::string operator()(const Publish& o) const {
    return Statement("Publish", {o.row});
  }
  std::string operator()(const Truncate& o) const {
    return Statement("Truncate", {o.row, o.new_len});
  }
  std::string operator()(const GiveBack& o) const {
    return Statement("GiveBack", {o.row, o.unwritten});
  }
  std::string operator()(const Fork& o) const {
    return Statement("Fork", {o.row, o.num_tokens, o.promised_tokens});
  }
  std::string operator()(const Release& o) const {
    return Statement("Release", {o.row});
  }
  std::string operator()(const SwapRows& o) const {
    return Statement("SwapRows", {o.a, o.b});
  }
  std::string operator()(const Pin& o) const {
    return Statement("Pin", {o.tenant, o.pattern, o.length});
  }
  std::string operator()(const Unpin& o) const {
    return Statement("Unpin", {o.handle});
  }
  std::string operator()(const Reset& o) const {
    return Statement("Reset", {o.forced});
  }
  std::string operator()(const CompleteCopies&) const {
    return Statement("CompleteCopies", {});
  }
  std::string operator()(const ClearChanges&) const {
    return Statement("ClearChanges", {});
  }
};

}  // namespace

void Submit::Perform(AllocatorWorld& world) const {
  world.Submit(tenant, pattern, length);
}
void Admit::Perform(AllocatorWorld& world) const {
  world.Admit(which, chunk, promised_tokens, headroom_pages);
}
void Cancel::Perform(AllocatorWorld& world) const { world.Cancel(which); }
void Extend::Perform(AllocatorWorld& world) const {
  world.Extend(row, more, pattern);
}
void Write::Perform(AllocatorWorld& world) const { world.Write(); }
void Publish::Perform(AllocatorWorld& world) const { world.Publish(row); }
void Truncate::Perform(AllocatorWorld& world) const {
  world.Truncate(row, new_len);
}
void GiveBack::Perform(AllocatorWorld& world) const {
  world.GiveBack(row, unwritten);
}
void Fork::Perform(AllocatorWorld& world) const {
  world.Fork(row, num_tokens, promised_tokens);
}
void Release::Perform(AllocatorWorld& world) const { world.Release(row); }
void SwapRows::Perform(AllocatorWorld& world) const { world.SwapRows(a, b); }
void Pin::Perform(AllocatorWorld& world) const {
  world.Pin(tenant, pattern, length);
}
void Unpin::Perform(AllocatorWorld& world) const { world.Unpin(handle); }
void Reset::Perform(AllocatorWorld& world) const {
  world.Reset(forced != 0 ? PageAllocator::ResetMode::kForce
                          : PageAllocator::ResetMode::kRefuseWhileInUse);
}
void CompleteCopies::Perform(AllocatorWorld& world) const {
  world.CompleteCopies();
}
void ClearChanges::Perform(AllocatorWorld& world) const {
  world.ClearChanges();
}

std::string ToString(const Operation& operation) {
  return std::visit(Printer{}, operation);
}

std::string ToString(const std::vector<Operation>& operations) {
  return absl::StrJoin(operations, "\n",
                       [](std::string* out, const Operation& operation) {
                         absl::StrAppend(out, ToString(operation));
                       });
}

void Perform(const Operation& operation, AllocatorWorld& world) {
  std::visit([&world](const auto& o) { o.Perform(world); }, operation);
}

absl::Status Replay(const PageAllocator::Options& options,
                    const std::vector<Operation>& operations) {
  AllocatorWorld world(options);
  for (const Operation& operation : operations) {
    Perform(operation, world);
    TIDEWHEEL_RETURN_IF_ERROR(world.Check());
  }
  return absl::OkStatus();
}

std::vector<Operation> Shrink(const PageAllocator::Options& options,
                              std::vector<Operation> operations) {
  for (size_t length = operations.size() / 2; length > 0; length /= 2) {
    for (size_t first = 0; first + length <= operations.size();) {
      std::vector<Operation> fewer = operations;
      const auto begin = fewer.begin() + static_cast<ptrdiff_t>(first);
      fewer.erase(begin, begin + static_cast<ptrdiff_t>(length));
      if (Replay(options, fewer).ok()) {
        first += length;
      } else {
        operations = std::move(fewer);
      }
    }
  }
  return operations;
}

Operation DrawOperation(const std::function<uint8_t()>& next) {
  // Few patterns, so that prompts meet again; they part at tokens 0, 1, 4, 7.
  static constexpr int32_t kPatterns[] = {0x00, 0x01, 0x02, 0x10,
                                          0x80, 0x81, 0x90, 0x00};
  const auto pattern = [&next] { return kPatterns[next() % 8]; };
  // Braced lists evaluate left to right, so bytes are used in a fixed order.
  switch (next() % 32) {
    case 0:
    case 1:
    case 2:
    case 3:
      return Submit{next() % 3, pattern(), next()};
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
      return Admit{next(), next(), next() % 4 / 3 * next(), next() % 4 / 2};
    case 9:
    case 10:
    case 11:
    case 12:
      return Extend{next(), next() % 5, pattern()};
    case 13:
    case 14:
    case 15:
      return Write{};
    case 16:
    case 17:
    case 18:
      return Publish{next()};
    case 19:
      return Truncate{next(), next()};
    case 20:
      if (next() % 2 == 0) return Truncate{next(), next()};
      return GiveBack{next(), next()};
    case 21:
    case 22:
      return Fork{next(), next(), next() % 2 * next()};
    case 23:
    case 24:
    case 25:
      return Release{next()};
    case 26:
      return SwapRows{next(), next()};
    case 27:
      return Pin{next() % 3, pattern(), next() % 16};
    case 28:
      return Unpin{next()};
    case 29:
      // Rare: a reset that is too frequent leaves no cache to test.
      return Reset{next() % 4 == 0 ? 1 : 0};
    case 30:
      return CompleteCopies{};
    default:
      if (next() % 2 == 0) return Cancel{next()};
      return ClearChanges{};
  }
}

PageAllocator::Options DrawOptions(const std::function<uint8_t()>& next) {
  PageAllocator::Options options;
  options.page_size = 1 + next() % 4;
  options.total_num_pages = 2 + next() % 24;
  options.max_num_seqs = 1 + next() % 6;
  options.pages_per_seq = 1 + next() % 6;
  options.enable_prefix_cache = next() % 8 != 0;
  options.max_isolation_keys = next() % 3;
  options.max_pins = next() % 3;
  options.hash_seed = next();
  if (next() % 4 == 0) options.hash_mask = 0;
  return options;
}

}  // namespace tidewheel
