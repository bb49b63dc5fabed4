// From what a user names to a ModelShape: a built-in name or a Hugging Face
// config.json.
//
// A configuration is read strictly. What can be counted is counted exactly,
// what can only be over-counted is so with a note, and what can not be counted
// is refused by the key that says so. It reads no weights.

#ifndef TIDEWHEEL_TOOLS_MODEL_CONFIG_H_
#define TIDEWHEEL_TOOLS_MODEL_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/model_shape.h"

namespace tidewheel {

struct ModelConfig {
  ModelShape shape;
  // What was assumed, over-counted or left out, a sentence each.
  std::vector<std::string> notes;
};

// The model that `name` stands for: a file, a folder with a config.json, a
// built-in name or its Hugging Face id, in this order.
//
// Errors: NotFound that lists the built-in names; those of ParseModelConfig.
absl::StatusOr<ModelConfig> LoadModelConfig(absl::string_view name);

// The model of a config.json with text `json`; `source` is its name in errors
// and the model's name.
//
// Errors: InvalidArgument with file and key where the text is not JSON or a
// key is missing, of a wrong type or out of range; Unimplemented with file and
// key where the model can not be counted.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json,
                                             absl::string_view source);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_MODEL_CONFIG_H_
