#include "tools/serving_setup.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "tools/byte_size.h"
#include "tools/cost_constants_file.h"

namespace tidewheel {
namespace {

// The plan for exactly these options. A pool that was asked for by its number
// of pages is laid out even where the chip has no room for it: that is how
// people study pools.
absl::StatusOr<ServerPlan> PlanWithPages(const ModelShape& model,
                                         const ServerPlanOptions& options,
                                         std::vector<std::string>& notes) {
  absl::StatusOr<ServerPlan> plan = PlanServer(model, options);
  if (!options.total_num_pages.has_value() ||
      plan.status().code() != absl::StatusCode::kResourceExhausted) {
    return plan;
  }
  ServerPlanOptions without_limit = options;
  without_limit.hbm_bytes = int64_t{1} << 50;  // the most that can be said
  plan = PlanServer(model, without_limit);
  if (!plan.ok()) return plan;
  plan->capacity.hbm_bytes =
      options.hbm_bytes.value_or(options.chip.hbm_bytes) / options.chip.devices;
  notes.push_back(absl::StrCat(
      "no such chip: the ", *options.total_num_pages, " pages asked for need ",
      FormatByteSize(plan->capacity.kv_bytes), " beside weights of ",
      FormatByteSize(plan->capacity.weight_bytes), " on a device of ",
      FormatByteSize(plan->capacity.hbm_bytes),
      "; simulated as if they were there"));
  return plan;
}

// Where max_model_len was not asked for, it is lowered to what the pool holds;
// the table is then smaller, and with it perhaps the page size.
absl::StatusOr<ServerPlan> PlanLongestModelLen(
    const ModelShape& model, const ServerPlanOptions& options,
    std::vector<std::string>& notes) {
  TIDEWHEEL_ASSIGN_OR_RETURN(ServerPlan plan,
                             PlanWithPages(model, options, notes));
  if (options.max_model_len.has_value() ||
      plan.longest_request_tokens >= plan.max_model_len) {
    return plan;
  }
  const int32_t own = plan.max_model_len;
  ServerPlanOptions lowered = options;
  lowered.max_model_len = plan.longest_request_tokens;
  TIDEWHEEL_ASSIGN_OR_RETURN(plan, PlanServer(model, lowered));
  // Smaller pages leave another remainder, to either side.
  const bool is_chosen = plan.page_size_is_chosen;
  lowered.page_size = plan.page_size;
  lowered.max_model_len =
      static_cast<int32_t>(std::min<int64_t>(own, plan.capacity.usable_tokens));
  absl::StatusOr<ServerPlan> exact = PlanServer(model, lowered);
  if (exact.ok()) plan = *std::move(exact);
  plan.page_size_is_chosen = is_chosen;
  notes.push_back(absl::StrCat(
      "max_model_len is lowered from the model's ", own, " to ",
      plan.max_model_len,
      ", the tokens that the whole pool holds; set --max-model-len to choose"));
  return plan;
}

absl::StatusOr<SchedulerOptions> MakeSchedulerOptions(
    const ServingOptions& options, const ServerPlan& plan,
    std::vector<std::string>& notes) {
  SchedulerOptions scheduler = options.scheduler;
  scheduler.max_num_seqs = plan.max_num_seqs;
  scheduler.max_model_len = plan.max_model_len;
  scheduler.max_num_batched_tokens = plan.max_num_batched_tokens;
  if (!(options.watermark >= 0 && options.watermark < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "watermark ", options.watermark,
        " is outside [0, 1); give the fraction of usable pages that admission "
        "leaves for sequences that grow"));
  }
  scheduler.watermark_pages =
      static_cast<int32_t>(options.watermark * plan.capacity.usable_num_pages);
  if (scheduler.max_prefill_chunk > scheduler.max_num_batched_tokens) {
    notes.push_back(absl::StrCat(
        "max_prefill_chunk ", scheduler.max_prefill_chunk,
        " is above max_num_batched_tokens ", scheduler.max_num_batched_tokens,
        " and has no effect; lower the one or raise the other"));
    scheduler.max_prefill_chunk = 0;
  }
  if (scheduler.max_prefill_chunk > 0 &&
      scheduler.max_prefill_chunk < plan.page_size) {
    notes.push_back(absl::StrCat("max_prefill_chunk ",
                                 scheduler.max_prefill_chunk,
                                 " is below the page size ", plan.page_size,
                                 ": a page takes several steps to fill"));
  }
  return scheduler;
}

PageAllocator::Options MakeAllocatorOptions(const ServingOptions& options,
                                            const ServerPlan& plan) {
  PageAllocator::Options allocator;
  allocator.total_num_pages = plan.capacity.total_num_pages;
  allocator.page_size = plan.page_size;
  allocator.max_num_seqs = plan.max_num_seqs;
  allocator.pages_per_seq = plan.pages_per_seq;
  allocator.enable_prefix_cache = options.prefix_cache;
  allocator.smem_bytes = options.plan.smem_bytes;
  return allocator;
}

}  // namespace

absl::string_view OrderingPolicyName(OrderingPolicy policy) {
  switch (policy) {
    case OrderingPolicy::kFcfs:
      return "fcfs";
    case OrderingPolicy::kPriority:
      return "priority";
  }
  TIDEWHEEL_CHECK(false);
}

absl::string_view AdmissionPolicyName(AdmissionPolicy policy) {
  switch (policy) {
    case AdmissionPolicy::kReserve:
      return "reserve";
    case AdmissionPolicy::kOptimistic:
      return "optimistic";
  }
  TIDEWHEEL_CHECK(false);
}

absl::StatusOr<OrderingPolicy> ParseOrderingPolicy(absl::string_view name) {
  if (name == "fcfs") return OrderingPolicy::kFcfs;
  if (name == "priority") return OrderingPolicy::kPriority;
  return absl::InvalidArgumentError(absl::StrCat(
      "policy \"", name, "\" is unknown; choose fcfs or priority"));
}

absl::StatusOr<AdmissionPolicy> ParseAdmissionPolicy(absl::string_view name) {
  if (name == "reserve") return AdmissionPolicy::kReserve;
  if (name == "optimistic") return AdmissionPolicy::kOptimistic;
  return absl::InvalidArgumentError(absl::StrCat(
      "admission \"", name, "\" is unknown; choose reserve or optimistic"));
}

absl::StatusOr<std::unique_ptr<Scheduler>> ServingSetup::MakeScheduler() const {
  TIDEWHEEL_ASSIGN_OR_RETURN(std::unique_ptr<PageAllocator> pages,
                             PageAllocator::Create(allocator));
  return Scheduler::Create(scheduler, std::move(pages));
}

absl::StatusOr<ServingSetup> PrepareServing(const ServingOptions& options) {
  std::vector<std::string> notes;
  ServerPlanOptions plan_options = options.plan;
  TIDEWHEEL_ASSIGN_OR_RETURN(plan_options.chip, FindTpuChip(options.chip));
  TIDEWHEEL_ASSIGN_OR_RETURN(ModelConfig model, LoadModelConfig(options.model));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      ServerPlan plan, PlanLongestModelLen(model.shape, plan_options, notes));
  TIDEWHEEL_ASSIGN_OR_RETURN(SchedulerOptions scheduler,
                             MakeSchedulerOptions(options, plan, notes));
  const PageAllocator::Options allocator = MakeAllocatorOptions(options, plan);
  TpuCostModel::Options cost;
  cost.chips = plan_options.chips;
  cost.kv_dtype = plan_options.kv_dtype;
  cost.max_num_batched_tokens = plan.max_num_batched_tokens;
  if (!options.cost_constants_file.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(cost.constants,
                               ReadCostConstants(options.cost_constants_file));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      TpuCostModel cost_model,
      TpuCostModel::Create(model.shape, plan_options.chip, cost));
  const auto add_notes = [&notes](const std::vector<std::string>& more) {
    notes.insert(notes.end(), more.begin(), more.end());
  };
  add_notes(model.notes);
  add_notes(plan.notes);
  add_notes(cost_model.notes());
  return ServingSetup{std::move(model), plan_options, std::move(plan),
                      allocator,        scheduler,    std::move(cost_model),
                      std::move(notes)};
}

}  // namespace tidewheel
