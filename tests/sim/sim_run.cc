// sim_run: simulations of as many seeds as one has time for.
//
//   sim_run [--seeds N] [--first K] [--steps S]
//
// Runs seeds K, K + 1, ...: N of them, or until S steps were committed. Prints
// what happened so far after each million steps and at the end, with the hash
// of all plans, which is the same on every machine. Ends with 1 at the first
// seed that breaks an invariant.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "tests/sim/simulation.h"

namespace tidewheel {
namespace {

struct Flags {
  int64_t seeds = std::numeric_limits<int64_t>::max();
  int64_t first = 0;
  int64_t steps = std::numeric_limits<int64_t>::max();
};

// False where a flag is unknown or has no number.
bool ParseFlags(int argc, char** argv, Flags& flags) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) return false;
    char* end = nullptr;
    const int64_t value = std::strtoll(argv[i + 1], &end, 10);
    if (*argv[i + 1] == '\0' || *end != '\0' || value < 0) return false;
    if (name == "--seeds") {
      flags.seeds = value;
    } else if (name == "--first") {
      flags.first = value;
    } else if (name == "--steps") {
      flags.steps = value;
    } else {
      return false;
    }
  }
  return argc > 1;
}

struct Totals {
  int64_t seeds = 0;
  SchedulerStats stats;
  PlanHash hash;

  void Add(const Simulation& simulation) {
    const SchedulerStats& more = simulation.stats();
    ++seeds;
    stats.steps += more.steps;
    stats.failed_steps += more.failed_steps;
    stats.preemptions += more.preemptions;
    stats.accepted += more.accepted;
    stats.refused += more.refused;
    stats.generated_tokens += more.generated_tokens;
    stats.prefix_cache_hits += more.prefix_cache_hits;
    hash.Add(simulation.hash());
  }

  void Print() const {
    std::printf("seeds %" PRId64 ", steps %" PRId64 ", failed steps %" PRId64
                ", preemptions %" PRId64 ", requests %" PRId64
                ", refused %" PRId64 ", generated tokens %" PRId64
                ", tokens found %" PRId64 ", hash %016" PRIx64 "\n",
                seeds, stats.steps, stats.failed_steps, stats.preemptions,
                stats.accepted, stats.refused, stats.generated_tokens,
                stats.prefix_cache_hits, hash.value());
    std::fflush(stdout);
  }
};

int Run(const Flags& flags) {
  constexpr int64_t kStepsBetweenPrints = 1'000'000;
  Totals totals;
  int64_t next_print = kStepsBetweenPrints;
  while (totals.seeds < flags.seeds && totals.stats.steps < flags.steps) {
    const uint64_t seed = static_cast<uint64_t>(flags.first + totals.seeds);
    Simulation simulation(seed, DrawSettings(seed));
    const absl::Status status = simulation.Run();
    if (!status.ok()) {
      std::printf("seed %" PRIu64 ": %s\n", seed, status.ToString().c_str());
      return 1;
    }
    totals.Add(simulation);
    if (totals.stats.steps >= next_print) {
      totals.Print();
      next_print += kStepsBetweenPrints;
    }
  }
  totals.Print();
  return 0;
}

}  // namespace
}  // namespace tidewheel

int main(int argc, char** argv) {
  tidewheel::Flags flags;
  if (!tidewheel::ParseFlags(argc, argv, flags)) {
    std::fprintf(stderr,
                 "usage: sim_run [--seeds N] [--first K] [--steps S]; give at "
                 "least one, each with a number\n");
    return 2;
  }
  return tidewheel::Run(flags);
}
