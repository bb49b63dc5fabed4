// The functions of PJRT that tidewheel calls, and what each is for, so that a
// plugin's gaps can be named before they are met.
//
// A test holds the list against the declarations in attention/pjrt.
//
// Thread-safety: a constant.

#ifndef TIDEWHEEL_TOOLS_PJRT_PLUGIN_FUNCTIONS_H_
#define TIDEWHEEL_TOOLS_PJRT_PLUGIN_FUNCTIONS_H_

#include <span>

#include "absl/strings/string_view.h"
#include "attention/pjrt/pjrt_c_api.h"

namespace tidewheel {

enum class PluginFunctionUse {
  kRun,           // batches can not run without it
  kCompileAhead,  // nor can programs be compiled for a device that is not there
  kExtra          // only the statistics or caches that the name says
};

// "run", "compile ahead", "extra".
absl::string_view PluginFunctionUseName(PluginFunctionUse use);

struct PluginFunction {
  pjrt_abi::Slot slot;
  PluginFunctionUse use = PluginFunctionUse::kRun;
};

std::span<const PluginFunction> PluginFunctions();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_PLUGIN_FUNCTIONS_H_
