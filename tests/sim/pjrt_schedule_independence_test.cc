// What a request generates does not depend on the schedule, on a PJRT device:
// the worlds of schedule_independence_test with the pjrt backend, and a whole
// transformer on the device, two steps in flight.
//
// Compiling dominates, so the worlds share some fixed shapes; all else is
// drawn. TIDEWHEEL_WORLDS and TIDEWHEEL_FIRST_WORLD are as there.
//
// A device sums in float32, so a token may be second to another by less than
// that rounding can move a logit. Such a token is right within a tolerance that
// is stated for each shape, and counted. With float32 pages rounding moves a
// logit by 1e-5 or so. bfloat16 pages turn a difference in the last bit of a
// key into 1 in 256, wherever it falls across a boundary.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "attention/pjrt/pjrt_backend.h"
#include "attention/pjrt/resident_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/step_pipeline.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/sim/device_transformer_runner.h"
#include "tests/sim/transformer_world.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using KvWrites = TinyTransformerRunner::KvWrites;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  uint64_t value = 0;
  EXPECT_TRUE(absl::SimpleAtoi(text, &value))
      << name << "=" << text << " is not a whole number";
  return value;
}

// What a program is compiled for, and what its rounding may cost.
struct WorldShape {
  int32_t page_size;
  int32_t pages_per_seq;
  int32_t total_num_pages;
  int32_t max_num_seqs;
  int32_t max_num_batched_tokens;
  ScalarType kv_type;
  KvWrites kv_writes;
  double logit_tolerance;
};

constexpr WorldShape kShapes[] = {
    {4, 12, 14, 6, 20, ScalarType::kFloat32, KvWrites::kByBackend, 1e-4},
    {16, 3, 4, 4, 32, ScalarType::kBfloat16, KvWrites::kByBackend, 1e-2},
    {1, 48, 50, 3, 9, ScalarType::kFloat32, KvWrites::kByRunner, 1e-4},
};

// The drawn world of `seed`, in its shape.
WorldSettings SettingsOf(uint64_t seed, const WorldShape& shape) {
  WorldSettings settings = DrawWorldSettings(seed);
  settings.pages.page_size = shape.page_size;
  settings.pages.pages_per_seq = shape.pages_per_seq;
  settings.pages.total_num_pages = shape.total_num_pages;
  settings.pages.max_num_seqs = shape.max_num_seqs;
  SchedulerOptions& scheduler = settings.scheduler;
  scheduler.max_num_seqs = std::min(scheduler.max_num_seqs, shape.max_num_seqs);
  scheduler.max_num_batched_tokens = shape.max_num_batched_tokens;
  scheduler.max_model_len =
      std::min(scheduler.max_model_len, shape.page_size * shape.pages_per_seq);
  scheduler.max_prefill_chunk =
      std::min(scheduler.max_prefill_chunk, shape.max_num_batched_tokens);
  scheduler.watermark_pages =
      std::min(scheduler.watermark_pages, shape.total_num_pages - 1);
  settings.kv_type = shape.kv_type;
  settings.kv_writes = shape.kv_writes;
  settings.logit_tolerance = shape.logit_tolerance;
  return settings;
}

// A backend that many worlds share, with its executables.
class SharedBackend : public AttentionBackend {
 public:
  explicit SharedBackend(PjrtBackend* backend) : backend_(backend) {}
  absl::string_view name() const override { return backend_->name(); }
  absl::Status RaggedPagedAttention(const HeadsView& q,
                                    const KvPagesView& kv_pages,
                                    const RaggedBatch& batch,
                                    const AttentionOptions& options,
                                    const MutableHeadsView& out) override {
    return backend_->RaggedPagedAttention(q, kv_pages, batch, options, out);
  }
  absl::Status WriteKvAndAttend(const HeadsView& q, const HeadsView& k,
                                const HeadsView& v,
                                const MutableKvPagesView& kv_pages,
                                const RaggedBatch& batch,
                                const AttentionOptions& options,
                                const MutableHeadsView& out) override {
    return backend_->WriteKvAndAttend(q, k, v, kv_pages, batch, options, out);
  }

 private:
  PjrtBackend* const backend_;
};

class PjrtScheduleTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(path, GetParam());
    const auto plugin = PjrtPlugin::Load(path);
    ASSERT_THAT(plugin, IsOk());
    const auto client = PjrtClient::Create(*plugin, CpuClientOptions());
    ASSERT_THAT(client, IsOk());
    client_ = *client;
    auto backend = PjrtBackend::Create(client_);
    ASSERT_THAT(backend, IsOk());
    backend_ = *std::move(backend);
  }

  std::shared_ptr<PjrtClient> client_;
  std::unique_ptr<PjrtBackend> backend_;
};

TEST_P(PjrtScheduleTest, EveryTokenIsThatOfPlainFullAttention) {
  constexpr uint64_t kUsualWorlds = 60;
  const uint64_t first = FromEnvironment("TIDEWHEEL_FIRST_WORLD", 0);
  const uint64_t worlds = FromEnvironment("TIDEWHEEL_WORLDS", kUsualWorlds);
  WorldCounts sum;
  for (uint64_t seed = first; seed < first + worlds; ++seed) {
    TransformerWorld world(seed, SettingsOf(seed, kShapes[seed % 3]),
                           std::make_unique<SharedBackend>(backend_.get()));
    ASSERT_THAT(world.Run(), IsOk())
        << "TIDEWHEEL_FIRST_WORLD=" << seed << " TIDEWHEEL_WORLDS=1";
    sum.Add(world.counts());
  }
  std::cout << ToString(sum) << "\n"
            << sum.near_ties << " near ties, "
            << backend_->programs().counts().compiles << " programs\n";
  if (worlds < kUsualWorlds) return;
  EXPECT_LE(sum.near_ties, sum.tokens / 200);
  const int64_t often = sum.worlds / 15;
  EXPECT_GT(sum.worlds_with_preemptions, often);
  EXPECT_GT(sum.worlds_with_hits, often);
  EXPECT_GT(sum.worlds_with_forks, often);
  EXPECT_GT(sum.worlds_with_copies, often);
  EXPECT_GT(sum.worlds_with_failed_steps, often);
  EXPECT_GT(sum.chunks, often);
  EXPECT_GT(sum.completed, 2 * sum.worlds);
}

TEST(TinyTransformerTest, OnlyTheLikeliestTokenLacksNothing) {
  const TinyTransformer model(5, ScalarType::kFloat32);
  std::vector<int32_t> tokens = {3, 1, 4};
  tokens.push_back(model.GreedyNext(tokens).back());
  EXPECT_EQ(model.Shortfalls(tokens)[3], 0.0);
  const int32_t likeliest = tokens[3];
  for (tokens[3] = 0; tokens[3] < TinyTransformer::kVocabulary; ++tokens[3]) {
    if (tokens[3] == likeliest) continue;
    EXPECT_GT(model.Shortfalls(tokens)[3], 0.0) << tokens[3];
  }
}

// The tolerance leaves planted bugs visible.
TEST_P(PjrtScheduleTest, PlantedBugIsFound) {
  constexpr uint64_t kWorlds = 12;
  int32_t found = 0;
  for (uint64_t seed = 0; seed < kWorlds; ++seed) {
    WorldSettings settings = SettingsOf(seed, kShapes[seed % 3]);
    settings.sabotage = WorldSabotage::kForeignPage;
    TransformerWorld world(seed, settings,
                           std::make_unique<SharedBackend>(backend_.get()));
    if (!world.Run().ok()) ++found;
  }
  std::cout << found << " of " << kWorlds << " worlds found it\n";
  EXPECT_GE(found, 2);
}

// ---- A whole transformer on the device ----

constexpr int32_t kPageSize = 4;
constexpr int32_t kPagesPerSeq = 12;
constexpr int32_t kTotalPages = 16;
constexpr int32_t kMaxNumSeqs = 6;
constexpr int32_t kMaxTokens = 16;
// Of float32 in every layer, not only in attention.
constexpr double kLogitTolerance = 1e-4;

ResidentAttentionOptions ResidentOptions() {
  ResidentAttentionOptions options;
  options.num_layers = TinyTransformer::kNumLayers;
  options.num_q_heads = TinyTransformer::kNumQHeads;
  options.num_kv_heads = TinyTransformer::kNumKvHeads;
  options.head_dim = TinyTransformer::kHeadDim;
  options.q_type = options.new_kv_type = options.kv_type = ScalarType::kFloat32;
  options.page_size = kPageSize;
  options.total_num_pages = kTotalPages;
  options.max_num_seqs = kMaxNumSeqs;
  options.pages_per_seq = kPagesPerSeq;
  options.tokens.max_num_batched_tokens = kMaxTokens;
  options.attention.front().sm_scale = TinyTransformer::kSmScale;
  return options;
}

// Requests that come, are cancelled and forked while a StepPipeline runs.
class PipelineWorld {
 public:
  PipelineWorld(uint64_t seed, const TinyTransformer* model,
                DeviceTransformerRunner* runner)
      : settings_(SettingsOf(
            seed,
            {kPageSize, kPagesPerSeq, kTotalPages, kMaxNumSeqs, kMaxTokens,
             ScalarType::kFloat32, KvWrites::kByBackend, kLogitTolerance})),
        draw_(seed ^ 0x70697065u),
        model_(model) {
    settings_.scheduler.max_steps_in_flight = 2;
    // A prompt may be longer than a step.
    settings_.scheduler.chunked_prefill = true;
    auto pages = PageAllocator::Create(settings_.pages);
    EXPECT_THAT(pages, IsOk());
    auto scheduler = Scheduler::Create(settings_.scheduler, *std::move(pages));
    EXPECT_THAT(scheduler, IsOk());
    scheduler_ = *std::move(scheduler);
    pipeline_ = std::make_unique<StepPipeline>(scheduler_.get(), runner);
    common_.resize(40);
    for (int32_t& token : common_) token = AnyToken();
  }

  // Errors: Internal if a request does not end or ends wrongly.
  absl::Status Run() {
    int32_t to_submit = 8;
    for (int32_t turn = 0; to_submit > 0 || !unfinished_.empty(); ++turn) {
      if (turn == 5000) return absl::InternalError("requests do not end");
      if (to_submit > 0 && draw_.OneIn(2)) {
        --to_submit;
        TIDEWHEEL_RETURN_IF_ERROR(Submit());
      }
      if (draw_.OneIn(20)) TIDEWHEEL_RETURN_IF_ERROR(Cancel());
      if (draw_.OneIn(15)) TIDEWHEEL_RETURN_IF_ERROR(Fork());
      pipeline_->Turn(turn);
      TIDEWHEEL_RETURN_IF_ERROR(TakeFinished());
    }
    pipeline_->Flush();
    return absl::OkStatus();
  }

  int64_t tokens() const { return tokens_; }
  int64_t near_ties() const { return near_ties_; }
  int64_t forks() const { return forks_; }
  const SchedulerStats& stats() const { return scheduler_->stats(); }

 private:
  int32_t AnyToken() { return draw_.Below(TinyTransformer::kVocabulary); }

  absl::Status Submit() {
    SubmittedRequest submitted;
    submitted.logit_tolerance = kLogitTolerance;
    const int32_t longest = std::min(settings_.scheduler.max_model_len - 1, 36);
    submitted.prompt.assign(common_.begin(),
                            common_.begin() + draw_.Between(1, longest));
    for (size_t i = static_cast<size_t>(draw_.Below(longest));
         i < submitted.prompt.size(); ++i) {
      submitted.prompt[i] = AnyToken();
    }
    const auto prompt = static_cast<int32_t>(submitted.prompt.size());
    const int32_t room = settings_.scheduler.max_model_len - prompt;
    const int32_t max_new = draw_.Between(1, std::min(room, 25));
    submitted.max_tokens = prompt + max_new;
    submitted.limit_reason = FinishReason::kMaxNewTokens;
    if (draw_.OneIn(2)) submitted.stop_tokens.push_back(AnyToken());
    Request request;
    request.prompt = submitted.prompt;
    request.max_new_tokens = max_new;
    request.stop_tokens = submitted.stop_tokens;
    const auto id = scheduler_->Submit(request, 0);
    if (!id.ok()) return id.status();
    unfinished_.emplace(id->value, std::move(submitted));
    return absl::OkStatus();
  }

  absl::Status Cancel() {
    if (unfinished_.empty() || unfinished_.begin()->second.cancelled) {
      return absl::OkStatus();
    }
    unfinished_.begin()->second.cancelled = true;
    return scheduler_->Cancel({unfinished_.begin()->first});
  }

  absl::Status Fork() {
    pipeline_->Flush();
    TIDEWHEEL_RETURN_IF_ERROR(TakeFinished());
    if (unfinished_.empty() || forks_ == 5) return absl::OkStatus();
    const auto parent = unfinished_.begin();
    const auto id = scheduler_->Fork({parent->first}, 0);
    if (!id.ok()) return id.status();
    ++forks_;
    unfinished_.emplace(id->value, parent->second);
    return absl::OkStatus();
  }

  absl::Status TakeFinished() {
    for (const FinishedRequest& finished : scheduler_->TakeFinished()) {
      const SubmittedRequest submitted = unfinished_.at(finished.id.value);
      const std::span<const int32_t> tokens = scheduler_->Tokens(finished.id);
      TIDEWHEEL_RETURN_IF_ERROR(
          submitted.CheckAnswer(finished, tokens, *model_));
      near_ties_ += submitted.CountNearTies(tokens, *model_);
      tokens_ += finished.generated_tokens;
      unfinished_.erase(finished.id.value);
    }
    return absl::OkStatus();
  }

  WorldSettings settings_;
  Draw draw_;
  const TinyTransformer* model_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<StepPipeline> pipeline_;
  std::vector<int32_t> common_;  // beginnings of prompts
  std::map<uint64_t, SubmittedRequest> unfinished_;
  int64_t tokens_ = 0;
  int64_t near_ties_ = 0;
  int64_t forks_ = 0;
};

TEST_P(PjrtScheduleTest, TransformerOnTheDeviceGivesThoseTokensToo) {
  auto attention = ResidentAttention::Create(client_, ResidentOptions());
  ASSERT_THAT(attention, IsOk());
  auto programs = ProgramCache::Create(client_, {});
  ASSERT_THAT(programs, IsOk());
  auto device = DeviceTransformer::Create(
      programs->get(), {kMaxTokens, kMaxNumSeqs, kPageSize * kPagesPerSeq});
  ASSERT_THAT(device, IsOk());

  int64_t tokens = 0;
  int64_t near_ties = 0;
  int64_t forks = 0;
  int64_t preemptions = 0;
  DeviceTransformerRunner::Counts sum;
  const uint64_t worlds = FromEnvironment("TIDEWHEEL_WORLDS", 40);
  const uint64_t first = FromEnvironment("TIDEWHEEL_FIRST_WORLD", 0);
  for (uint64_t seed = first; seed < first + worlds; ++seed) {
    const TinyTransformer model(seed, ScalarType::kFloat32);
    ASSERT_THAT((*attention)->Reset(), IsOk());
    ASSERT_THAT((*device)->SetModel(model), IsOk());
    DeviceTransformerRunner runner(device->get(), attention->get(), seed,
                                   /*failures=*/seed % 2 == 0 ? 0 : 40);
    ASSERT_THAT(runner.PoisonPages(), IsOk());
    PipelineWorld world(seed, &model, &runner);
    ASSERT_THAT(world.Run(), IsOk())
        << "TIDEWHEEL_FIRST_WORLD=" << seed << " TIDEWHEEL_WORLDS=1";
    EXPECT_EQ((*attention)->steps_in_flight(), 0u);
    tokens += world.tokens();
    near_ties += world.near_ties();
    forks += world.forks();
    preemptions += world.stats().preemptions;
    const DeviceTransformerRunner::Counts& counts = runner.counts();
    sum.launches += counts.launches;
    sum.launches_behind_another += counts.launches_behind_another;
    sum.filled_tokens += counts.filled_tokens;
    sum.failed_launches += counts.failed_launches;
    sum.failed_awaits += counts.failed_awaits;
    sum.dropped += counts.dropped;
  }
  std::cout << worlds << " worlds, " << tokens << " tokens compared, "
            << near_ties << " near ties, " << sum.launches << " launches, "
            << sum.launches_behind_another << " of them behind another, "
            << sum.filled_tokens << " tokens filled in on the device, "
            << sum.failed_launches << " failed at launch, " << sum.failed_awaits
            << " later, " << sum.dropped << " dropped, " << forks << " forks, "
            << preemptions << " preemptions\n";
  if (worlds < 40) return;
  EXPECT_LE(near_ties, tokens / 200);
  EXPECT_GT(sum.launches_behind_another, sum.launches / 3);
  EXPECT_GT(sum.filled_tokens, tokens / 4);
  EXPECT_GT(sum.failed_launches, 10);
  EXPECT_GT(sum.failed_awaits, 10);
  EXPECT_GT(sum.dropped, 5);
  EXPECT_GT(forks, 20);
  EXPECT_GT(preemptions, 5);
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, PjrtScheduleTest,
                         testing::Range(0, kNumCpuPlugins));

}  // namespace
}  // namespace tidewheel
