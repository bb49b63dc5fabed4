#include "tests/tools/simulated_world.h"

#include <utility>

#include "allocator/check.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/traces/content_ids.h"

namespace tidewheel {
namespace {

std::unique_ptr<Scheduler> MakeScheduler(const WorldOptions& options) {
  PageAllocator::Options pages;
  pages.total_num_pages = options.usable_pages + 1;
  pages.page_size = options.page_size;
  pages.max_num_seqs = options.scheduler.max_num_seqs;
  pages.pages_per_seq =
      (options.scheduler.max_model_len + options.page_size - 1) /
      options.page_size;
  pages.enable_prefix_cache = options.prefix_cache;
  pages.hash_seed = options.hash_seed;
  absl::StatusOr<std::unique_ptr<PageAllocator>> allocator =
      PageAllocator::Create(pages);
  TIDEWHEEL_CHECK(allocator.ok());
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
      Scheduler::Create(options.scheduler, *std::move(allocator));
  TIDEWHEEL_CHECK(scheduler.ok());
  return *std::move(scheduler);
}

void AddRequest(const RequestSketch& sketch, Trace& trace) {
  const uint64_t index = trace.requests.size();
  TraceRequest request;
  request.arrival_us = sketch.arrival_us;
  request.prompt_tokens = sketch.prompt_tokens;
  request.output_tokens = sketch.output_tokens;
  request.output_content_id = ContentId(ContentSpace::kOutput, index);
  request.after_request = sketch.after_request;
  request.first_segment = static_cast<uint32_t>(trace.segments.size());
  request.num_segments = 1;
  trace.segments.push_back(
      {ContentId(ContentSpace::kPrompt, index), 0, sketch.prompt_tokens});
  trace.requests.push_back(request);
}

}  // namespace

TpuCostModel TinyCostModel() {
  ModelShape::Options shape;
  shape.name = "tiny";
  shape.num_layers = 4;
  shape.hidden_size = 512;
  shape.num_heads = 4;
  shape.num_kv_heads = 4;
  shape.head_dim = 128;
  shape.vocab_size = 32000;
  shape.max_position_embeddings = 4096;
  shape.intermediate_size = 1024;
  const absl::StatusOr<ModelShape> model = ModelShape::Create(shape);
  TIDEWHEEL_CHECK(model.ok());
  const absl::StatusOr<TpuCostModel> cost =
      TpuCostModel::Create(*model, *FindTpuChip("v6e"), {});
  TIDEWHEEL_CHECK(cost.ok());
  return *cost;
}

SimulatedWorld::SimulatedWorld(const WorldOptions& options)
    : scheduler(MakeScheduler(options)),
      runner(TinyCostModel(), options.scheduler.max_num_seqs) {}

SimulationResult SimulatedWorld::Run(const Trace& trace,
                                     const SimulationOptions& options) {
  absl::StatusOr<SimulationResult> result =
      RunSimulation(trace, options, *scheduler, runner);
  EXPECT_THAT(result, IsOk());
  return result.ok() ? *std::move(result) : SimulationResult();
}

SimulationResult RunInWorld(const WorldOptions& world, const Trace& trace,
                            const SimulationOptions& options) {
  return SimulatedWorld(world).Run(trace, options);
}

Trace TraceOf(std::initializer_list<RequestSketch> requests) {
  Trace trace;
  trace.name = "sketch";
  for (const RequestSketch& request : requests) AddRequest(request, trace);
  return trace;
}

Trace EqualRequests(int32_t count, const RequestSketch& request,
                    int64_t gap_us) {
  Trace trace;
  trace.name = "equal";
  for (int32_t i = 0; i < count; ++i) {
    RequestSketch sketch = request;
    sketch.arrival_us = i * gap_us;
    AddRequest(sketch, trace);
  }
  return trace;
}

}  // namespace tidewheel
