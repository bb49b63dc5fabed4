#include "tools/batch_file.h"

#include <simdjson.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/status_macros.h"
#include "attention/contract_dtype.h"
#include "tools/json_place.h"

namespace tidewheel {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxDepth = 1024;  // simdjson's default
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxNameBytes = 32;
constexpr int64_t kInt32Min = std::numeric_limits<int32_t>::min();
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::string_view View(std::string_view text) {
  return {text.data(), text.size()};
}

// What a JSON value is, for a message.
std::string Described(dom::element value) {
  switch (value.type()) {
    case dom::element_type::ARRAY:
      return "a list";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return bool(value) ? "true" : "false";
    case dom::element_type::NULL_VALUE:
      return "null";
    case dom::element_type::INT64:
      return absl::StrCat(int64_t(value));
    case dom::element_type::UINT64:
      return absl::StrCat(uint64_t(value));
    case dom::element_type::DOUBLE:
      break;
  }
  return FloatRepr(double(value));
}

// The member `name` of `object`, or an error that says where it is missing.
absl::StatusOr<dom::element> Member(dom::element object, const char* name,
                                    absl::string_view place) {
  dom::element member;
  if (object[name].get(member) != simdjson::SUCCESS) {
    return Invalid(place, " lacks \"", name, "\"; add it");
  }
  return member;
}

// An integer within int32.
absl::StatusOr<int64_t> ReadInt32(dom::element value, absl::string_view place) {
  int64_t integer = 0;
  if (value.type() == dom::element_type::UINT64) {
    return Invalid(place, " is ", Described(value),
                   ", beyond int32; values "
                   "lie in [",
                   kInt32Min, ", ", kInt32Max, "]");
  }
  if (value.get(integer) != simdjson::SUCCESS) {
    return Invalid(place, " is ", Described(value), " and must be an integer");
  }
  if (integer < kInt32Min || integer > kInt32Max) {
    return Invalid(place, " is ", integer, ", beyond int32; values lie in [",
                   kInt32Min, ", ", kInt32Max, "]");
  }
  return integer;
}

absl::StatusOr<std::vector<int64_t>> ReadShape(dom::element value,
                                               const std::string& place) {
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS) {
    return Invalid(place, " is ", Described(value),
                   " and must be a list of sizes");
  }
  std::vector<int64_t> shape;
  for (const dom::element size : list) {
    if (shape.size() == kMaxRank) {
      return Invalid(place, " has more than ", kMaxRank,
                     " dimensions; the arrays of this call have at most 4");
    }
    const std::string at = absl::StrCat(place, "[", shape.size(), "]");
    TIDEWHEEL_ASSIGN_OR_RETURN(const int64_t integer, ReadInt32(size, at));
    if (integer < 0) {
      return Invalid(at, " is ", integer, " and a size must be at least 0");
    }
    shape.push_back(integer);
  }
  return shape;
}

absl::StatusOr<std::string> ReadDtype(dom::element value,
                                      const std::string& place) {
  std::string_view name;
  if (value.get(name) != simdjson::SUCCESS) {
    return Invalid(place, " is ", Described(value),
                   " and must be a string "
                   "like \"int32\"");
  }
  const bool is_word = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (name.empty() || name.size() > kMaxNameBytes || !is_word) {
    return Invalid(place,
                   " is no dtype; write it as numpy does, like "
                   "\"int32\" or \"bfloat16\"");
  }
  return std::string(name);
}

// Reads nested lists of one array's shape. The depth is the array's rank, so
// recursion is bounded by kMaxRank whatever the file nests.
class ValuesReader {
 public:
  ValuesReader(ContractArray& array, std::string place)
      : array_(array),
        place_(std::move(place)),
        is_real_(IsFloatingDtype(array.dtype)) {
    if (is_real_) {
      array_.real_values.emplace();
    } else {
      array_.values.emplace();
    }
  }

  absl::Status Read(dom::element value) { return ReadDimension(value, 0); }

 private:
  std::string Place() const {
    std::string place = place_;
    for (const size_t index : indices_) {
      absl::StrAppend(&place, "[", index, "]");
    }
    return place;
  }

  absl::Status ReadDimension(dom::element value, size_t dimension) {
    if (dimension == array_.shape.size()) return ReadElement(value);
    dom::array list;
    if (value.get(list) != simdjson::SUCCESS) {
      return Invalid(Place(), " is ", Described(value),
                     " and must be a list "
                     "of ",
                     array_.shape[dimension], ", as the shape says");
    }
    indices_.push_back(0);
    int64_t count = 0;
    for (const dom::element element : list) {
      TIDEWHEEL_RETURN_IF_ERROR(ReadDimension(element, dimension + 1));
      ++indices_.back();
      ++count;
    }
    indices_.pop_back();
    if (count != array_.shape[dimension]) {
      return Invalid(Place(), " has ", count, " elements and the shape [",
                     absl::StrJoin(array_.shape, ", "), "] says ",
                     array_.shape[dimension], "; make rows equally long");
    }
    return absl::OkStatus();
  }

  absl::Status ReadElement(dom::element value) {
    if (is_real_) {
      double real = 0;
      if (value.get(real) != simdjson::SUCCESS) {
        return Invalid(Place(), " is ", Described(value),
                       " and must be a number");
      }
      array_.real_values->push_back(real);
      return absl::OkStatus();
    }
    bool truth = false;
    if (array_.dtype == "bool" && value.get(truth) == simdjson::SUCCESS) {
      array_.values->push_back(truth ? 1 : 0);
      return absl::OkStatus();
    }
    TIDEWHEEL_ASSIGN_OR_RETURN(const int64_t integer,
                               ReadInt32(value, Place()));
    array_.values->push_back(integer);
    return absl::OkStatus();
  }

  ContractArray& array_;
  const std::string place_;
  const bool is_real_;
  std::vector<size_t> indices_;
};

struct NamedArray {
  const char* name;
  ContractArray ContractInputs::*array;
  bool needs_values;
};
constexpr NamedArray kArrays[] = {
    {"q", &ContractInputs::q, false},
    {"kv_pages", &ContractInputs::kv_pages, false},
    {"kv_lens", &ContractInputs::kv_lens, true},
    {"page_indices", &ContractInputs::page_indices, true},
    {"cu_q_lens", &ContractInputs::cu_q_lens, true},
    {"num_seqs", &ContractInputs::num_seqs, true}};

struct NamedOption {
  const char* name;
  PythonValue ContractOptions::*option;
};
constexpr NamedOption kOptions[] = {
    {"sm_scale", &ContractOptions::sm_scale},
    {"sliding_window", &ContractOptions::sliding_window},
    {"soft_cap", &ContractOptions::soft_cap},
    {"mask_value", &ContractOptions::mask_value},
    {"k_scale", &ContractOptions::k_scale},
    {"v_scale", &ContractOptions::v_scale},
    {"num_kv_pages_per_block", &ContractOptions::num_kv_pages_per_block},
    {"num_queries_per_block", &ContractOptions::num_queries_per_block},
    {"vmem_limit_bytes", &ContractOptions::vmem_limit_bytes}};

template <typename Named>
std::string NamesOf(const Named& table) {
  return absl::StrJoin(table, ", ", [](std::string* out, const auto& entry) {
    out->append(entry.name);
  });
}

template <typename Named>
absl::Status CheckNames(dom::object object, const Named& table,
                        absl::string_view place, absl::string_view kind) {
  for (const dom::key_value_pair member : object) {
    const bool known = std::ranges::any_of(
        table, [&](const auto& entry) { return member.key == entry.name; });
    if (known) continue;
    return Invalid(place, " has an unknown ", kind, " \"",
                   View(member.key).substr(0, kMaxNameBytes), "\"; known are ",
                   NamesOf(table));
  }
  return absl::OkStatus();
}

absl::StatusOr<ContractArray> ReadArray(dom::element value,
                                        const NamedArray& named) {
  const std::string place = absl::StrCat("arrays.", named.name);
  if (!value.is_object()) {
    return Invalid(place, " is ", Described(value),
                   " and must be an object "
                   "with dtype, shape and values");
  }
  ContractArray array;
  TIDEWHEEL_ASSIGN_OR_RETURN(const dom::element dtype,
                             Member(value, "dtype", place));
  TIDEWHEEL_ASSIGN_OR_RETURN(array.dtype,
                             ReadDtype(dtype, absl::StrCat(place, ".dtype")));
  TIDEWHEEL_ASSIGN_OR_RETURN(const dom::element shape,
                             Member(value, "shape", place));
  TIDEWHEEL_ASSIGN_OR_RETURN(array.shape,
                             ReadShape(shape, absl::StrCat(place, ".shape")));
  // What q and the pages hold is never looked at.
  if (!named.needs_values) return array;
  TIDEWHEEL_ASSIGN_OR_RETURN(const dom::element values,
                             Member(value, "values", place));
  ValuesReader reader(array, absl::StrCat(place, ".values"));
  TIDEWHEEL_RETURN_IF_ERROR(reader.Read(values));
  return array;
}

absl::Status ReadArrays(dom::element root, ContractInputs& inputs) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const dom::element arrays,
                             Member(root, "arrays", "the file"));
  dom::object object;
  if (arrays.get(object) != simdjson::SUCCESS) {
    return Invalid("arrays is ", Described(arrays),
                   " and must be an object of ", NamesOf(kArrays));
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckNames(object, kArrays, "arrays", "array"));
  for (const NamedArray& named : kArrays) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const dom::element value,
                               Member(arrays, named.name, "arrays"));
    TIDEWHEEL_ASSIGN_OR_RETURN(inputs.*named.array, ReadArray(value, named));
  }
  return absl::OkStatus();
}

absl::StatusOr<PythonValue> ReadOption(dom::element value,
                                       const std::string& place) {
  switch (value.type()) {
    case dom::element_type::NULL_VALUE:
      return PythonValue();
    case dom::element_type::BOOL:
      return PythonValue::Bool(bool(value));
    case dom::element_type::INT64:
      return PythonValue::Int(int64_t(value));
    case dom::element_type::DOUBLE:
      return PythonValue::Float(double(value));
    case dom::element_type::STRING: {
      const absl::StatusOr<PythonValue> parsed =
          PythonValue::Parse(View(std::string_view(value)));
      if (parsed.ok()) return parsed;
      return Invalid(place, ": ", parsed.status().message());
    }
    default:
      return Invalid(place, " is ", Described(value),
                     " and must be a number within int64, or null");
  }
}

absl::Status ReadOptions(dom::element root, ContractOptions& options) {
  dom::element value;
  if (root["options"].get(value) != simdjson::SUCCESS) return absl::OkStatus();
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return Invalid("options is ", Described(value),
                   " and must be an object of ", NamesOf(kOptions));
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckNames(object, kOptions, "options", "option"));
  for (const NamedOption& named : kOptions) {
    if (value[named.name].error() != simdjson::SUCCESS) continue;
    TIDEWHEEL_ASSIGN_OR_RETURN(
        options.*named.option,
        ReadOption(value[named.name].value(),
                   absl::StrCat("options.", named.name)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BatchFile> ParseBatchFile(absl::string_view json) {
  if (json.size() > kMaxBatchFileBytes) {
    return Invalid("a batch file of ", json.size(),
                   " bytes exceeds the limit "
                   "of ",
                   kMaxBatchFileBytes,
                   "; leave out the values of q and "
                   "kv_pages");
  }
  dom::parser parser;
  dom::element root;
  const simdjson::padded_string padded(json.data(), json.size());
  if (const auto error = parser.parse(padded).get(root);
      error != simdjson::SUCCESS) {
    return Invalid(
        "not JSON that can be read: ",
        LocateJsonError(json, kMaxDepth, simdjson::error_message(error)));
  }
  if (!root.is_object()) {
    return Invalid("the file is ", Described(root),
                   " and must be an object "
                   "with arrays and options");
  }
  BatchFile file;
  TIDEWHEEL_RETURN_IF_ERROR(ReadArrays(root, file.inputs));
  TIDEWHEEL_RETURN_IF_ERROR(ReadOptions(root, file.options));
  return file;
}

absl::StatusOr<BatchFile> ReadBatchFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  std::string text;
  char buffer[1 << 16];
  size_t bytes = 0;
  while ((bytes = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0 &&
         text.size() <= kMaxBatchFileBytes) {
    text.append(buffer, bytes);
  }
  if (std::ferror(file.get()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  absl::StatusOr<BatchFile> batch = ParseBatchFile(text);
  if (batch.ok()) return batch;
  return absl::Status(batch.status().code(),
                      absl::StrCat(path, ": ", batch.status().message()));
}

}  // namespace tidewheel
