#include "tools/plan_command.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/byte_size.h"
#include "tools/model_config.h"
#include "tools/plan_report.h"
#include "tools/server_plan.h"

namespace tidewheel {
namespace {

// The flags as given; texts are read when the command runs, so that their
// errors are ours.
struct PlanFlags {
  std::string model;
  std::string chip = "v6e";
  std::string hbm;
  std::string reserve;
  std::string kv_dtype = "auto";
  std::optional<int32_t> max_model_len;
  std::optional<int32_t> page_size;
  std::optional<int64_t> num_pages;
  ServerPlanOptions options;
  bool json = false;
};

// The bytes of the flag called `name`; nothing where it was not given.
absl::StatusOr<std::optional<int64_t>> ReadBytes(absl::string_view name,
                                                 const std::string& text) {
  if (text.empty()) return std::optional<int64_t>();
  const absl::StatusOr<int64_t> bytes = ParseByteSize(text);
  if (bytes.ok()) return std::optional<int64_t>(*bytes);
  return absl::InvalidArgumentError(
      absl::StrCat(name, " ", bytes.status().message()));
}

absl::StatusOr<std::string> MakePlan(PlanFlags flags) {
  ServerPlanOptions& options = flags.options;
  TIDEWHEEL_ASSIGN_OR_RETURN(options.chip, FindTpuChip(flags.chip));
  TIDEWHEEL_ASSIGN_OR_RETURN(options.hbm_bytes, ReadBytes("--hbm", flags.hbm));
  TIDEWHEEL_ASSIGN_OR_RETURN(options.reserve_bytes,
                             ReadBytes("--reserve", flags.reserve));
  if (flags.kv_dtype != "auto") {
    TIDEWHEEL_ASSIGN_OR_RETURN(options.kv_dtype, ParseKvDtype(flags.kv_dtype));
  }
  options.max_model_len = flags.max_model_len;
  options.page_size = flags.page_size;
  options.total_num_pages = flags.num_pages;
  TIDEWHEEL_ASSIGN_OR_RETURN(const ModelConfig model,
                             LoadModelConfig(flags.model));
  TIDEWHEEL_ASSIGN_OR_RETURN(const ServerPlan plan,
                             PlanServer(model.shape, options));
  return flags.json ? PlanAsJson(model, options, plan)
                    : PlanAsText(model, options, plan);
}

void AddFlags(CLI::App& command, PlanFlags& flags) {
  ServerPlanOptions& options = flags.options;
  command
      .add_option("--model", flags.model,
                  "Built-in name, Hugging Face config.json, or its folder")
      ->required();
  command.add_option("--chip", flags.chip, "v4, v5e, v5p, v6e or v7x")
      ->capture_default_str();
  command
      .add_option("--chips", options.chips,
                  "Chips that share one copy of the model")
      ->capture_default_str();
  command.add_option("--hbm", flags.hbm,
                     "HBM of a chip, with unit (default: the chip's)");
  command
      .add_option("--hbm-utilization", options.hbm_utilization,
                  "Fraction of a chip's whole HBM to use, in (0, 1]")
      ->capture_default_str();
  command.add_option("--reserve", flags.reserve,
                     "Memory to keep free on a device, with unit (default: an "
                     "estimate of the activations)");
  command
      .add_option("--kv-dtype", flags.kv_dtype,
                  "auto (bf16), f32, bf16, fp8_e4m3, fp8_e5m2 or int8")
      ->capture_default_str();
  command.add_option("--page-size", flags.page_size,
                     "Tokens of a page (default: the smallest power of two "
                     "from 16 whose page table fits scalar memory)");
  command.add_option("--num-pages", flags.num_pages,
                     "Pages, the null page included (default: all that fit)");
  command
      .add_option("--max-num-seqs", options.max_num_seqs,
                  "Rows of the page table")
      ->capture_default_str();
  command.add_option("--max-model-len", flags.max_model_len,
                     "Tokens of the longest request (default: the model's "
                     "max_position_embeddings)");
  command
      .add_option("--max-num-batched-tokens", options.max_num_batched_tokens,
                  "Tokens of the largest step")
      ->capture_default_str();
  command.add_flag("--json", flags.json, "Print JSON instead of text");
}

}  // namespace

CLI::App* AddPlanCommand(CLI::App& parent, CommandContext& context) {
  CLI::App* command = parent.add_subcommand(
      "plan", "Show what fits: from HBM and weights to pages, rows and tokens");
  auto flags = std::make_shared<PlanFlags>();
  AddFlags(*command, *flags);
  command->callback([flags, &context] {
    const absl::StatusOr<std::string> plan = MakePlan(*flags);
    if (plan.ok()) {
      std::fputs(plan->c_str(), context.out);
      return;
    }
    const std::string message(plan.status().message());
    std::fprintf(context.err, "tidewheel plan: %s\n", message.c_str());
    context.exit_code = kExitBadInput;
  });
  return command;
}

}  // namespace tidewheel
