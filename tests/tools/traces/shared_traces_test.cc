// The published traces, read whole, against counts made elsewhere.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"
#include "tools/traces/token_content.h"
#include "tools/traces/trace_check.h"
#include "tools/traces/trace_reader.h"

namespace tidewheel {
namespace {

struct Totals {
  size_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
};

Totals TotalsOf(const Trace& trace) {
  Totals totals;
  totals.requests = trace.requests.size();
  for (const TraceRequest& r : trace.requests) {
    totals.prompt_tokens += r.prompt_tokens;
    totals.output_tokens += r.output_tokens;
  }
  return totals;
}

// Hits of an endless prefix cache over requests one at a time, by the rules of
// the allocator but with none of its code: a page hits if its chain of pages
// from the prompt's start was in an earlier prompt; at least one token is left
// to compute; only full pages are remembered.
class HitCounter {
 public:
  explicit HitCounter(int64_t page_size) : page_size_(page_size) {}

  // `chains[i]` stands for the contents of the first (i + 1) pages.
  void AddPrompt(int64_t prompt_tokens, const std::vector<uint64_t>& chains) {
    const auto most = static_cast<size_t>((prompt_tokens - 1) / page_size_);
    size_t hits = 0;
    while (hits < most && seen_.contains(chains[hits])) ++hits;
    hit_tokens_ += static_cast<int64_t>(hits) * page_size_;
    for (const uint64_t chain : chains) seen_.insert(chain);
  }

  int64_t page_size() const { return page_size_; }
  int64_t hit_tokens() const { return hit_tokens_; }

 private:
  int64_t page_size_;
  int64_t hit_tokens_ = 0;
  absl::flat_hash_set<uint64_t> seen_;
};

uint64_t Chain(uint64_t chain, uint64_t value) {
  return MixBits(chain * 0x9e3779b97f4a7c15u + value + 1);
}

// From segments: a page is the pieces of contents that it covers.
int64_t HitsBySegments(const Trace& trace, int64_t page_size) {
  HitCounter counter(page_size);
  std::vector<uint64_t> chains;
  for (const TraceRequest& request : trace.requests) {
    chains.clear();
    uint64_t chain = 0;
    int64_t page_left = page_size;
    for (const ContentSegment& segment : trace.segments_of(request)) {
      int64_t done = 0;
      while (done < segment.length) {
        const int64_t piece = std::min(page_left, segment.length - done);
        chain = Chain(chain, segment.content_id);
        chain = Chain(chain, static_cast<uint64_t>(segment.offset + done));
        chain = Chain(chain, static_cast<uint64_t>(piece));
        done += piece;
        page_left -= piece;
        if (page_left > 0) continue;
        chains.push_back(chain);
        page_left = page_size;
      }
    }
    counter.AddPrompt(request.prompt_tokens, chains);
  }
  return counter.hit_tokens();
}

// From the tokens that the segments stand for.
int64_t HitsByTokens(const Trace& trace, int64_t page_size) {
  HitCounter counter(page_size);
  std::vector<int32_t> tokens;
  std::vector<uint64_t> chains;
  for (const TraceRequest& request : trace.requests) {
    tokens.resize(static_cast<size_t>(request.prompt_tokens));
    WriteContent(trace.segments_of(request), tokens);
    chains.clear();
    uint64_t chain = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      chain = Chain(chain, static_cast<uint64_t>(tokens[i]));
      if ((static_cast<int64_t>(i) + 1) % page_size == 0) {
        chains.push_back(chain);
      }
    }
    counter.AddPrompt(request.prompt_tokens, chains);
  }
  return counter.hit_tokens();
}

TEST(SharedTracesTest, AzureConversationTraceIsReadWhole) {
  TIDEWHEEL_REQUIRE_SHARED(
      path, "traces/azure-llm-2023/AzureLLMInferenceTrace_conv.csv");
  const auto trace = ReadTrace(path, {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(CheckTrace(*trace), IsOk());
  const Totals totals = TotalsOf(*trace);
  EXPECT_EQ(totals.requests, 19'366u);
  EXPECT_EQ(totals.prompt_tokens, 22'361'870);
  EXPECT_EQ(totals.output_tokens, 4'088'665);
  // 18:15:46.6805900 to 19:14:08.4025270.
  EXPECT_EQ(trace->requests.back().arrival_us, 3'501'721'937);
  EXPECT_EQ(trace->name, "AzureLLMInferenceTrace_conv.csv");
  EXPECT_TRUE(trace->notes.empty());
}

TEST(SharedTracesTest, AzureCodeTraceIsReadWhole) {
  TIDEWHEEL_REQUIRE_SHARED(
      path, "traces/azure-llm-2023/AzureLLMInferenceTrace_code.csv");
  const auto trace = ReadTrace(path, {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(CheckTrace(*trace), IsOk());
  const Totals totals = TotalsOf(*trace);
  EXPECT_EQ(totals.requests, 8'819u);
  EXPECT_EQ(totals.prompt_tokens, 18'059'974);
  EXPECT_EQ(totals.output_tokens, 245'896);
}

TEST(SharedTracesTest, MooncakeConversationTraceHasTheHitsOfAnOwnCount) {
  TIDEWHEEL_REQUIRE_SHARED(path,
                           "traces/mooncake-fast25/conversation_trace.jsonl");
  const auto trace = ReadTrace(path, {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(CheckTrace(*trace), IsOk());
  const Totals totals = TotalsOf(*trace);
  EXPECT_EQ(totals.requests, 12'031u);
  EXPECT_EQ(totals.prompt_tokens, 144'793'823);
  EXPECT_EQ(HitsBySegments(*trace, 512), 54'063'104);
  EXPECT_EQ(HitsBySegments(*trace, 128), 54'089'728);
  EXPECT_EQ(HitsBySegments(*trace, 16), 54'097'440);
  EXPECT_EQ(HitsByTokens(*trace, 512), 54'063'104);
}

TEST(SharedTracesTest, MooncakeSyntheticTraceHasTheHitsOfAnOwnCount) {
  TIDEWHEEL_REQUIRE_SHARED(path,
                           "traces/mooncake-fast25/synthetic_trace.jsonl");
  const auto trace = ReadTrace(path, {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(CheckTrace(*trace), IsOk());
  const Totals totals = TotalsOf(*trace);
  EXPECT_EQ(totals.requests, 3'993u);
  EXPECT_EQ(totals.prompt_tokens, 61'194'628);
  EXPECT_EQ(HitsBySegments(*trace, 512), 39'802'880);
  EXPECT_EQ(HitsBySegments(*trace, 128), 39'839'104);
  EXPECT_EQ(HitsBySegments(*trace, 16), 39'850'800);
  EXPECT_EQ(HitsByTokens(*trace, 128), 39'839'104);
}

TEST(SharedTracesTest, MooncakeTicksSpreadWithinTheirGap) {
  TIDEWHEEL_REQUIRE_SHARED(path,
                           "traces/mooncake-fast25/conversation_trace.jsonl");
  const auto ticks = ReadTrace(path, {});
  const auto spread = ReadTrace(path, {.spread_ticks = true});
  ASSERT_THAT(ticks, IsOk());
  ASSERT_THAT(spread, IsOk());
  EXPECT_THAT(CheckTrace(*spread), IsOk());
  ASSERT_EQ(spread->requests.size(), ticks->requests.size());
  size_t distinct = 1;
  for (size_t i = 0; i < spread->requests.size(); ++i) {
    const TraceRequest& request = spread->requests[i];
    EXPECT_EQ(request.prompt_tokens, ticks->requests[i].prompt_tokens);
    // Ticks are 2,997 to 3,003 ms apart.
    const int64_t shift_us = request.arrival_us - ticks->requests[i].arrival_us;
    ASSERT_GE(shift_us, 0);
    ASSERT_LT(shift_us, 3'003'000);
    if (i > 0 && request.arrival_us > spread->requests[i - 1].arrival_us) {
      ++distinct;
    }
  }
  EXPECT_EQ(distinct, 12'031u);
}

}  // namespace
}  // namespace tidewheel
