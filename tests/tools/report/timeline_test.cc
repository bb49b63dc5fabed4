#include "tools/report/timeline.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/tools/simulated_world.h"

namespace tidewheel {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Step {
  int64_t start_us = 0;
  std::map<std::string, int64_t> counters;
};

struct TimelineRun {
  SimulationResult result;
  std::vector<Step> steps;
  int64_t end_us = 0;
  std::string text;
  json events;

  // Slices or instants of a request, by time.
  std::vector<json> EventsOf(int32_t request, absl::string_view phase) const {
    std::vector<json> found;
    for (const json& event : events) {
      if (event["ph"] == std::string(phase) &&
          event["pid"] == Timeline::kRequestProcess &&
          event["tid"] == Timeline::ThreadOf(request)) {
        found.push_back(event);
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const json& a, const json& b) {
                       return a["ts"].get<int64_t>() < b["ts"].get<int64_t>();
                     });
    return found;
  }
  std::vector<json> SlicesOf(int32_t request) const {
    return EventsOf(request, "X");
  }
};

TimelineRun RunTimeline(const WorldOptions& options, const Trace& trace,
                        const TimelineRequests& requests = {}) {
  TimelineRun run;
  SimulatedWorld world(options);
  const TemporaryFolder folder;
  const std::string path = folder.File("timeline.json");
  absl::StatusOr<OutputFile> file = OutputFile::Open(path);
  EXPECT_THAT(file, IsOk());
  Timeline timeline(trace, requests, *world.scheduler, *file);
  SimulationOptions simulation;
  simulation.on_request = [&](const RequestEvent& e) { timeline.OnRequest(e); };
  simulation.on_idle = [&](const IdleRecord& e) { timeline.OnIdle(e); };
  simulation.on_step = [&](const StepRecord& step) {
    run.steps.push_back(
        {step.start_us,
         {{"pages running", step.pages.lent_pages},
          {"pages cached", step.pages.cached_pages},
          {"pages free", step.pages.free_pages},
          {"requests running", step.num_running},
          {"requests waiting", step.num_waiting},
          {"budget used_tokens", step.plan.batch.total_q_tokens()}}});
    timeline.OnStep(step);
  };
  run.result = world.Run(trace, simulation);
  run.end_us = world.runner.now_us();
  timeline.Finish(run.end_us);
  EXPECT_THAT(file->Close(), IsOk());
  std::ifstream in(path, std::ios::binary);
  run.text = {std::istreambuf_iterator<char>(in), {}};
  run.events = json::parse(run.text)["traceEvents"];
  return run;
}

// Worlds in which requests lack different things.
std::vector<WorldOptions> TightWorlds() {
  WorldOptions few_pages;
  few_pages.usable_pages = 40;
  few_pages.scheduler.max_model_len = 512;
  WorldOptions few_rows;
  few_rows.scheduler.max_num_seqs = 2;
  WorldOptions few_tokens;
  few_tokens.scheduler.max_num_batched_tokens = 40;
  WorldOptions reserving = few_pages;
  reserving.scheduler.admission = AdmissionPolicy::kReserve;
  return {WorldOptions(), few_pages, few_rows, few_tokens, reserving};
}

Trace Burst() { return EqualRequests(24, {0, 100, 60}, 150); }

TEST(TimelineTest, SlicesOfARequestFillItsLifeWithoutGapsOrOverlaps) {
  const std::set<std::string> categories = {"queued", "prefill", "decode",
                                            "preempted"};
  for (const WorldOptions& world : TightWorlds()) {
    const TimelineRun run = RunTimeline(world, Burst());
    for (int32_t i = 0; i < 24; ++i) {
      const RequestRecord& record = run.result.requests[i];
      int64_t now_us = record.sent_us;
      for (const json& slice : run.SlicesOf(i)) {
        EXPECT_EQ(slice["ts"], now_us) << "request " << i << slice.dump();
        EXPECT_GT(slice["dur"], 0);
        EXPECT_THAT(categories, Contains(slice["cat"].get<std::string>()));
        now_us += slice["dur"].get<int64_t>();
      }
      EXPECT_EQ(now_us, record.ended_us) << "request " << i;
    }
  }
}

TEST(TimelineTest, SlicesCountTheTokensAndPreemptionsOfARequest) {
  int64_t preemptions = 0;
  for (const WorldOptions& world : TightWorlds()) {
    const TimelineRun run = RunTimeline(world, Burst());
    for (int32_t i = 0; i < 24; ++i) {
      const RequestRecord& record = run.result.requests[i];
      int64_t queued_us = 0;
      int64_t generated = 0;
      int64_t computed = 0;
      int64_t cached = -1;
      int64_t episodes = 0;
      std::string before;
      for (const json& slice : run.SlicesOf(i)) {
        const std::string category = slice["cat"];
        if (category == "queued") queued_us += slice["dur"].get<int64_t>();
        if (category == "preempted" && before != "preempted") ++episodes;
        // The last chunk of a prefill samples a token.
        if (before == "prefill" && category != "prefill") ++generated;
        if (category == "decode") {
          generated += slice["args"].value("tokens", 0);
        }
        if (category == "prefill" && episodes == 0) {
          computed += slice["args"].value("tokens", 0);
          if (cached < 0) cached = slice["args"].value("cached_tokens", -1);
        }
        before = category;
      }
      if (before == "prefill") ++generated;
      EXPECT_EQ(queued_us, record.admitted_us - record.sent_us);
      EXPECT_EQ(generated, record.generated_tokens) << "request " << i;
      EXPECT_EQ(episodes, record.preemptions) << "request " << i;
      EXPECT_EQ(cached, record.cached_tokens);
      if (episodes == 0) {
        EXPECT_EQ(computed + cached, record.prompt_tokens);
      }
      preemptions += record.preemptions;
    }
  }
  EXPECT_GT(preemptions, 0) << "no world preempts: nothing was tested";
}

TEST(TimelineTest, CountersHoldTheValuesOfEachStep) {
  for (const WorldOptions& world : TightWorlds()) {
    const TimelineRun run = RunTimeline(world, Burst());
    std::map<std::string, std::map<int64_t, int64_t>> counters;
    for (const json& event : run.events) {
      if (event["ph"] != "C") continue;
      for (const auto& [name, value] : event["args"].items()) {
        counters[absl::StrCat(event["name"].get<std::string>(), " ", name)]
                [event["ts"].get<int64_t>()] = value;
      }
    }
    ASSERT_GT(run.steps.size(), 60u);
    for (const Step& step : run.steps) {
      for (const auto& [name, value] : step.counters) {
        const auto after = counters[name].upper_bound(step.start_us);
        ASSERT_NE(after, counters[name].begin()) << name;
        EXPECT_EQ(std::prev(after)->second, value)
            << name << " at " << step.start_us;
      }
    }
    // Nothing is left running on the last line.
    EXPECT_EQ(counters["requests running"].rbegin()->first, run.end_us);
    EXPECT_EQ(counters["requests running"].rbegin()->second, 0);
    EXPECT_EQ(counters["pages running"].rbegin()->second, 0);
  }
}

TEST(TimelineTest, CountersFallToZeroWhileNothingRuns) {
  const TimelineRun run =
      RunTimeline({}, TraceOf({{0, 50, 5}, {9'000'000, 50, 5}}));
  const int64_t idle_us = run.result.requests[0].ended_us;
  bool found = false;
  for (const json& event : run.events) {
    if (event["ph"] != "C" || event["ts"] != idle_us) continue;
    if (event["name"] == "requests") {
      EXPECT_EQ(event["args"]["running"], 0);
      found = true;
    }
    if (event["name"] == "budget") {
      EXPECT_EQ(event["args"]["used_tokens"], 0);
    }
  }
  EXPECT_TRUE(found);
}

std::set<std::string> NamesOf(const TimelineRun& run) {
  std::set<std::string> names;
  for (const json& event : run.events) names.insert(event["name"]);
  return names;
}

TEST(TimelineTest, AQueuedSliceNamesWhatTheRequestLacks) {
  WorldOptions one_row;
  one_row.scheduler.max_num_seqs = 1;
  const Trace three = EqualRequests(3, {0, 100, 20}, 0);
  const TimelineRun rows = RunTimeline(one_row, three);
  EXPECT_EQ(rows.SlicesOf(1)[0]["name"], "queued: rows");
  const json behind = rows.SlicesOf(2)[0];
  EXPECT_EQ(behind["name"], "queued: policy (first lacks rows)");
  EXPECT_EQ(behind["args"]["first_in_queue"], 1);
  EXPECT_EQ(behind["args"]["requests_waiting"], 2);

  WorldOptions ten_pages;
  ten_pages.usable_pages = 10;
  ten_pages.scheduler.max_model_len = 160;
  const TimelineRun pages = RunTimeline(ten_pages, three);
  const json lacks = pages.SlicesOf(1)[0];
  EXPECT_EQ(lacks["name"], "queued: pages");
  EXPECT_EQ(lacks["args"]["needed"], 7);
  EXPECT_EQ(lacks["args"]["available"], 3);

  WorldOptions one_chunk;
  one_chunk.scheduler.max_num_batched_tokens = 100;
  const TimelineRun tokens = RunTimeline(one_chunk, three);
  EXPECT_EQ(tokens.SlicesOf(1)[0]["name"], "queued: tokens");
}

TEST(TimelineTest, AReasonThatChangesSplitsTheSlice) {
  // Request 1 lacks pages while 0 runs. When 2 has passed it, rows too.
  WorldOptions world;
  world.usable_pages = 10;
  world.scheduler.max_model_len = 160;
  world.scheduler.max_num_seqs = 2;
  const TimelineRun run =
      RunTimeline(world, TraceOf({{0, 100, 30}, {0, 100, 10}, {1000, 10, 3}}));
  std::vector<std::string> names;
  for (const json& slice : run.SlicesOf(1)) {
    if (slice["cat"] == "queued") names.push_back(slice["name"]);
  }
  EXPECT_THAT(names, testing::ElementsAre("queued: pages", "queued: rows",
                                          "queued: pages"));
}

TEST(TimelineTest, AnArrivalWithinAStepWaitsForTheNextPlan) {
  const TimelineRun run = RunTimeline({}, TraceOf({{0, 200, 9}, {1, 10, 2}}));
  const json first = run.SlicesOf(1)[0];
  EXPECT_EQ(first["name"], "queued: next plan");
  EXPECT_EQ(first["ts"], 1);
}

TEST(TimelineTest, OnlyChosenRequestsHaveTracks) {
  const absl::StatusOr<TimelineRequests> chosen =
      TimelineRequests::Parse("3,20-21");
  ASSERT_THAT(chosen, IsOk());
  const TimelineRun run = RunTimeline(TightWorlds()[1], Burst(), *chosen);
  std::set<int64_t> threads;
  for (const json& event : run.events) {
    if (event["pid"] == Timeline::kRequestProcess && event["ph"] == "X") {
      threads.insert(event["tid"].get<int64_t>());
    }
  }
  EXPECT_THAT(threads, testing::ElementsAre(4, 21, 22));
  const std::string about = json::parse(run.text)["otherData"].dump();
  EXPECT_THAT(about, HasSubstr("\"requests_shown\":3"));
}

TEST(TimelineTest, ARefusedRequestSaysWhy) {
  WorldOptions world;
  world.scheduler.max_model_len = 100;
  const TimelineRun run =
      RunTimeline(world, TraceOf({{0, 50, 5}, {10, 200, 5}}));
  EXPECT_THAT(run.SlicesOf(1), IsEmpty());
  const std::vector<json> instants = run.EventsOf(1, "i");
  ASSERT_EQ(instants.size(), 1u);
  EXPECT_THAT(instants[0]["name"].get<std::string>(), HasSubstr("refused: "));
}

TEST(TimelineTest, ATraceNameOfAnyBytesStaysJson) {
  Trace trace = TraceOf({{0, 50, 5}});
  trace.name = "a\"\\\n\x01\xff\u2028</script>";
  const TimelineRun run = RunTimeline({}, trace);  // it parses what it wrote
  EXPECT_EQ(NamesOf(run).count("decode"), 1u);
}

TEST(TimelineTest, TheSameRunWritesTheSameBytes) {
  const WorldOptions world = TightWorlds()[1];
  EXPECT_EQ(RunTimeline(world, Burst()).text, RunTimeline(world, Burst()).text);
}

TEST(TimelineRequestsTest, ANumberIsACountAndACommaMakesAList) {
  const auto count = [](absl::string_view text, int64_t total) {
    const absl::StatusOr<TimelineRequests> requests =
        TimelineRequests::Parse(text);
    EXPECT_THAT(requests, IsOk()) << text;
    return requests.ok() ? requests->CountOf(total) : -1;
  };
  EXPECT_EQ(count("all", 5000), 5000);
  EXPECT_EQ(count("17", 5000), 17);
  EXPECT_EQ(count("17,", 5000), 1);
  EXPECT_EQ(count("5-9,7-12,30", 5000), 9);
  EXPECT_EQ(count("5-9,7-12,30", 8), 3);
  EXPECT_EQ(count("17,", 17), 0);
  EXPECT_EQ(TimelineRequests().CountOf(5000), 1000);
  const absl::StatusOr<TimelineRequests> list =
      TimelineRequests::Parse("5-9,7-12,30");
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(list->Contains(i), (i >= 5 && i <= 12) || i == 30) << i;
  }
}

TEST(TimelineRequestsTest, BadTextNamesThePartAndTheRemedy) {
  for (const char* text : {"", "0", "-3", "x", "3,y", "9-5,", "1-2-3,", ","}) {
    EXPECT_THAT(TimelineRequests::Parse(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("give all, a positive number")))
        << text;
  }
}

}  // namespace
}  // namespace tidewheel
