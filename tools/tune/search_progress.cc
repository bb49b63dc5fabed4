#include "tools/tune/search_progress.h"

#include <algorithm>

#include "tools/tune/rung_plan.h"

namespace tidewheel {
namespace {

// Loads that a candidate tries on a rung, and runs in the study of one.
constexpr double kLoads = 3.5;
constexpr double kStudyRuns = 55;

}  // namespace

void SearchProgress::Plan(const std::vector<SearchRung>& rungs,
                          int64_t candidates) {
  size_t left = static_cast<size_t>(candidates);
  for (const SearchRung& rung : rungs) {
    later_.push_back(kLoads * static_cast<double>(left) *
                     static_cast<double>(rung.requests * rung.replications));
    left = KeptOf(left);
  }
  later_.push_back(kStudyRuns * static_cast<double>(rungs.back().requests *
                                                    rungs.back().replications));
  std::reverse(later_.begin(), later_.end());
}

void SearchProgress::Begin(int64_t tasks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  stage_start_ = evaluator_.simulated_requests();
  stage_guess_ = later_.empty() ? 0 : later_.back();
  if (!later_.empty()) later_.pop_back();
  tasks_ = tasks;
  ended_ = 0;
}

void SearchProgress::EndTask() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++ended_;
  if (!options_.on_progress) return;
  const int64_t done = evaluator_.simulated_requests();
  // The guess counts as so many tasks, lest the first ones alone decide.
  constexpr double kGuessTasks = 5;
  const double tasks = static_cast<double>(tasks_);
  const double ended = static_cast<double>(ended_);
  const double used = static_cast<double>(done - stage_start_);
  const double weight = ended_ == tasks_ ? 0 : kGuessTasks;
  const double stage =
      (used + weight * stage_guess_ / tasks) / (ended + weight) * tasks;
  double total = static_cast<double>(stage_start_) + std::max(stage, used);
  for (const double later : later_) total += later;
  options_.on_progress({.ended_requests = done,
                        .total_requests = static_cast<int64_t>(total),
                        .now_us = 0});
}

}  // namespace tidewheel
