#include "tests/attention/golden_files.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "attention/contract_dtype.h"
#include "gtest/gtest.h"

namespace tidewheel {
namespace {

std::vector<char> ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}

nlohmann::json ReadJson(const std::string& path) {
  const std::vector<char> bytes = ReadBytes(path);
  return nlohmann::json::parse(bytes.begin(), bytes.end());
}

template <typename T>
std::vector<T> Values(const GoldenTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  // An empty tensor has no array to copy from.
  if (values.empty()) return values;
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::optional<float> Number(const nlohmann::json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<float>();
}

PythonValue Option(const nlohmann::json& options, const char* name) {
  if (!options.contains(name) || options[name].is_null()) return {};
  const nlohmann::json& value = options[name];
  if (value.is_boolean()) return PythonValue::Bool(value.get<bool>());
  if (value.is_number_float()) return PythonValue::Float(value.get<double>());
  if (value.is_number()) return PythonValue::Int(value.get<int64_t>());
  const auto parsed = PythonValue::Parse(value.get<std::string>());
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(PythonValue());
}

// Nested lists, flattened in C order.
void Flatten(const nlohmann::json& values, ContractArray& array) {
  if (values.is_array()) {
    for (const nlohmann::json& value : values) Flatten(value, array);
  } else if (array.real_values.has_value()) {
    array.real_values->push_back(values.get<double>());
  } else if (values.is_boolean()) {
    array.values->push_back(values.get<bool>() ? 1 : 0);
  } else {
    array.values->push_back(values.get<int64_t>());
  }
}

ContractArray Array(const nlohmann::json& arrays, const char* name) {
  ContractArray array;
  if (!arrays.contains(name)) return array;
  const nlohmann::json& described = arrays[name];
  array.dtype = described["dtype"].get<std::string>();
  array.shape = described["shape"].get<std::vector<int64_t>>();
  if (!described.contains("values")) return array;
  if (IsFloatingDtype(array.dtype)) {
    array.real_values.emplace();
  } else {
    array.values.emplace();
  }
  Flatten(described["values"], array);
  return array;
}

JaxVerdict Verdict(const nlohmann::json& outcome) {
  if (outcome["passes"].get<bool>()) return std::nullopt;
  return JaxError{outcome["exception"].get<std::string>(),
                  outcome["message"].get<std::string>()};
}

}  // namespace

std::vector<int32_t> GoldenTensor::Int32s() const {
  EXPECT_EQ(dtype, "int32");
  return Values<int32_t>(*this);
}

std::vector<double> GoldenTensor::Doubles() const {
  if (dtype == "float64") return Values<double>(*this);
  const ScalarType type = *ScalarTypeOfName(dtype);
  std::vector<double> values(bytes.size() / SizeOfScalar(type));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadScalar(type, bytes.data(), i);
  }
  return values;
}

HeadsView GoldenCase::q() const {
  const GoldenTensor& t = tensors.at("q");
  return {*ScalarTypeOfName(t.dtype), t.bytes.data(), t.shape[0], t.shape[1],
          t.shape[2]};
}

KvPagesView GoldenCase::kv_pages() const {
  const GoldenTensor& t = tensors.at("kv_pages");
  return {*ScalarTypeOfName(t.dtype),
          t.bytes.data(),
          t.shape[0],
          t.shape[1],
          t.shape[2],
          t.shape[3]};
}

RaggedBatch GoldenCase::batch() const {
  const std::vector<int64_t>& table = tensors.at("page_indices").shape;
  return {.kv_lens = kv_lens,
          .page_indices = page_indices,
          .cu_q_lens = cu_q_lens,
          .num_seqs = tensors.at("num_seqs").Int32s()[0],
          .max_num_seqs = static_cast<int32_t>(table[0]),
          .pages_per_seq = static_cast<int32_t>(table[1]),
          .page_size = static_cast<int32_t>(kv_pages().page_size),
          .total_num_pages = static_cast<int32_t>(kv_pages().total_num_pages),
          .max_num_batched_tokens = static_cast<int32_t>(q().num_tokens)};
}

AttentionOptions GoldenCase::options() const {
  const nlohmann::json& given = description["options"];
  AttentionOptions options = {.sm_scale = given["sm_scale"].get<float>(),
                              .soft_cap = Number(given["soft_cap"]),
                              .k_scale = Number(given["k_scale"]),
                              .v_scale = Number(given["v_scale"])};
  if (!given["sliding_window"].is_null()) {
    options.sliding_window = given["sliding_window"].get<int32_t>();
  }
  options.mask_value = Number(given["mask_value"]).value_or(kDefaultMaskValue);
  if (!description["strict_valid"].get<bool>()) {
    options.empty_rows = EmptyRows::kSkip;
  }
  return options;
}

double GoldenCase::tolerance(const char* name) const {
  return description["tolerance"][name].get<double>();
}

std::vector<std::string> GoldenNames(const std::string& folder) {
  std::ifstream file(folder + "/index.txt");
  EXPECT_TRUE(file.good()) << folder;
  return {std::istream_iterator<std::string>(file), {}};
}

GoldenCase ReadGoldenCase(const std::string& folder, const std::string& name) {
  GoldenCase golden;
  golden.description = ReadJson(folder + "/" + name + ".json");
  const std::vector<char> blob = ReadBytes(folder + "/" + name + ".bin");
  for (const nlohmann::json& t : golden.description["tensors"]) {
    const auto offset = t["offset"].get<size_t>();
    const auto bytes = t["bytes"].get<size_t>();
    EXPECT_LE(offset + bytes, blob.size());
    golden.tensors[t["name"].get<std::string>()] = {
        t["dtype"].get<std::string>(),
        t["shape"].get<std::vector<int64_t>>(),
        {blob.data() + offset, blob.data() + offset + bytes}};
  }
  golden.kv_lens = golden.tensors.at("kv_lens").Int32s();
  golden.page_indices = golden.tensors.at("page_indices").Int32s();
  golden.cu_q_lens = golden.tensors.at("cu_q_lens").Int32s();
  return golden;
}

std::vector<GoldenProbe> ReadGoldenProbes(const std::string& path) {
  std::vector<GoldenProbe> probes;
  for (const nlohmann::json& entry : ReadJson(path)) {
    const nlohmann::json& arrays = entry["arrays"];
    const nlohmann::json& options = entry["options"];
    GoldenProbe probe;
    probe.name = entry["name"].get<std::string>();
    probe.check = entry["check"].get<std::string>();
    probe.inputs = {Array(arrays, "q"),         Array(arrays, "kv_pages"),
                    Array(arrays, "kv_lens"),   Array(arrays, "page_indices"),
                    Array(arrays, "cu_q_lens"), Array(arrays, "num_seqs")};
    probe.options = {Option(options, "sm_scale"),
                     Option(options, "sliding_window"),
                     Option(options, "soft_cap"),
                     Option(options, "mask_value"),
                     Option(options, "k_scale"),
                     Option(options, "v_scale"),
                     Option(options, "num_kv_pages_per_block"),
                     Option(options, "num_queries_per_block"),
                     Option(options, "vmem_limit_bytes")};
    probe.device_kind = options.value("device_kind", "");
    probe.jax = Verdict(entry["jax"]);
    probe.result = entry["jax"]["result"];
    probe.has_numpy = !entry["numpy"].is_null();
    if (probe.has_numpy) probe.numpy = Verdict(entry["numpy"]);
    probes.push_back(std::move(probe));
  }
  return probes;
}

}  // namespace tidewheel
