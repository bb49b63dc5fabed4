#include "tools/config_fields.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// Where multimodal configurations keep the language model.
constexpr absl::string_view kNestedKeys[] = {"text_config", "llm_config",
                                             "language_config"};

std::string_view Std(absl::string_view text) {
  return {text.data(), text.size()};
}
absl::string_view Absl(std::string_view text) {
  return {text.data(), text.size()};
}

absl::Status RefuseRepeatedKeys(object value, absl::string_view where) {
  std::vector<std::string_view> keys;
  for (const simdjson::dom::key_value_pair field : value) {
    keys.push_back(field.key);
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": key \"", Absl(*twice),
                   "\" appears twice; remove the one that does not count"));
}

std::optional<element> FindIn(object value, absl::string_view key) {
  element found;
  if (value.at_key(Std(key)).get(found) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  if (found.is_null()) return std::nullopt;
  return found;
}

// What an element is, for "must be an integer, not ...".
std::string Describe(element value) {
  std::string text = simdjson::minify(value);
  constexpr size_t kMaxShown = 40;
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

}  // namespace

absl::StatusOr<ConfigFields> ConfigFields::Parse(absl::string_view json,
                                                 absl::string_view source) {
  ConfigFields fields;
  fields.source_ = std::string(source);
  fields.parser_ = std::make_unique<simdjson::dom::parser>();
  // A UTF-8 byte-order mark is no part of JSON, but editors write it.
  if (json.substr(0, 3) == "\xEF\xBB\xBF") json.remove_prefix(3);
  element root;
  const simdjson::error_code error =
      fields.parser_->parse(json.data(), json.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": not readable as JSON: ", simdjson::error_message(error),
        "; give a model's config.json"));
  }
  if (root.get(fields.top_) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": the file is ", Describe(root),
                     ", not a JSON object; give a model's config.json"));
  }
  TIDEWHEEL_RETURN_IF_ERROR(RefuseRepeatedKeys(fields.top_, source));
  for (absl::string_view key : kNestedKeys) {
    const std::optional<element> nested = FindIn(fields.top_, key);
    if (!nested.has_value()) continue;
    object value;
    if (nested->get(value) != simdjson::SUCCESS) {
      return fields.Error(
          key, absl::StrCat("must be an object, not ", Describe(*nested)));
    }
    TIDEWHEEL_RETURN_IF_ERROR(
        RefuseRepeatedKeys(value, absl::StrCat(source, ": ", key)));
    fields.nested_ = value;
    break;
  }
  return fields;
}

std::optional<element> ConfigFields::Find(absl::string_view key) const {
  if (nested_.has_value()) {
    if (const auto found = FindIn(*nested_, key)) return found;
  }
  return FindIn(top_, key);
}

bool ConfigFields::TopLevelHas(absl::string_view key) const {
  return FindIn(top_, key).has_value();
}

absl::Status ConfigFields::Error(absl::string_view key,
                                 absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(source_, ": ", key, " ", what));
}

absl::StatusOr<int32_t> ConfigFields::Int(absl::string_view key, int32_t min,
                                          int32_t max) const {
  const std::optional<element> found = Find(key);
  if (!found.has_value()) {
    return Error(key, "is missing; a model's config.json has it");
  }
  int64_t value = 0;
  if (found->get(value) != simdjson::SUCCESS || value < min || value > max) {
    return Error(key, absl::StrCat("must be an integer in [", min, ", ", max,
                                   "], not ", Describe(*found)));
  }
  return static_cast<int32_t>(value);
}

absl::StatusOr<int32_t> ConfigFields::IntOr(absl::string_view key, int32_t min,
                                            int32_t max,
                                            int32_t fallback) const {
  if (!Has(key)) return fallback;
  return Int(key, min, max);
}

absl::StatusOr<bool> ConfigFields::BoolOr(absl::string_view key,
                                          bool fallback) const {
  const std::optional<element> found = Find(key);
  if (!found.has_value()) return fallback;
  bool value = false;
  if (found->get(value) != simdjson::SUCCESS) {
    return Error(key,
                 absl::StrCat("must be true or false, not ", Describe(*found)));
  }
  return value;
}

absl::StatusOr<std::string> ConfigFields::StringOr(
    absl::string_view key, absl::string_view fallback) const {
  const std::optional<element> found = Find(key);
  if (!found.has_value()) return std::string(fallback);
  std::string_view value;
  if (found->get(value) != simdjson::SUCCESS) {
    return Error(key, absl::StrCat("must be text, not ", Describe(*found)));
  }
  return std::string(value);
}

absl::StatusOr<std::vector<std::string>> ConfigFields::Strings(
    absl::string_view key) const {
  std::vector<std::string> values;
  const std::optional<element> found = Find(key);
  if (!found.has_value()) return values;
  array items;
  if (found->get(items) != simdjson::SUCCESS) {
    return Error(key, absl::StrCat("must be a list, not ", Describe(*found)));
  }
  for (const element item : items) {
    std::string_view value;
    if (item.get(value) != simdjson::SUCCESS) {
      return Error(key, absl::StrCat("must be a list of texts; it holds ",
                                     Describe(item)));
    }
    values.emplace_back(value);
  }
  return values;
}

absl::StatusOr<std::vector<int64_t>> ConfigFields::Ints(
    absl::string_view key) const {
  std::vector<int64_t> values;
  const std::optional<element> found = Find(key);
  if (!found.has_value()) return values;
  array items;
  if (found->get(items) != simdjson::SUCCESS) {
    return Error(key, absl::StrCat("must be a list, not ", Describe(*found)));
  }
  for (const element item : items) {
    int64_t value = 0;
    if (item.get(value) != simdjson::SUCCESS) {
      return Error(key, absl::StrCat("must be a list of integers; it holds ",
                                     Describe(item)));
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace tidewheel
