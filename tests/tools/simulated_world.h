// A small server and small workloads, for tests of simulations.
//
// The model is tiny and the pool is given in usable pages, so that a test can
// say exactly what fits. Step times are those of the real cost model.

#ifndef TIDEWHEEL_TESTS_TOOLS_SIMULATED_WORLD_H_
#define TIDEWHEEL_TESTS_TOOLS_SIMULATED_WORLD_H_

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "scheduler/scheduler.h"
#include "scheduler/simulated_runner.h"
#include "tools/simulation.h"
#include "tools/traces/trace.h"

namespace tidewheel {

struct WorldOptions {
  int32_t page_size = 16;
  int32_t usable_pages = 1000;
  bool prefix_cache = true;
  uint64_t hash_seed = 0;
  SchedulerOptions scheduler = {
      .max_num_seqs = 8,
      .max_model_len = 4096,
      .max_num_batched_tokens = 256,
  };
};

struct SimulatedWorld {
  explicit SimulatedWorld(const WorldOptions& options);

  // The trace through this world, once. Fails the test on an error.
  SimulationResult Run(const Trace& trace, const SimulationOptions& options);

  std::unique_ptr<Scheduler> scheduler;
  SimulatedRunner runner;
};

// A fresh world for each run.
SimulationResult RunInWorld(const WorldOptions& world, const Trace& trace,
                            const SimulationOptions& options);

TpuCostModel TinyCostModel();

struct RequestSketch {
  int64_t arrival_us = 0;
  int32_t prompt_tokens = 1;
  int32_t output_tokens = 1;
  int32_t after_request = -1;
};

// Prompts that share nothing.
Trace TraceOf(std::initializer_list<RequestSketch> requests);
// `count` equal requests, `gap_us` apart.
Trace EqualRequests(int32_t count, const RequestSketch& request,
                    int64_t gap_us);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_SIMULATED_WORLD_H_
