#include "attention/pjrt/kernel_manifest.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "nlohmann/json.hpp"

namespace tidewheel {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kFormat = "tidewheel-tpu-kernels";
// A shape in an argument in a list in an artifact in a list, and room.
constexpr int kMaxDepth = 16;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

absl::Status Error(absl::string_view place, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "kernel manifest: ", place, ": ", what,
      "; export the kernels again with tools/export_tpu_kernel.py"));
}

// Reads the fields of one object, each by its name. After the first mistake
// the values are meaningless and status() says what it was.
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string place)
      : object_(object), place_(std::move(place)) {
    if (!object_.is_object()) Fail("", "is not an object");
  }

  std::string Text(absl::string_view name) {
    const Json* const field = Find(name);
    if (field == nullptr) return "";
    if (field->is_string()) return field->get<std::string>();
    Fail(name, "is not a text");
    return "";
  }

  int64_t Integer(absl::string_view name, int64_t min, int64_t max) {
    const Json* const field = Find(name);
    if (field == nullptr) return min;
    // Beyond int64_t only unsigned numbers are.
    const bool is_integer =
        field->is_number_integer() &&
        (!field->is_number_unsigned() ||
         field->get<uint64_t>() <=
             static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (is_integer) {
      const int64_t value = field->get<int64_t>();
      if (value >= min && value <= max) return value;
    }
    Fail(name, absl::StrCat("is not a whole number in [", min, ", ", max, "]"));
    return min;
  }

  std::optional<int64_t> OptionalInteger(absl::string_view name, int64_t min,
                                         int64_t max) {
    if (IsNull(name)) return std::nullopt;
    return Integer(name, min, max);
  }

  float Float(absl::string_view name) {
    const Json* const field = Find(name);
    if (field == nullptr) return 0;
    if (field->is_number()) {
      const double value = field->get<double>();
      if (std::abs(value) <= std::numeric_limits<float>::max()) {
        return static_cast<float>(value);
      }
    }
    Fail(name, "is not a finite float32");
    return 0;
  }

  std::optional<float> OptionalFloat(absl::string_view name) {
    if (IsNull(name)) return std::nullopt;
    return Float(name);
  }

  ScalarType Dtype(absl::string_view name) {
    const std::string text = Text(name);
    const std::optional<ScalarType> type = ScalarTypeOfName(text);
    if (type.has_value()) return *type;
    Fail(name, absl::StrCat("is '", text, "', which is no type of a kernel"));
    return ScalarType::kFloat32;
  }

  TpuGeneration Generation(absl::string_view name) {
    const std::string text = Text(name);
    for (const TpuGeneration generation : AllTpuGenerations()) {
      if (TpuGenerationName(generation) == text) return generation;
    }
    Fail(name, absl::StrCat("is '", text, "', not v4, v5e, v5p, v6e or v7x"));
    return TpuGeneration::kV4;
  }

  // Null where it is missing.
  const Json* Find(absl::string_view name) {
    if (!status_.ok()) return nullptr;
    const auto field = object_.find(std::string(name));
    if (field == object_.end()) {
      Fail(name, "is missing");
      return nullptr;
    }
    read_.emplace(name);
    return &*field;
  }

  void Fail(absl::string_view name, absl::string_view what) {
    if (status_.ok()) status_ = Error(PlaceOf(name), what);
  }

  std::string PlaceOf(absl::string_view name) const {
    const bool needs_dot = !place_.empty() && !name.empty();
    return absl::StrCat(place_, needs_dot ? "." : "", name);
  }

  // A field that nobody asked for may change what the program computes.
  absl::Status Finish() {
    for (const auto& [name, value] : object_.items()) {
      if (!status_.ok()) break;
      if (!read_.contains(name)) {
        Fail(name, "is unknown to this version of tidewheel");
      }
    }
    return status_;
  }

  const absl::Status& status() const { return status_; }

 private:
  bool IsNull(absl::string_view name) {
    const Json* const field = Find(name);
    return field == nullptr || field->is_null();
  }

  const Json& object_;
  const std::string place_;
  std::set<std::string> read_;
  absl::Status status_;
};

Json Tensor(const char* name, absl::string_view dtype, Json shape) {
  return {{"name", name},
          {"dtype", std::string(dtype)},
          {"shape", std::move(shape)}};
}

Json ExpectedArguments(const KernelArtifact& artifact) {
  const KernelSettings& s = artifact.settings;
  const KernelBucket& b = artifact.bucket;
  const absl::string_view q_type = ScalarTypeName(s.q_type);
  const absl::string_view new_type = ScalarTypeName(s.new_kv_type);
  const Json new_kv = Json::array({b.num_tokens, s.num_kv_heads, s.head_dim});
  return Json::array(
      {Tensor("q", q_type,
              Json::array({b.num_tokens, s.num_q_heads, s.head_dim})),
       Tensor("k", new_type, new_kv), Tensor("v", new_type, new_kv),
       Tensor("kv_pages", ScalarTypeName(s.kv_type),
              Json::array({s.total_num_pages, s.page_size, 2 * s.num_kv_heads,
                           s.pool_head_dim})),
       Tensor("kv_lens", "int32", Json::array({b.max_num_seqs})),
       Tensor("page_indices", "int32",
              Json::array({b.max_num_seqs, b.pages_per_seq})),
       Tensor("cu_q_lens", "int32", Json::array({b.max_num_seqs + 1})),
       Tensor("num_seqs", "int32", Json::array({1}))});
}

// The program's own types must be those that its sizes make: a plugin compares
// only the bytes of a buffer.
void CheckTensors(ObjectReader& reader, absl::string_view name,
                  const Json& expected) {
  const Json* const tensors = reader.Find(name);
  if (tensors == nullptr || *tensors == expected) return;
  if (!tensors->is_array() || tensors->size() != expected.size()) {
    reader.Fail(name, absl::StrCat("is not a list of ", expected.size()));
    return;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if ((*tensors)[i] == expected[i]) continue;
    reader.Fail(absl::StrCat(name, "[", i, "]"),
                absl::StrCat("is ", (*tensors)[i].dump(),
                             ", but the sizes make it ", expected[i].dump()));
    return;
  }
}

void CheckFile(ObjectReader& reader, const KernelArtifact& artifact) {
  const std::filesystem::path path(artifact.file);
  bool is_inside = !artifact.file.empty() && path.is_relative();
  for (const std::filesystem::path& part : path) {
    if (part == "..") is_inside = false;
  }
  if (!is_inside || !path.has_filename()) {
    reader.Fail("file", absl::StrCat("is '", artifact.file,
                                     "', which is no file in the folder"));
  }
  const std::string& digits = artifact.xxh3_128;
  if (digits.size() != 32 ||
      digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    reader.Fail("xxh3_128", "is not 32 hexadecimal digits in lower case");
  }
}

absl::Status ReadOptions(const Json& options, std::string place,
                         AttentionOptions& into) {
  ObjectReader reader(options, std::move(place));
  into.sm_scale = reader.Float("sm_scale");
  const std::optional<int64_t> window =
      reader.OptionalInteger("sliding_window", 1, kMaxInt32);
  if (window.has_value()) into.sliding_window = static_cast<int32_t>(*window);
  into.soft_cap = reader.OptionalFloat("soft_cap");
  into.mask_value = reader.Float("mask_value");
  into.k_scale = reader.OptionalFloat("k_scale");
  into.v_scale = reader.OptionalFloat("v_scale");
  return reader.Finish();
}

void ReadSettings(ObjectReader& reader, KernelSettings& into) {
  into.generation = reader.Generation("generation");
  into.q_type = reader.Dtype("q_dtype");
  into.new_kv_type = reader.Dtype("new_kv_dtype");
  into.kv_type = reader.Dtype("kv_dtype");
  into.num_q_heads = reader.Integer("num_q_heads", 1, kMaxInt32);
  into.num_kv_heads = reader.Integer("num_kv_heads", 1, kMaxInt32);
  into.pool_head_dim = reader.Integer("pool_head_dim", 1, kMaxInt32);
  into.head_dim = reader.Integer("head_dim", 1, into.pool_head_dim);
  into.page_size = reader.Integer("page_size", 1, kMaxInt32);
  into.total_num_pages = reader.Integer("total_num_pages", 1, kMaxInt32);
}

absl::StatusOr<KernelArtifact> ReadArtifact(const Json& json,
                                            const std::string& place) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ObjectReader reader(json, place);
  KernelArtifact artifact;
  artifact.file = reader.Text("file");
  artifact.bytes = reader.Integer("bytes", 1, kMax);
  artifact.xxh3_128 = reader.Text("xxh3_128");
  artifact.stablehlo_version = reader.Text("stablehlo_version");
  artifact.mosaic_version = reader.Integer("mosaic_version", 1, kMaxInt32);
  ReadSettings(reader, artifact.settings);
  artifact.bucket.num_tokens = reader.Integer("num_tokens", 1, kMaxInt32);
  artifact.bucket.max_num_seqs = reader.Integer("max_num_seqs", 1, kMaxInt32);
  artifact.bucket.pages_per_seq = reader.Integer("pages_per_seq", 1, kMaxInt32);
  artifact.num_kv_pages_per_block =
      reader.Integer("num_kv_pages_per_block", 1, kMaxInt32);
  artifact.num_queries_per_block =
      reader.Integer("num_queries_per_block", 1, kMaxInt32);
  artifact.vmem_limit_bytes =
      reader.OptionalInteger("vmem_limit_bytes", 1, kMax);
  reader.Integer("donated_argument", kKernelDonatedArgument,
                 kKernelDonatedArgument);
  reader.Integer("donated_result", kKernelDonatedResult, kKernelDonatedResult);
  if (const Json* const options = reader.Find("options"); options != nullptr) {
    TIDEWHEEL_RETURN_IF_ERROR(ReadOptions(*options, reader.PlaceOf("options"),
                                          artifact.settings.options));
  }
  if (reader.status().ok()) {
    CheckFile(reader, artifact);
    const Json arguments = ExpectedArguments(artifact);
    CheckTensors(reader, "arguments", arguments);
    Json out = arguments[0];
    out["name"] = "out";
    CheckTensors(reader, "results",
                 Json::array({out, arguments[kKernelDonatedArgument]}));
  }
  TIDEWHEEL_RETURN_IF_ERROR(reader.Finish());
  return artifact;
}

absl::Status CheckNoneTwice(const std::vector<KernelArtifact>& artifacts) {
  for (size_t i = 0; i < artifacts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const KernelArtifact& a = artifacts[i];
      const KernelArtifact& b = artifacts[j];
      if (a.bucket.Covers(b.bucket) && b.bucket.Covers(a.bucket) &&
          DifferentSettings(a.settings, b.settings).empty()) {
        return Error(absl::StrCat("artifacts[", i, "]"),
                     absl::StrCat("is for the same as artifacts[", j, "]"));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  bool is_too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, Json&) {
    is_too_deep |= depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), keep);
    if (is_too_deep) {
      return Error("the text",
                   absl::StrCat("is nested more than ", kMaxDepth, " deep"));
    }
    return json;
  } catch (const Json::exception& error) {
    // The library's text has the line and the column.
    return Error("the text", absl::StrCat("is no JSON (", error.what(), ")"));
  }
}

template <typename T>
std::string ValueName(const T& value) {
  return absl::StrCat(value);
}
std::string ValueName(ScalarType type) {
  return std::string(ScalarTypeName(type));
}
std::string ValueName(TpuGeneration generation) {
  return std::string(TpuGenerationName(generation));
}
template <typename T>
std::string ValueName(const std::optional<T>& value) {
  return value.has_value() ? ValueName(*value) : "none";
}

class Differences {
 public:
  template <typename T>
  void Compare(absl::string_view name, const T& has, const T& needs) {
    if (has == needs) return;
    found.push_back(absl::StrCat(name, " ", ValueName(has), " where ",
                                 ValueName(needs), " is needed"));
  }

  std::vector<std::string> found;
};

}  // namespace

bool KernelBucket::Covers(const KernelBucket& need) const {
  return num_tokens >= need.num_tokens && max_num_seqs >= need.max_num_seqs &&
         pages_per_seq >= need.pages_per_seq;
}

std::vector<std::string> DifferentSettings(const KernelSettings& has,
                                           const KernelSettings& needs) {
  Differences differences;
  differences.Compare("generation", has.generation, needs.generation);
  differences.Compare("q_dtype", has.q_type, needs.q_type);
  differences.Compare("new_kv_dtype", has.new_kv_type, needs.new_kv_type);
  differences.Compare("kv_dtype", has.kv_type, needs.kv_type);
  differences.Compare("num_q_heads", has.num_q_heads, needs.num_q_heads);
  differences.Compare("num_kv_heads", has.num_kv_heads, needs.num_kv_heads);
  differences.Compare("head_dim", has.head_dim, needs.head_dim);
  differences.Compare("pool_head_dim", has.pool_head_dim, needs.pool_head_dim);
  differences.Compare("page_size", has.page_size, needs.page_size);
  differences.Compare("total_num_pages", has.total_num_pages,
                      needs.total_num_pages);
  const AttentionOptions& a = has.options;
  const AttentionOptions& b = needs.options;
  differences.Compare("sm_scale", a.sm_scale, b.sm_scale);
  differences.Compare("sliding_window", a.sliding_window, b.sliding_window);
  differences.Compare("soft_cap", a.soft_cap, b.soft_cap);
  differences.Compare("k_scale", a.k_scale, b.k_scale);
  differences.Compare("v_scale", a.v_scale, b.v_scale);
  if (a.mask_value > kHidingMaskValue || b.mask_value > kHidingMaskValue) {
    differences.Compare("mask_value", a.mask_value, b.mask_value);
  }
  return differences.found;
}

absl::StatusOr<KernelManifest> ParseKernelManifest(absl::string_view text) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  ObjectReader reader(json, "");
  if (reader.Text("format") != kFormat) {
    reader.Fail("format", absl::StrCat("is not '", kFormat, "'"));
  }
  const int64_t version = reader.Integer("format_version", 1, kMaxInt32);
  TIDEWHEEL_RETURN_IF_ERROR(reader.status());
  if (version != kKernelManifestVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "kernel manifest: format_version ", version, " is not ",
        kKernelManifestVersion, ", the one that this version of tidewheel ",
        "reads; export the kernels with its own tools/export_tpu_kernel.py"));
  }
  KernelManifest manifest;
  manifest.jax_version = reader.Text("jax_version");
  manifest.jaxlib_version = reader.Text("jaxlib_version");
  const Json* const artifacts = reader.Find("artifacts");
  if (artifacts != nullptr && !artifacts->is_array()) {
    reader.Fail("artifacts", "is not a list");
  }
  TIDEWHEEL_RETURN_IF_ERROR(reader.Finish());
  for (size_t i = 0; i < artifacts->size(); ++i) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        KernelArtifact artifact,
        ReadArtifact((*artifacts)[i], absl::StrCat("artifacts[", i, "]")));
    manifest.artifacts.push_back(std::move(artifact));
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckNoneTwice(manifest.artifacts));
  return manifest;
}

}  // namespace tidewheel
