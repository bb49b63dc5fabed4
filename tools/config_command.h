// ConfigCommand: the flags of `tidewheel check --model`, a configuration by
// model and chip.
//
// It reads flags and a model into a ConfigurationShape; config_check decides
// and config_report prints.
//
// Thread-safety: one command line at a time.

#ifndef TIDEWHEEL_TOOLS_CONFIG_COMMAND_H_
#define TIDEWHEEL_TOOLS_CONFIG_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/command_context.h"
#include "tools/config_check.h"

namespace CLI {
class App;
}

namespace tidewheel {

// As given; texts are read when the command runs.
struct ConfigFlags {
  std::string model;
  std::string chip = "v6e";
  std::string kv_dtype = "auto";
  std::string vmem_limit;
  std::optional<int32_t> max_model_len;  // absent: the model's
  bool json = false;
  // The flags that are numbers, read in place.
  ConfigurationShape shape;
};

// Adds the flags that only this check has; --model, --chip and --json are the
// check command's.
void AddConfigFlags(CLI::App& command, ConfigFlags& flags);

// Errors: InvalidArgument that names the flag, its value and the remedy; those
// of LoadModelConfig.
absl::StatusOr<ConfigurationShape> ReadConfiguration(const ConfigFlags& flags);

// Returns 0 if the configuration holds, 1 if not, kExitBadInput where a flag
// or the model can not be read.
int RunConfigCommand(const ConfigFlags& flags, CommandContext& context);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_CONFIG_COMMAND_H_
