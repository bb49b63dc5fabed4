#include "tools/check_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tools/batch_check.h"
#include "tools/config_command.h"
#include "tools/limits_against.h"

namespace tidewheel {
namespace {

struct CheckFlags {
  BatchCheckOptions batch;
  std::string against;
  ConfigFlags config;
};

}  // namespace

CLI::App* AddCheckCommand(CLI::App& parent, CommandContext& context) {
  CLI::App* command = parent.add_subcommand(
      "check", "Check a batch against the rules of the kernel and of a TPU");
  auto flags = std::make_shared<CheckFlags>();
  CLI::Option_group* what = command->add_option_group("what to check");
  what->require_option(1);
  what->add_option("--batch", flags->batch.path,
                   "JSON file of one call: arrays and options");
  what->add_option("--against", flags->against,
                   "CSV file of compiler verdicts to predict");
  what->add_option("--model", flags->config.model,
                   "Built-in name, Hugging Face config.json, or its folder: "
                   "check a configuration for it");
  AddConfigFlags(*command, flags->config);
  command->add_option("--chip", flags->batch.chip, "v4, v5e, v5p, v6e or v7x")
      ->capture_default_str();
  command->add_flag("--json", flags->batch.json, "Print JSON instead of text");
  command->callback([flags, &context] {
    if (!flags->config.model.empty()) {
      flags->config.chip = flags->batch.chip;
      flags->config.json = flags->batch.json;
      context.exit_code = RunConfigCommand(flags->config, context);
    } else if (!flags->against.empty()) {
      context.exit_code =
          RunLimitsAgainst({.path = flags->against, .json = flags->batch.json},
                           context.out, context.err);
    } else {
      context.exit_code = RunBatchCheck(flags->batch, context.out, context.err);
    }
  });
  return command;
}

}  // namespace tidewheel
