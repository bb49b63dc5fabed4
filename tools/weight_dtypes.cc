#include "tools/weight_dtypes.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

absl::Status Unknown(const ConfigFields& fields, absl::string_view key,
                     absl::string_view value, absl::string_view known) {
  return absl::UnimplementedError(
      absl::StrCat(fields.source(), ": ", key, " \"", value,
                   "\" is not a way of storing weights that can be counted; "
                   "known are ",
                   known));
}

absl::StatusOr<WeightDtype> ReadDtype(const ConfigFields& fields,
                                      std::vector<std::string>& notes) {
  const absl::string_view key = fields.Has("dtype") ? "dtype" : "torch_dtype";
  if (!fields.Has(key)) {
    notes.push_back("no dtype in the configuration: counted as bf16");
    return WeightDtype::kBf16;
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::string name, fields.StringOr(key, ""));
  if (name == "bfloat16") return WeightDtype::kBf16;
  if (name == "float16") {
    notes.push_back("float16 weights are counted as bf16, of the same size");
    return WeightDtype::kBf16;
  }
  if (name == "float32") return WeightDtype::kF32;
  return Unknown(fields, key, name, "bfloat16, float16, float32");
}

// The text of `key` in `value`, or empty.
std::string Text(object value, std::string_view key) {
  std::string_view text;
  if (value.at_key(key).get(text) != simdjson::SUCCESS) return "";
  return absl::AsciiStrToLower(absl::string_view(text.data(), text.size()));
}

// compressed-tensors says in its groups what a weight is.
absl::StatusOr<WeightDtype> ReadCompressedTensors(const ConfigFields& fields,
                                                  object config) {
  constexpr absl::string_view kKnown = "8-bit float and 8-bit int groups";
  constexpr absl::string_view kKey = "quantization_config.config_groups";
  object groups;
  if (config.at_key("config_groups").get(groups) != simdjson::SUCCESS ||
      groups.size() != 1) {
    return Unknown(fields, kKey, "none, or several", kKnown);
  }
  const element group = (*groups.begin()).value;
  int64_t bits = 0;
  std::string_view type;
  if (group["weights"]["num_bits"].get(bits) != simdjson::SUCCESS ||
      group["weights"]["type"].get(type) != simdjson::SUCCESS) {
    return Unknown(fields, kKey, "without num_bits and type", kKnown);
  }
  if (bits == 8 && type == "float") return WeightDtype::kFp8;
  if (bits == 8 && type == "int") return WeightDtype::kInt8;
  return Unknown(
      fields, kKey,
      absl::StrCat(bits, "-bit ", absl::string_view(type.data(), type.size())),
      kKnown);
}

absl::StatusOr<WeightDtype> ReadMethod(const ConfigFields& fields,
                                       object config) {
  const std::string method = Text(config, "quant_method");
  if (method == "fp8" || method == "fbgemm_fp8") return WeightDtype::kFp8;
  if (method == "mxfp4") return WeightDtype::kMxfp4;
  if (method == "compressed-tensors") {
    return ReadCompressedTensors(fields, config);
  }
  if (method == "modelopt" && Text(config, "quant_algo") == "fp8") {
    return WeightDtype::kFp8;
  }
  return Unknown(fields, "quantization_config.quant_method", method,
                 "fp8, fbgemm_fp8, mxfp4, compressed-tensors with 8 bits, "
                 "modelopt with FP8");
}

// Modules that stay as they were, under the names that methods give the list.
std::vector<std::string> ReadExclusions(object config) {
  std::vector<std::string> modules;
  for (std::string_view key : {"modules_to_not_convert", "ignored_layers",
                               "ignore", "exclude_modules"}) {
    simdjson::dom::array items;
    if (config.at_key(key).get(items) != simdjson::SUCCESS) continue;
    for (const element item : items) {
      std::string_view name;
      if (item.get(name) == simdjson::SUCCESS) modules.emplace_back(name);
    }
  }
  return modules;
}

// Embeddings, logits, norms and routers are never counted as quantised, so
// their exclusion says nothing new.
bool IsNeverQuantised(absl::string_view module) {
  for (absl::string_view part : {"lm_head", "embed", "norm", "router", "gate",
                                 "visual", "vision", "multi_modal"}) {
    if (absl::StrContains(module, part) &&
        !absl::StrContains(module, "gate_proj") &&
        !absl::StrContains(module, "gate_up")) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::Status ReadWeightDtypes(const ConfigFields& fields,
                              ModelShape::Options& model,
                              std::vector<std::string>& notes) {
  TIDEWHEEL_ASSIGN_OR_RETURN(model.dtype, ReadDtype(fields, notes));
  model.attention_dtype = model.dtype;
  model.ffn_dtype = model.dtype;
  const auto found = fields.Find("quantization_config");
  if (!found.has_value()) return absl::OkStatus();
  object config;
  if (found->get(config) != simdjson::SUCCESS) {
    return fields.Error("quantization_config", "must be an object");
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const WeightDtype quantised,
                             ReadMethod(fields, config));
  model.attention_dtype = quantised;
  model.ffn_dtype = quantised;
  int64_t single_modules = 0;
  for (const std::string& module : ReadExclusions(config)) {
    if (IsNeverQuantised(module)) continue;
    const bool one_layer =
        std::any_of(module.begin(), module.end(), absl::ascii_isdigit);
    if (!one_layer && absl::StrContains(module, "self_attn")) {
      model.attention_dtype = model.dtype;
    } else {
      ++single_modules;
    }
  }
  notes.push_back(absl::StrCat(
      "weights are ", WeightDtypeName(quantised), " in feed-forward",
      model.attention_dtype == quantised ? " and attention layers"
                                         : " layers only",
      ", ", WeightDtypeName(model.dtype), " elsewhere"));
  if (single_modules > 0) {
    notes.push_back(absl::StrCat(
        single_modules,
        " modules that quantization_config excepts by name are counted as "
        "quantised: weight bytes are a lower bound"));
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
