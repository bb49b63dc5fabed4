// Reads golden vectors: JAX's own results, and what JAX said to bad inputs.
//
// The format is described in tests/data/golden/README.md. A file that does not
// have it fails the test that reads it, so readers return plain values and
// report through GoogleTest.

#ifndef TIDEWHEEL_TESTS_ATTENTION_GOLDEN_FILES_H_
#define TIDEWHEEL_TESTS_ATTENTION_GOLDEN_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "attention/attention_backend.h"
#include "attention/contract.h"
#include "attention/ragged_batch.h"
#include "attention/tensor_view.h"
#include "nlohmann/json.hpp"

namespace tidewheel {

struct GoldenTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  std::vector<int32_t> Int32s() const;
  std::vector<double> Doubles() const;
};

// One numeric case. The views point into it.
struct GoldenCase {
  nlohmann::json description;
  std::map<std::string, GoldenTensor> tensors;
  std::vector<int32_t> kv_lens;
  std::vector<int32_t> page_indices;
  std::vector<int32_t> cu_q_lens;

  HeadsView q() const;
  KvPagesView kv_pages() const;
  RaggedBatch batch() const;
  // Rows without queries are skipped where the case has them.
  AttentionOptions options() const;
  double tolerance(const char* name) const;  // "f64_atol", ...
};

// The names in `folder`/index.txt.
std::vector<std::string> GoldenNames(const std::string& folder);
GoldenCase ReadGoldenCase(const std::string& folder, const std::string& name);

// One input and what JAX said to it.
struct GoldenProbe {
  std::string name;
  std::string check;  // "static", "dynamic", "trace", ...
  ContractInputs inputs;
  ContractOptions options;
  std::string device_kind;  // of "blocks"
  JaxVerdict jax;
  bool has_numpy = false;
  JaxVerdict numpy;
  nlohmann::json result;
};

std::vector<GoldenProbe> ReadGoldenProbes(const std::string& path);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ATTENTION_GOLDEN_FILES_H_
