#include "tools/pjrt/compile_shapes.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/padding_buckets.h"
#include "nlohmann/json.hpp"

namespace tidewheel {
namespace {

using Json = nlohmann::json;

constexpr int64_t kUsualPoolBytes = int64_t{512} << 20;
// Of the exporter, about blocks that programs from here do not have.
const char* const kIgnoredFields[] = {
    "num_kv_pages_per_block", "num_queries_per_block", "vmem_limit_bytes"};

ScalarType ScalarTypeOfKv(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kF32:
      return ScalarType::kFloat32;
    case KvDtype::kBf16:
      return ScalarType::kBfloat16;
    case KvDtype::kFp8E4m3:
      return ScalarType::kFloat8E4m3fn;
    case KvDtype::kFp8E5m2:
      return ScalarType::kFloat8E5m2;
    case KvDtype::kInt8:
      return ScalarType::kInt8;
  }
  TIDEWHEEL_CHECK(false);
}

// Pages for a pool that a copy would be told from other temporary memory of.
// REQUIRES: everything else of the shape passes CheckAttentionShape.
int64_t UsualNumPages(AttentionProgramShape shape) {
  shape.total_num_pages = 1;
  const int64_t page_bytes = shape.pool_bytes();
  const int64_t bytes =
      std::max(kUsualPoolBytes, AttentionTempBound(shape) + 1);
  const int64_t most = std::numeric_limits<int32_t>::max() / shape.page_size;
  return std::min(most, std::max((bytes + page_bytes - 1) / page_bytes,
                                 shape.pages_per_seq + 1));
}

// The job of a shape, whose pages are chosen where they are 0.
absl::StatusOr<CompileJob> MakeJob(TpuGeneration generation,
                                   AttentionProgramShape shape) {
  shape = WithTpuPool(shape);
  if (shape.total_num_pages == 0) {
    AttentionProgramShape smallest = shape;
    smallest.total_num_pages = 1;
    TIDEWHEEL_RETURN_IF_ERROR(CheckAttentionShape(smallest));
    shape.total_num_pages = UsualNumPages(shape);
  }
  return JobOfShape(generation, shape);
}

// Reads the fields of one object of the file. After the first mistake the
// values are meaningless and status() says what it was.
class ShapeReader {
 public:
  ShapeReader(const Json& object, std::string place)
      : object_(object), place_(std::move(place)) {
    if (!object_.is_object()) Fail("is not an object");
  }

  const absl::Status& status() const { return status_; }

  // REQUIRES of the numbers: 1 to the largest int32.
  void Read(absl::string_view name, int64_t& value) {
    const Json* const field = Find(name);
    if (field == nullptr) return;
    const int64_t most = std::numeric_limits<int32_t>::max();
    if (!field->is_number_unsigned() || field->get<uint64_t>() < 1 ||
        field->get<uint64_t>() > static_cast<uint64_t>(most)) {
      return Fail(absl::StrCat(name, " ", field->dump(),
                               " is not a whole number in [1, ", most, "]"));
    }
    value = field->get<int64_t>();
  }
  void ReadNeeded(absl::string_view name, int64_t& value) {
    if (Find(name) == nullptr) Fail(absl::StrCat(name, " is missing"));
    Read(name, value);
  }
  void Read(absl::string_view name, std::optional<int32_t>& value) {
    int64_t number = 0;
    Read(name, number);
    if (number > 0) value = static_cast<int32_t>(number);
  }
  void Read(absl::string_view name, std::optional<float>& value) {
    const Json* const field = Find(name);
    if (field == nullptr) return;
    if (!field->is_number()) {
      return Fail(absl::StrCat(name, " ", field->dump(), " is not a number"));
    }
    value = static_cast<float>(field->get<double>());
  }
  void Read(absl::string_view name, ScalarType& value) {
    const Json* const field = Find(name);
    if (field == nullptr) return;
    const std::optional<ScalarType> type =
        field->is_string() ? ScalarTypeOfName(field->get<std::string>())
                           : std::nullopt;
    if (!type.has_value()) {
      return Fail(absl::StrCat(name, " ", field->dump(),
                               " is not float32, bfloat16, float8_e4m3fn, "
                               "float8_e5m2 or int8"));
    }
    value = *type;
  }
  std::vector<std::string> ReadTexts(absl::string_view name) {
    std::vector<std::string> texts;
    const Json* const field = Find(name);
    if (field == nullptr) return texts;
    if (field->is_string()) return {field->get<std::string>()};
    if (!field->is_array() || field->empty()) {
      Fail(absl::StrCat(name, " is neither a text nor a list of texts"));
      return texts;
    }
    for (const Json& text : *field) {
      if (text.is_string()) {
        texts.push_back(text.get<std::string>());
      } else {
        Fail(absl::StrCat(name, " holds ", text.dump(), ", which is no text"));
      }
    }
    return texts;
  }
  void Ignore(absl::string_view name) { Find(name); }

  void FailOnUnknown() {
    if (!object_.is_object()) return;
    for (const auto& [name, value] : object_.items()) {
      if (known_.count(name) == 0) {
        Fail(absl::StrCat("unknown field ", name));
      }
    }
  }
  void Fail(absl::string_view what) {
    status_.Update(absl::InvalidArgumentError(absl::StrCat(
        place_, ": ", what,
        "; tidewheel check --help and tools/pjrt/compile_shapes.h say what a "
        "shape has")));
  }

 private:
  const Json* Find(absl::string_view name) {
    known_.insert(std::string(name));
    if (!object_.is_object()) return nullptr;
    const auto field = object_.find(std::string(name));
    return field == object_.end() || field->is_null() ? nullptr : &*field;
  }

  const Json& object_;
  const std::string place_;
  std::set<std::string> known_;
  absl::Status status_;
};

void ReadShape(ShapeReader& reader, AttentionProgramShape& shape) {
  shape.q_type = ScalarType::kBfloat16;
  shape.kv_type = ScalarType::kBfloat16;
  reader.ReadNeeded("num_tokens", shape.num_tokens);
  reader.ReadNeeded("max_num_seqs", shape.max_num_seqs);
  reader.ReadNeeded("pages_per_seq", shape.pages_per_seq);
  reader.ReadNeeded("page_size", shape.page_size);
  reader.ReadNeeded("num_q_heads", shape.num_q_heads);
  reader.ReadNeeded("num_kv_heads", shape.num_kv_heads);
  reader.ReadNeeded("head_dim", shape.head_dim);
  reader.Read("total_num_pages", shape.total_num_pages);
  reader.Read("q_dtype", shape.q_type);
  reader.Read("kv_dtype", shape.kv_type);
  shape.new_kv_type = shape.q_type;
  reader.Read("new_kv_dtype", shape.new_kv_type);
  AttentionOptions& options = shape.options;
  std::optional<float> sm_scale =
      1.0F /
      std::sqrt(static_cast<float>(std::max<int64_t>(shape.head_dim, 1)));
  std::optional<float> mask_value = options.mask_value;
  reader.Read("sm_scale", sm_scale);
  reader.Read("mask_value", mask_value);
  reader.Read("sliding_window", options.sliding_window);
  reader.Read("soft_cap", options.soft_cap);
  reader.Read("k_scale", options.k_scale);
  reader.Read("v_scale", options.v_scale);
  options.sm_scale = *sm_scale;
  options.mask_value = *mask_value;
  for (const char* const name : kIgnoredFields) reader.Ignore(name);
}

std::vector<AttentionForm> ReadForms(ShapeReader& reader) {
  std::vector<AttentionForm> forms;
  for (const std::string& name : reader.ReadTexts("form")) {
    if (name != "decode" && name != "prefill") {
      reader.Fail(
          absl::StrCat("form '", name, "' is neither decode nor prefill"));
    }
    forms.push_back(name == "decode" ? AttentionForm::kDecode
                                     : AttentionForm::kPrefill);
  }
  if (forms.empty()) forms = {AttentionForm::kDecode, AttentionForm::kPrefill};
  return forms;
}

// Appends the jobs of one object of the file.
absl::Status AppendJobs(const Json& object, const std::string& place,
                        TpuGeneration generation,
                        std::vector<CompileJob>& jobs) {
  ShapeReader reader(object, place);
  AttentionProgramShape shape;
  ReadShape(reader, shape);
  const std::vector<AttentionForm> forms = ReadForms(reader);
  std::vector<TpuGeneration> generations;
  for (const std::string& name : reader.ReadTexts("generations")) {
    const absl::StatusOr<TpuGeneration> parsed = ParseTpuGeneration(name);
    if (parsed.ok()) {
      generations.push_back(*parsed);
    } else {
      reader.Fail(parsed.status().message());
    }
  }
  if (generations.empty()) generations.push_back(generation);
  reader.FailOnUnknown();
  TIDEWHEEL_RETURN_IF_ERROR(reader.status());
  for (const TpuGeneration chip : generations) {
    for (const AttentionForm form : forms) {
      shape.form = form;
      absl::StatusOr<CompileJob> job = MakeJob(chip, shape);
      if (!job.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(place, ": ", job.status().message()));
      }
      jobs.push_back(*std::move(job));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CompileJob>> JobsOfConfiguration(
    const ConfigurationShape& configuration, ServerPrograms which) {
  for (const Finding& finding : CheckConfiguration(configuration)) {
    if (finding.name == "not-a-size" || finding.name == "heads-not-divisible") {
      return absl::InvalidArgumentError(finding.text);
    }
  }
  const KernelShape chip = KernelOfOneChip(configuration);
  AttentionProgramShape shape;
  shape.q_type = configuration.q_dtype == QueryDtype::kF32
                     ? ScalarType::kFloat32
                     : ScalarType::kBfloat16;
  shape.kv_type = ScalarTypeOfKv(configuration.kv_dtype);
  shape.new_kv_type = shape.q_type;
  shape.num_q_heads = chip.num_q_heads;
  shape.num_kv_heads = chip.num_kv_heads;
  shape.head_dim = configuration.head_dim;
  shape.page_size = configuration.page_size;
  shape.max_num_seqs = configuration.max_num_seqs;
  shape.pages_per_seq = PagesPerSeq(configuration);
  shape.total_num_pages = configuration.num_pages.value_or(0);
  shape.options.sm_scale =
      1.0F / std::sqrt(static_cast<float>(configuration.head_dim));
  if (configuration.has_kv_scales) {
    shape.options.k_scale = 1.0F;
    shape.options.v_scale = 1.0F;
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const std::vector<int32_t> buckets,
      TokenBuckets(
          {.max_num_batched_tokens = configuration.max_num_batched_tokens}));
  // A decode step has a token a sequence.
  const int32_t decode = RoundUpToBucket(buckets, configuration.max_num_seqs)
                             .value_or(buckets.back());
  std::vector<CompileJob> jobs;
  for (const AttentionForm form :
       {AttentionForm::kDecode, AttentionForm::kPrefill}) {
    const int32_t largest =
        form == AttentionForm::kDecode ? decode : buckets.back();
    for (const int32_t bucket : buckets) {
      if (bucket > largest) break;
      if (which == ServerPrograms::kLargest && bucket != largest) continue;
      shape.form = form;
      shape.num_tokens = bucket;
      TIDEWHEEL_ASSIGN_OR_RETURN(CompileJob job,
                                 MakeJob(configuration.generation, shape));
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

absl::StatusOr<std::vector<CompileJob>> ReadCompileShapes(
    const std::string& path, TpuGeneration generation) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file),
                         std::istreambuf_iterator<char>()};
  if (!file || file.bad()) {
    return absl::NotFoundError(absl::StrCat(
        "'", path, "' can not be read; give a JSON file of shapes"));
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array() || json.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "' is no JSON list of objects; give one object a shape"));
  }
  std::vector<CompileJob> jobs;
  for (size_t i = 0; i < json.size(); ++i) {
    TIDEWHEEL_RETURN_IF_ERROR(
        AppendJobs(json[i], absl::StrCat(path, "[", i, "]"), generation, jobs));
  }
  return jobs;
}

}  // namespace tidewheel
