// The allocator's rows of DESIGN.md section 9.
//
//   build/release/bench/allocator_bench --benchmark_repetitions=7
//       --benchmark_enable_random_interleaving=true
//
// On a shared machine take the least of the repetitions (the "min" rows).
//
// Prompts are 4096 tokens: 256 pages of 16. A pool is filled by computing and
// releasing prompts, so that pages lie as a server's lie; the prompts asked for
// are drawn at random, so that most of what is touched is cold, as it is when
// thousands of users take turns.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "allocator/check.h"
#include "allocator/page_allocator.h"
#include "allocator/page_pool.h"
#include "benchmark/benchmark.h"

namespace tidewheel {
namespace {

constexpr int32_t kPageSize = 16;
constexpr int32_t kPromptPages = 256;
constexpr int32_t kPromptTokens = kPromptPages * kPageSize;

// The least of the repetitions, which a busy machine disturbs least.
double Least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

void BM_TakeAndReturnOnePage(benchmark::State& state) {
  PagePool pool(8192);
  for (auto _ : state) {
    const PageId page = pool.Acquire();
    benchmark::DoNotOptimize(page);
    pool.DropReference(page, PagePool::Afterlife::kFree);
  }
}
BENCHMARK(BM_TakeAndReturnOnePage)->ComputeStatistics("min", Least);

// Returned in another order than taken, 64 at a time: a page costs its own
// cache line, not the last one's.
void BM_TakeAndReturnPagesAtRandom(benchmark::State& state) {
  const int32_t total = static_cast<int32_t>(state.range(0));
  PagePool pool(total);
  std::vector<PageId> lent;
  std::mt19937 random(1);
  while (pool.num_free() > 0) lent.push_back(pool.Acquire());
  std::shuffle(lent.begin(), lent.end(), random);
  // Half of them stay lent; the other half is the free stack, shuffled.
  for (size_t i = 0; i < lent.size() / 2; ++i) {
    pool.DropReference(lent[i], PagePool::Afterlife::kFree);
  }
  PageId pages[64];
  for (auto _ : state) {
    for (PageId& page : pages) page = pool.Acquire();
    for (const PageId page : pages) {
      pool.DropReference(page, PagePool::Afterlife::kFree);
    }
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(BM_TakeAndReturnPagesAtRandom)
    ->Arg(8192)
    ->Arg(1 << 20)
    ->ComputeStatistics("min", Least);

PageAllocator::Options Options(int32_t usable_pages) {
  PageAllocator::Options options;
  options.total_num_pages = usable_pages + 1;
  options.page_size = kPageSize;
  options.max_num_seqs = 64;
  options.pages_per_seq = kPromptPages + 1;
  return options;
}

std::unique_ptr<PageAllocator> MakeAllocator(int32_t usable_pages) {
  auto allocator = PageAllocator::Create(Options(usable_pages));
  TIDEWHEEL_CHECK(allocator.ok());
  return *std::move(allocator);
}

// Prompt number `number`: no page equals a page of another prompt.
struct Prompt {
  explicit Prompt(int32_t number) : tokens(kPromptTokens + 1) {
    std::iota(tokens.begin(), tokens.end(), number * 8192);
  }
  void Hash(const PageAllocator& allocator) {
    hashes.resize(kPromptPages);
    allocator.HashPages(tokens, IsolationRoots::kShared, 0, kPromptPages,
                        hashes);
  }
  PageAllocator::Content content() const { return {tokens, hashes}; }

  std::vector<int32_t> tokens;
  std::vector<uint64_t> hashes;
};

int32_t Admit(PageAllocator& allocator, const PageAllocator::PrefixMatch& match,
              int32_t num_tokens) {
  PageAllocator::AdmitOptions options;
  options.match = match;
  options.num_tokens = num_tokens;
  const std::optional<int32_t> row = allocator.TryAdmit(options);
  TIDEWHEEL_CHECK(row.has_value());
  return *row;
}

// Computes a prompt, publishes it and lets it go.
void Run(PageAllocator& allocator, Prompt& prompt) {
  prompt.Hash(allocator);
  const int32_t row = Admit(allocator, {}, kPromptTokens);
  allocator.Publish(row, prompt.content(), kPromptTokens);
  allocator.Release(row);
}

enum class Layout { kInARow, kScattered };

// An allocator that has `count` prompts cached, and the prompts. Made once a
// count; 10,000 prompts take half a gigabyte.
//
// A prompt's pages lie in a row if it was computed at once. kScattered is the
// other extreme: 50 sequences took turns at random, a page each, as long
// answers do.
class CachedPrompts {
 public:
  CachedPrompts(int32_t count, Layout layout)
      : allocator(MakeAllocator(count * kPromptPages + 64)) {
    for (int32_t i = 0; i < count; ++i) {
      prompts.emplace_back(i);
      prompts.back().Hash(*allocator);
    }
    order_.resize(prompts.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::shuffle(order_.begin(), order_.end(), random_);
    const size_t at_once = layout == Layout::kScattered ? 50 : 1;
    for (size_t i = 0; i < prompts.size(); i += at_once) {
      RunTogether(i, at_once);
    }
  }
  const Prompt& Next() {
    at_ = at_ + 1 == order_.size() ? 0 : at_ + 1;
    return prompts[order_[at_]];
  }

  std::unique_ptr<PageAllocator> allocator;
  std::vector<Prompt> prompts;

 private:
  void RunTogether(size_t first, size_t count) {
    const int32_t rows = static_cast<int32_t>(count);
    std::vector<int32_t> turns;
    for (int32_t row = 0; row < rows; ++row) {
      Admit(*allocator, {}, 0);
      turns.insert(turns.end(), kPromptPages, row);
    }
    std::shuffle(turns.begin(), turns.end(), random_);
    for (const int32_t row : turns) {
      const int32_t length = allocator->capacity(row) + kPageSize;
      TIDEWHEEL_CHECK(allocator->TryExtend(row, length));
    }
    for (int32_t row = rows - 1; row >= 0; --row) {
      allocator->Publish(row,
                         prompts[first + static_cast<size_t>(row)].content(),
                         kPromptTokens);
      allocator->Release(row);
    }
  }

  std::mt19937 random_{1};
  std::vector<size_t> order_;
  size_t at_ = 0;
};

CachedPrompts& Cached(benchmark::State& state) {
  static auto* const worlds =
      new std::map<std::pair<int64_t, int64_t>, std::unique_ptr<CachedPrompts>>;
  std::unique_ptr<CachedPrompts>& world =
      (*worlds)[{state.range(0), state.range(1)}];
  if (world == nullptr) {
    world = std::make_unique<CachedPrompts>(
        static_cast<int32_t>(state.range(0)),
        state.range(1) == 0 ? Layout::kInARow : Layout::kScattered);
  }
  return *world;
}

// Times each call alone and reports the median, in microseconds, beside the
// mean: the median is what the machine's other work disturbs least.
class CallTimes {
 public:
  explicit CallTimes(benchmark::State& state) : state_(state) {
    nanoseconds_.reserve(1 << 20);
  }
  template <typename Call>
  void Time(Call call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double> seconds = end - begin;
    state_.SetIterationTime(seconds.count());
    if (nanoseconds_.size() < nanoseconds_.capacity()) {
      nanoseconds_.push_back(seconds.count() * 1e9);
    }
  }
  ~CallTimes() {
    if (nanoseconds_.empty()) return;
    const auto middle =
        nanoseconds_.begin() + static_cast<ptrdiff_t>(nanoseconds_.size() / 2);
    std::nth_element(nanoseconds_.begin(), middle, nanoseconds_.end());
    state_.counters["median_us"] = *middle / 1e3;
  }

 private:
  benchmark::State& state_;
  std::vector<double> nanoseconds_;
};

void PromptCounts(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"prompts", "scattered"});
  benchmark->ArgsProduct({{200, 2000, 10'000}, {0, 1}});
  benchmark->ComputeStatistics("min", Least)->Unit(benchmark::kMicrosecond);
  benchmark->UseManualTime();
}

// A request that waits has its hashes already. The prompt asked for is a fresh
// copy, as a new request has, and the cached one is cold: the same as
// baselines/sglang_radix_bench.py does.
void BM_MatchHashedBefore(benchmark::State& state) {
  CachedPrompts& cached = Cached(state);
  CallTimes times(state);
  Prompt prompt(0);
  for (auto _ : state) {
    prompt = cached.Next();
    PageAllocator::PrefixMatch match;
    times.Time([&] { match = cached.allocator->Match(prompt.content(), {}); });
    TIDEWHEEL_CHECK_EQ(match.num_pages, kPromptPages);
  }
}
BENCHMARK(BM_MatchHashedBefore)->Apply(PromptCounts);

// A request that has just come.
void BM_MatchWithHashing(benchmark::State& state) {
  CachedPrompts& cached = Cached(state);
  CallTimes times(state);
  Prompt prompt(0);
  for (auto _ : state) {
    prompt = cached.Next();
    PageAllocator::PrefixMatch match;
    times.Time([&] {
      prompt.Hash(*cached.allocator);
      match = cached.allocator->Match(prompt.content(), {});
    });
    TIDEWHEEL_CHECK_EQ(match.num_pages, kPromptPages);
  }
}
BENCHMARK(BM_MatchWithHashing)->Apply(PromptCounts);

void BM_HashPrompt(benchmark::State& state) {
  const std::unique_ptr<PageAllocator> allocator = MakeAllocator(64);
  Prompt prompt(0);
  for (auto _ : state) {
    prompt.Hash(*allocator);
    benchmark::DoNotOptimize(prompt.hashes.back());
  }
}
BENCHMARK(BM_HashPrompt)
    ->ComputeStatistics("min", Least)
    ->Unit(benchmark::kMicrosecond);

// A retry of a request that waits: what an earlier answer found is not
// compared again.
void BM_MatchWithHint(benchmark::State& state) {
  CachedPrompts& cached = Cached(state);
  const PageAllocator::Content content = cached.Next().content();
  const PageAllocator::PrefixMatch hint = cached.allocator->Match(content, {});
  for (auto _ : state) {
    const PageAllocator::PrefixMatch match =
        cached.allocator->Match(content, hint);
    TIDEWHEEL_CHECK_EQ(match.num_pages, kPromptPages);
  }
}
BENCHMARK(BM_MatchWithHint)
    ->ArgNames({"prompts", "scattered"})
    ->Args({2000, 0});

// Match, take the row with its 256 pages and one more, give all back.
void BM_AdmitAndReleaseAHit(benchmark::State& state) {
  CachedPrompts& cached = Cached(state);
  CallTimes times(state);
  Prompt prompt(0);
  for (auto _ : state) {
    prompt = cached.Next();
    times.Time([&] {
      const PageAllocator::PrefixMatch match =
          cached.allocator->Match(prompt.content(), {});
      const int32_t row = Admit(*cached.allocator, match, kPromptTokens + 1);
      cached.allocator->Release(row);
    });
  }
}
BENCHMARK(BM_AdmitAndReleaseAHit)->Apply(PromptCounts);

// The whole life of a page in a full cache: 64 rows in turn each take a page,
// which evicts the oldest one, and publish it; a row of 256 pages is released
// and begins anew. Items are pages.
void BM_TakeEvictAndPublishInAFullCache(benchmark::State& state) {
  const int32_t pages = static_cast<int32_t>(state.range(0));
  const std::unique_ptr<PageAllocator> allocator = MakeAllocator(pages);
  // Half of the content is found no more than once; it comes round again after
  // the whole pool was turned over several times.
  const int32_t num_prompts = pages / kPromptPages * 2 + 96;
  std::vector<Prompt> prompts;
  for (int32_t i = 0; i < num_prompts; ++i) {
    prompts.emplace_back(i);
    prompts.back().Hash(*allocator);
  }
  size_t next = 0;
  const auto next_prompt = [&] {
    next = next + 1 == prompts.size() ? 0 : next + 1;
    return next;
  };
  // Rows are at most a quarter of the pool; they begin at different lengths.
  const int32_t num_rows = std::min(64, pages / kPromptPages / 4);
  std::vector<size_t> prompt_of(static_cast<size_t>(num_rows));
  std::vector<int32_t> length(static_cast<size_t>(num_rows));
  // Turns the whole pool over, so that no page is free any more.
  for (int32_t i = 0; i < num_prompts; ++i) {
    Run(*allocator, prompts[next_prompt()]);
  }
  for (int32_t row = 0; row < num_rows; ++row) {
    prompt_of[row] = next_prompt();
    length[row] = (row * 37) % kPromptPages * kPageSize;
    Admit(*allocator, {}, length[row]);
    allocator->Publish(row, prompts[prompt_of[row]].content(), length[row]);
  }
  const int64_t evicted_before = allocator->stats().pages_evicted;
  const int64_t taken_before = allocator->stats().pages_taken;
  for (auto _ : state) {
    // As a step does: what will be read is known for all rows.
    for (int32_t row = 0; row < num_rows; ++row) {
      allocator->PrefetchExtend(row);
      const size_t page = static_cast<size_t>(length[row] / kPageSize);
      allocator->PrefetchPublish(
          prompts[prompt_of[row]].hashes[page % kPromptPages]);
    }
    for (int32_t row = 0; row < num_rows; ++row) {
      if (length[row] == kPromptTokens) {
        // The last row takes the number of the released one.
        allocator->Release(row);
        Admit(*allocator, {}, 0);
        allocator->SwapRows(row, num_rows - 1);
        prompt_of[row] = next_prompt();
        length[row] = 0;
      }
      length[row] += kPageSize;
      TIDEWHEEL_CHECK(allocator->TryExtend(row, length[row]));
      allocator->Publish(row, prompts[prompt_of[row]].content(), length[row]);
    }
    allocator->ClearChanges();
  }
  state.SetItemsProcessed(state.iterations() * num_rows);
  const int64_t taken = allocator->stats().pages_taken - taken_before;
  state.counters["evicted_per_page"] =
      static_cast<double>(allocator->stats().pages_evicted - evicted_before) /
      static_cast<double>(std::max<int64_t>(taken, 1));
}
BENCHMARK(BM_TakeEvictAndPublishInAFullCache)
    ->ArgName("pages")
    ->Arg(1 << 13)
    ->Arg(1 << 16)
    ->Arg(1 << 20)
    ->ComputeStatistics("min", Least);

// Take and return one page of the facade where each page taken evicts one: a
// row of one page comes and goes, its page is published.
void BM_AdmitEvictPublishAndReleaseOnePage(benchmark::State& state) {
  const int32_t pages = static_cast<int32_t>(state.range(0));
  const std::unique_ptr<PageAllocator> allocator = MakeAllocator(pages);
  std::vector<int32_t> tokens(kPageSize);
  std::vector<uint64_t> hashes(1);
  int32_t number = 0;
  const auto run = [&] {
    tokens[0] = number++;
    allocator->HashPages(tokens, IsolationRoots::kShared, 0, 1, hashes);
    const int32_t row = Admit(*allocator, {}, kPageSize);
    allocator->Publish(row, {tokens, hashes}, kPageSize);
    allocator->Release(row);
  };
  for (int32_t i = 0; i < pages; ++i) run();
  for (auto _ : state) run();
}
BENCHMARK(BM_AdmitEvictPublishAndReleaseOnePage)
    ->ArgName("pages")
    ->Arg(1 << 13)
    ->Arg(1 << 20)
    ->ComputeStatistics("min", Least);

}  // namespace
}  // namespace tidewheel
