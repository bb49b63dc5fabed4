// The models that the tool knows by name.
//
// The few numbers of each that capacity and step times depend on, so that a
// first run needs no file. Anything else comes from a config.json.

#ifndef TIDEWHEEL_TOOLS_BUILTIN_MODELS_H_
#define TIDEWHEEL_TOOLS_BUILTIN_MODELS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "attention/model_shape.h"

namespace tidewheel {

// The model of that name, which may be a short name ("llama-3.1-8b") or a
// Hugging Face id ("meta-llama/Llama-3.1-8B-Instruct"); case does not matter.
std::optional<ModelShape> FindBuiltinModel(absl::string_view name);

// The short names, for errors and help.
std::vector<std::string> BuiltinModelNames();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_BUILTIN_MODELS_H_
