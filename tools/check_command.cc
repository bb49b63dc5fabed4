#include "tools/check_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tools/batch_check.h"
#include "tools/limits_against.h"

namespace tidewheel {
namespace {

struct CheckFlags {
  BatchCheckOptions batch;
  std::string against;
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
  command->add_option("--chip", flags->batch.chip, "v4, v5e, v5p, v6e or v7x")
      ->capture_default_str();
  command->add_flag("--json", flags->batch.json, "Print JSON instead of text");
  command->callback([flags, &context] {
    context.exit_code =
        flags->against.empty()
            ? RunBatchCheck(flags->batch, context.out, context.err)
            : RunLimitsAgainst(
                  {.path = flags->against, .json = flags->batch.json},
                  context.out, context.err);
  });
  return command;
}

}  // namespace tidewheel
