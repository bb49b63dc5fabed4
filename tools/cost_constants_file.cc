#include "tools/cost_constants_file.h"

#include <simdjson.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tidewheel {
namespace {

absl::Status Refuse(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

}  // namespace

absl::StatusOr<TpuCostConstants> ReadCostConstants(absl::string_view path) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::error_code error = parser.load(std::string(path)).get(root);
  if (error == simdjson::IO_ERROR) {
    return absl::NotFoundError(absl::StrCat(
        path, ": can not be read; give a JSON file of cost constants"));
  }
  simdjson::dom::object object;
  if (error != simdjson::SUCCESS) {
    return Refuse(path, absl::StrCat("not readable as JSON: ",
                                     simdjson::error_message(error)));
  }
  if (root.get(object) != simdjson::SUCCESS) {
    return Refuse(path, "must be an object of cost constants and their values");
  }
  TpuCostConstants constants;
  std::vector<std::string_view> seen;
  for (const simdjson::dom::key_value_pair field : object) {
    const absl::string_view key(field.key.data(), field.key.size());
    if (std::find(seen.begin(), seen.end(), field.key) != seen.end()) {
      return Refuse(path, absl::StrCat("cost constant \"", key,
                                       "\" appears twice; remove one"));
    }
    seen.push_back(field.key);
    double value = 0;
    if (!field.value.is_number() ||
        field.value.get(value) != simdjson::SUCCESS) {
      return Refuse(
          path, absl::StrCat("cost constant \"", key, "\" must be a number"));
    }
    const absl::Status status = SetTpuCostConstant(constants, key, value);
    if (!status.ok()) return Refuse(path, status.message());
  }
  return constants;
}

}  // namespace tidewheel
