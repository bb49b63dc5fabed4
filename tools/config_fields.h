// ConfigFields: the keys of a Hugging Face config.json, typed and checked.
//
// It answers "what is this key" with a value in its range or an error that
// names the file and the key. It knows JSON and where multimodal
// configurations keep the language model (text_config and its like, looked up
// first, then the file's top level); it does not know what a key means.
//
// A key that is null counts as absent, as the library that writes these files
// treats it. A key that appears twice is refused: readers disagree on which
// one counts.
//
// Thread-safety: const methods may be called from one thread at a time.

#ifndef TIDEWHEEL_TOOLS_CONFIG_FIELDS_H_
#define TIDEWHEEL_TOOLS_CONFIG_FIELDS_H_

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

class ConfigFields {
 public:
  // `source` is the file's name for errors.
  //
  // Errors: InvalidArgument where the text is not a JSON object, nests too
  // deep, or repeats a key.
  static absl::StatusOr<ConfigFields> Parse(absl::string_view json,
                                            absl::string_view source);

  const std::string& source() const { return source_; }

  // True if the key is there and not null.
  bool Has(absl::string_view key) const { return Find(key).has_value(); }
  // True if the file's top level has the key, whatever the nested part has.
  bool TopLevelHas(absl::string_view key) const;

  // The integer of `key` in [min, max].
  //
  // Errors: InvalidArgument with file and key where it is absent, no integer,
  // or out of range.
  absl::StatusOr<int32_t> Int(absl::string_view key, int32_t min,
                              int32_t max) const;
  // The same; `fallback` where the key is absent.
  absl::StatusOr<int32_t> IntOr(absl::string_view key, int32_t min, int32_t max,
                                int32_t fallback) const;
  absl::StatusOr<bool> BoolOr(absl::string_view key, bool fallback) const;
  absl::StatusOr<std::string> StringOr(absl::string_view key,
                                       absl::string_view fallback) const;
  // Empty where the key is absent.
  absl::StatusOr<std::vector<std::string>> Strings(absl::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> Ints(absl::string_view key) const;

  // The value, for what has no simple type.
  std::optional<simdjson::dom::element> Find(absl::string_view key) const;

  // InvalidArgument: "FILE: KEY WHAT".
  absl::Status Error(absl::string_view key, absl::string_view what) const;

 private:
  ConfigFields() = default;

  // Owns the memory that the elements point into.
  std::unique_ptr<simdjson::dom::parser> parser_;
  std::string source_;
  simdjson::dom::object top_;
  std::optional<simdjson::dom::object> nested_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_CONFIG_FIELDS_H_
