#include "tools/tune/space_file.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/status_macros.h"
#include "tools/json_place.h"

namespace tidewheel {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxFileBytes = 1 << 20;
constexpr int64_t kMostSteps = 1000;
constexpr double kMostRows = 1 << 16;
constexpr double kMostTokens = 1 << 24;
constexpr double kMostPages = std::numeric_limits<int32_t>::max();

constexpr const char* kKnobs =
    "chips, page_size, total_num_pages, hbm_utilization, max_num_seqs, "
    "max_num_batched_tokens, admission, watermark_pages, watermark, policy";

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::string_view View(std::string_view text) {
  return {text.data(), text.size()};
}

std::string Described(dom::element value) {
  switch (value.type()) {
    case dom::element_type::ARRAY:
      return "a list";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return absl::StrCat("\"", View(std::string_view(value)), "\"");
    case dom::element_type::BOOL:
      return bool(value) ? "true" : "false";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return simdjson::minify(value);
  }
}

struct Range {
  double min = 0;
  double max = 0;
  bool is_whole = true;
  bool includes_min = true;
  bool includes_max = true;
};

std::string RangeText(const Range& range) {
  // Not StrCat, which gives six digits of a double.
  const auto number = [&range](double limit) {
    return range.is_whole ? absl::StrFormat("%.0f", limit)
                          : absl::StrCat(limit);
  };
  return absl::StrCat(range.is_whole ? "a whole number in " : "a number in ",
                      range.includes_min ? "[" : "(", number(range.min), ", ",
                      number(range.max), range.includes_max ? "]" : ")");
}

absl::StatusOr<double> ReadNumber(dom::element value, const std::string& place,
                                  const Range& range) {
  double number = 0;
  if (!value.is_number() || value.get(number) != simdjson::SUCCESS) {
    return Invalid(place, " is ", Described(value), "; give ",
                   RangeText(range));
  }
  const bool is_low =
      range.includes_min ? number < range.min : number <= range.min;
  const bool is_high =
      range.includes_max ? number > range.max : number >= range.max;
  if (is_low || is_high || (range.is_whole && number != std::floor(number))) {
    return Invalid(place, " is ", Described(value), "; give ",
                   RangeText(range));
  }
  return number;
}

// {"min": 32, "max": 256, "steps": 4, "scale": "log"} as its numbers.
class RangeReader {
 public:
  RangeReader(const std::string& place, const Range& range)
      : place_(place), range_(range) {}

  absl::StatusOr<std::vector<double>> Read(dom::object object) {
    std::set<std::string_view> seen;
    for (const dom::key_value_pair field : object) {
      const std::string at = absl::StrCat(place_, ".", View(field.key));
      if (!seen.insert(field.key).second) {
        return Invalid(at, " appears twice; remove one");
      }
      TIDEWHEEL_RETURN_IF_ERROR(ReadField(field, at));
    }
    for (const char* needed : {"min", "max", "steps"}) {
      if (seen.count(needed) == 0) {
        return Invalid(place_, " lacks \"", needed,
                       "\"; a range has min, max and steps");
      }
    }
    return Expand();
  }

 private:
  absl::Status ReadField(const dom::key_value_pair& field,
                         const std::string& at) {
    if (field.key == "min") {
      TIDEWHEEL_ASSIGN_OR_RETURN(min_, ReadNumber(field.value, at, range_));
    } else if (field.key == "max") {
      TIDEWHEEL_ASSIGN_OR_RETURN(max_, ReadNumber(field.value, at, range_));
    } else if (field.key == "steps") {
      const Range steps = {.min = 1, .max = kMostSteps};
      TIDEWHEEL_ASSIGN_OR_RETURN(steps_, ReadNumber(field.value, at, steps));
    } else if (field.key == "scale") {
      std::string_view scale;
      if (field.value.get(scale) != simdjson::SUCCESS ||
          (scale != "linear" && scale != "log")) {
        return Invalid(at, " is ", Described(field.value),
                       "; give \"linear\" or \"log\"");
      }
      is_log_ = scale == "log";
    } else {
      return Invalid(at,
                     " is no part of a range; use min, max, steps and "
                     "scale");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<double>> Expand() const {
    if (min_ > max_) {
      return Invalid(place_, ".min ", min_, " is above .max ", max_,
                     "; exchange them");
    }
    if (steps_ == 1 && min_ != max_) {
      return Invalid(place_, ".steps is 1, but min ", min_, " and max ", max_,
                     " are two values; give at least 2 steps");
    }
    if (is_log_ && min_ <= 0) {
      return Invalid(place_, ".min is ", min_,
                     ", which no ratio leads away from; use the linear scale "
                     "or start above 0");
    }
    std::vector<double> values;
    for (int i = 0; i < static_cast<int>(steps_); ++i) {
      const double t = steps_ > 1 ? i / (steps_ - 1) : 0;
      double value =
          is_log_ ? min_ * std::pow(max_ / min_, t) : min_ + t * (max_ - min_);
      if (range_.is_whole) value = std::round(value);
      if (!values.empty() && value == values.back()) {
        return Invalid(place_, ".steps ", steps_,
                       " are more than the values "
                       "between ",
                       min_, " and ", max_, "; give fewer");
      }
      values.push_back(std::min(value, max_));
    }
    return values;
  }

  const std::string& place_;
  const Range& range_;
  double min_ = 0;
  double max_ = 0;
  double steps_ = 0;
  bool is_log_ = false;
};

// The elements of a list, or the value alone, each with its place.
absl::StatusOr<std::vector<std::pair<dom::element, std::string>>> Elements(
    dom::element value, const std::string& place) {
  std::vector<std::pair<dom::element, std::string>> elements;
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS) {
    elements.emplace_back(value, place);
    return elements;
  }
  for (const dom::element element : list) {
    elements.emplace_back(element,
                          absl::StrCat(place, "[", elements.size(), "]"));
  }
  if (elements.empty()) {
    return Invalid(place,
                   " is an empty list; give at least one value, or "
                   "leave the knob out to keep the server's");
  }
  return elements;
}

template <typename T>
absl::Status AddValue(T value, const std::string& place,
                      std::vector<T>& values) {
  if (std::find(values.begin(), values.end(), value) != values.end()) {
    return Invalid(place, " repeats a value of the list; remove one");
  }
  values.push_back(value);
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadNumbers(dom::element value, const std::string& place,
                         const Range& range, std::vector<T>& values) {
  dom::object object;
  if (value.get(object) == simdjson::SUCCESS) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const std::vector<double> numbers,
                               RangeReader(place, range).Read(object));
    for (const double number : numbers) {
      values.push_back(static_cast<T>(number));
    }
    return absl::OkStatus();
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const auto elements, Elements(value, place));
  for (const auto& [element, at] : elements) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const double number,
                               ReadNumber(element, at, range));
    TIDEWHEEL_RETURN_IF_ERROR(AddValue(static_cast<T>(number), at, values));
  }
  return absl::OkStatus();
}

template <typename T, typename Parser>
absl::Status ReadNames(dom::element value, const std::string& place,
                       const Parser& parse, std::vector<T>& values) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const auto elements, Elements(value, place));
  for (const auto& [element, at] : elements) {
    std::string_view name;
    if (element.get(name) != simdjson::SUCCESS) {
      return Invalid(at, " is ", Described(element), "; give a name");
    }
    const absl::StatusOr<T> parsed = parse(View(name));
    if (!parsed.ok()) return Invalid(at, ": ", parsed.status().message());
    TIDEWHEEL_RETURN_IF_ERROR(AddValue(*parsed, at, values));
  }
  return absl::OkStatus();
}

absl::Status ReadKnob(std::string_view key, dom::element value,
                      const std::string& place, SearchSpace& space) {
  const Range rows = {.min = 1, .max = kMostRows};
  const Range tokens = {.min = 1, .max = kMostTokens};
  const Range pages = {.min = 2, .max = kMostPages};
  if (key == "chips") {
    return ReadNumbers(value, place, rows, space.chips);
  }
  if (key == "page_size") {
    return ReadNumbers(value, place, tokens, space.page_size);
  }
  if (key == "total_num_pages") {
    return ReadNumbers(value, place, pages, space.total_num_pages);
  }
  if (key == "hbm_utilization") {
    const Range range = {
        .min = 0, .max = 1, .is_whole = false, .includes_min = false};
    return ReadNumbers(value, place, range, space.hbm_utilization);
  }
  if (key == "max_num_seqs") {
    return ReadNumbers(value, place, rows, space.max_num_seqs);
  }
  if (key == "max_num_batched_tokens") {
    return ReadNumbers(value, place, tokens, space.max_num_batched_tokens);
  }
  if (key == "admission") {
    return ReadNames(value, place, ParseAdmissionPolicy, space.admission);
  }
  if (key == "watermark_pages") {
    const Range range = {.min = 0, .max = kMostPages};
    return ReadNumbers(value, place, range, space.watermark_pages);
  }
  if (key == "watermark") {
    const Range range = {
        .min = 0, .max = 1, .is_whole = false, .includes_max = false};
    return ReadNumbers(value, place, range, space.watermark);
  }
  if (key == "policy") {
    return ReadNames(value, place, ParseOrderingPolicy, space.policy);
  }
  return Invalid(place, " is no knob; use ", kKnobs);
}

absl::Status CheckContradictions(const SearchSpace& space,
                                 absl::string_view name) {
  if (!space.total_num_pages.empty() && !space.hbm_utilization.empty()) {
    return Invalid(name,
                   ": total_num_pages and hbm_utilization both say how "
                   "many pages there are; keep one");
  }
  if (!space.watermark_pages.empty() && !space.watermark.empty()) {
    return Invalid(name,
                   ": watermark_pages and watermark are the same knob "
                   "in pages and as a fraction; keep one");
  }
  const bool has_watermark =
      !space.watermark_pages.empty() || !space.watermark.empty();
  const bool only_reserves = space.admission == std::vector<AdmissionPolicy>{
                                                    AdmissionPolicy::kReserve};
  if (has_watermark && only_reserves) {
    return Invalid(name,
                   ": a watermark has no effect where admission is "
                   "\"reserve\" alone; add \"optimistic\" or remove it");
  }
  if (!space.max_num_seqs.empty() && !space.max_num_batched_tokens.empty()) {
    const int32_t rows =
        *std::min_element(space.max_num_seqs.begin(), space.max_num_seqs.end());
    const int32_t tokens =
        *std::max_element(space.max_num_batched_tokens.begin(),
                          space.max_num_batched_tokens.end());
    if (tokens < rows) {
      return Invalid(name, ": max_num_batched_tokens is at most ", tokens,
                     " and max_num_seqs at least ", rows,
                     ", so that no step can decode every sequence; raise the "
                     "one or lower the other");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SearchSpace> ParseSpace(absl::string_view json,
                                       absl::string_view name) {
  dom::parser parser(kMaxFileBytes);
  dom::element root;
  simdjson::error_code error = parser.allocate(json.size(), kMaxDepth);
  if (error == simdjson::SUCCESS) {
    error = parser.parse(simdjson::padded_string(json.data(), json.size()))
                .get(root);
  }
  if (error != simdjson::SUCCESS) {
    return Invalid(
        name, ": ",
        LocateJsonError(json, kMaxDepth, simdjson::error_message(error)));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return Invalid(name, " is ", Described(root),
                   "; give an object of knobs and their values");
  }
  SearchSpace space;
  std::set<std::string_view> seen;
  for (const dom::key_value_pair field : object) {
    const std::string place = absl::StrCat(name, ": ", View(field.key));
    if (!seen.insert(field.key).second) {
      return Invalid(place, " appears twice; remove one");
    }
    TIDEWHEEL_RETURN_IF_ERROR(ReadKnob(field.key, field.value, place, space));
  }
  if (seen.empty()) {
    return Invalid(name, " is an empty space; name at least one of ", kKnobs,
                   ", or leave --space out");
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckContradictions(space, name));
  if (space.size() > kMostCandidates) {
    return Invalid(name, " has more than ", kMostCandidates,
                   " combinations; give shorter lists or fewer steps");
  }
  return space;
}

absl::StatusOr<SearchSpace> ReadSpaceFile(const std::string& path) {
  simdjson::padded_string json;
  if (simdjson::padded_string::load(path).get(json) != simdjson::SUCCESS) {
    return absl::NotFoundError(
        absl::StrCat(path, ": can not be read; give a JSON file of knobs"));
  }
  if (json.size() > kMaxFileBytes) {
    return Invalid(path, " has ", json.size(), " bytes, more than the ",
                   kMaxFileBytes, " of a space; give ranges instead of lists");
  }
  return ParseSpace({json.data(), json.size()}, path);
}

}  // namespace tidewheel
