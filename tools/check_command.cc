#include "tools/check_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "tools/batch_check.h"
#include "tools/config_command.h"
#include "tools/limits_against.h"
#include "tools/tpu_compile_command.h"

namespace tidewheel {
namespace {

struct CheckFlags {
  BatchCheckOptions batch;
  std::string against;
  ConfigFlags config;
  TpuCompileFlags tpu_compile;
};

// Returns the exit code.
int CompileForTpu(const CheckFlags& flags, bool has_chip,
                  CommandContext& context) {
  TpuCompileOptions options = {.flags = flags.tpu_compile,
                               .json = flags.batch.json};
  absl::Status status;
  if (has_chip) {
    const absl::StatusOr<TpuGeneration> chip =
        ParseTpuGeneration(flags.batch.chip);
    if (chip.ok()) options.chip = *chip;
    status.Update(chip.status());
  }
  if (status.ok() && !flags.config.model.empty()) {
    const absl::StatusOr<ConfigurationShape> shape =
        ReadConfiguration(flags.config);
    if (shape.ok()) options.configuration = *shape;
    status.Update(shape.status());
  }
  if (status.ok()) return RunTpuCompile(options, context.out, context.err);
  std::fprintf(context.err, "tidewheel check: %s\n",
               std::string(status.message()).c_str());
  return kExitBadInput;
}

}  // namespace

CLI::App* AddCheckCommand(CLI::App& parent, CommandContext& context) {
  CLI::App* command = parent.add_subcommand(
      "check", "Check a batch against the rules of the kernel and of a TPU");
  auto flags = std::make_shared<CheckFlags>();
  CLI::Option_group* what = command->add_option_group("what to check");
  // Two: --kernels beside --model or --shapes.
  what->require_option(1, 2);
  CLI::Option* const batch =
      what->add_option("--batch", flags->batch.path,
                       "JSON file of one call: arrays and options");
  CLI::Option* const against = what->add_option(
      "--against", flags->against, "CSV file of compiler verdicts to predict");
  CLI::Option* const model = what->add_option(
      "--model", flags->config.model,
      "Built-in name, Hugging Face config.json, or its folder: "
      "check a configuration for it");
  AddTpuCompileFlags(*command, *what, flags->tpu_compile);
  AddConfigFlags(*command, flags->config);
  CLI::Option* const chip =
      command
          ->add_option("--chip", flags->batch.chip, "v4, v5e, v5p, v6e or v7x")
          ->capture_default_str();
  command->add_flag("--json", flags->batch.json, "Print JSON instead of text");
  CLI::Option* const compile = command->get_option("--tpu-compile");
  batch->excludes(against, model, compile);
  against->excludes(model, compile);
  model->excludes(what->get_option("--shapes"));
  command->callback([flags, chip, &context] {
    flags->config.chip = flags->batch.chip;
    flags->config.json = flags->batch.json;
    if (flags->tpu_compile.tpu_compile) {
      context.exit_code = CompileForTpu(*flags, chip->count() > 0, context);
    } else if (!flags->config.model.empty()) {
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
