// Host cost of a step on a PJRT device: what is sent, launched and read back,
// with changed rows of the page table only and with all of it.
//
// Needs TIDEWHEEL_PJRT_CPU_PLUGINS (tests/attention/pjrt/pjrt_plugins.h); each
// plugin is measured, and without one this says so and ends. With
// TIDEWHEEL_JAX_PYTHON the same programs run through JAX at the end, so that
// both figures are of one run.
//
// The attention is tiny (one head of 8, contexts of one token), so that what
// is measured is everything else.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/check.h"
#include "attention/pjrt/resident_attention.h"
#include "attention/stablehlo/attention_program.h"
#include "benchmark/benchmark.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/temporary_folder.h"

namespace tidewheel {
namespace {

std::shared_ptr<PjrtClient> ClientOf(int plugin) {
  static auto& clients = *new std::map<int, std::shared_ptr<PjrtClient>>;
  std::shared_ptr<PjrtClient>& client = clients[plugin];
  if (client == nullptr) {
    const auto loaded = PjrtPlugin::Load(PjrtCpuPlugin(plugin));
    TIDEWHEEL_CHECK(loaded.ok());
    const auto created = PjrtClient::Create(*loaded, CpuClientOptions());
    TIDEWHEEL_CHECK(created.ok());
    client = *created;
  }
  return client;
}

void Check(const absl::Status& status) {
  if (!status.ok()) std::cerr << status << "\n";
  TIDEWHEEL_CHECK(status.ok());
}

// ---- A launch ----

constexpr char kAdd[] = R"(
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>)
      -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  })";

void TrivialLaunch(benchmark::State& state, int plugin, bool awaits) {
  const auto client = ClientOf(plugin);
  const PjrtShape row(PjrtElementType::kF32, {4});
  PjrtSignature signature;
  signature.arguments = {{.shape = row}, {.shape = row}};
  signature.outputs = {row};
  const auto add = client->Compile(kAdd, signature);
  Check(add.status());
  const std::array<float, 4> ones = {1, 1, 1, 1};
  PjrtBuffer one = *client->Upload(std::as_bytes(std::span(ones)), row);
  std::array<PjrtBuffer, 1> sum;
  for (auto _ : state) {
    const auto done = (*add)->Launch(std::array{&one, &one}, sum);
    if (awaits) Check(done->Await());
  }
}

// ---- A step ----

constexpr int32_t kNumSeqs = 8;

ResidentAttentionOptions Options(int32_t max_num_seqs, int32_t pages_per_seq) {
  ResidentAttentionOptions options;
  options.num_layers = 1;
  options.num_q_heads = options.num_kv_heads = 1;
  options.head_dim = 8;
  options.q_type = options.new_kv_type = options.kv_type = ScalarType::kFloat32;
  options.page_size = 16;
  options.total_num_pages = 1024;  // 1 MiB, donated
  options.max_num_seqs = max_num_seqs;
  options.pages_per_seq = pages_per_seq;
  options.tokens = {.max_num_batched_tokens = max_num_seqs,
                    .smallest = kNumSeqs};
  return options;
}

// A decode of 8 rows of a large table: one token each.
class StepWorld {
 public:
  StepWorld(std::shared_ptr<const PjrtClient> client,
            const ResidentAttentionOptions& options)
      : kv_lens_(static_cast<size_t>(options.max_num_seqs)),
        page_indices_(static_cast<size_t>(options.max_num_seqs) *
                      static_cast<size_t>(options.pages_per_seq)),
        cu_q_lens_(static_cast<size_t>(options.max_num_seqs) + 1, kNumSeqs) {
    for (int32_t row = 0; row < kNumSeqs; ++row) {
      const auto r = static_cast<size_t>(row);
      kv_lens_[r] = 1;
      cu_q_lens_[r] = row;
      page_indices_[r * static_cast<size_t>(options.pages_per_seq)] = row + 1;
    }
    batch_ = {.kv_lens = kv_lens_,
              .page_indices = page_indices_,
              .cu_q_lens = cu_q_lens_,
              .num_seqs = kNumSeqs,
              .max_num_seqs = options.max_num_seqs,
              .pages_per_seq = options.pages_per_seq,
              .page_size = options.page_size,
              .total_num_pages = options.total_num_pages,
              .max_num_batched_tokens = options.tokens.max_num_batched_tokens};
    auto made = ResidentAttention::Create(client, options);
    Check(made.status());
    attention_ = *std::move(made);
    Check(attention_->BeginStep(batch_, {}, {}));
    const auto zeros = [&client](const PjrtShape& shape) {
      const std::vector<std::byte> bytes(
          static_cast<size_t>(shape.num_bytes()));
      return *client->Upload(bytes, shape);
    };
    q_ = zeros(attention_->q_shape());
    k_ = zeros(attention_->kv_shape());
    attention_->AbandonStep();
  }

  const RaggedBatch& batch() const { return batch_; }
  ResidentAttention& attention() { return *attention_; }

  // What is sent, and nothing else.
  void Send(std::span<const int32_t> changed_rows) {
    Check(attention_->BeginStep(batch_, changed_rows, {}));
    attention_->AbandonStep();
  }
  // All of a step: the output comes to the host.
  void Run(std::span<const int32_t> changed_rows) {
    Check(attention_->BeginStep(batch_, changed_rows, {}));
    Check(attention_->RunLayer(0, q_, k_, k_, out_));
    Check(attention_->EndStep());
    host_.resize(static_cast<size_t>(out_.shape().num_bytes()));
    Check(out_.ToHost(host_));
    Check(attention_->AwaitOldest());
  }

 private:
  std::vector<int32_t> kv_lens_;
  std::vector<int32_t> page_indices_;
  std::vector<int32_t> cu_q_lens_;
  RaggedBatch batch_;
  std::unique_ptr<ResidentAttention> attention_;
  PjrtBuffer q_;
  PjrtBuffer k_;
  PjrtBuffer out_;
  std::vector<std::byte> host_;
};

struct TableSize {
  int32_t max_num_seqs;
  int32_t pages_per_seq;
};
// 64 KiB, and the largest that a TPU's scalar memory holds with 256 rows.
constexpr TableSize kTables[] = {{64, 256}, {256, 960}};

std::string NameOf(const TableSize& table) {
  return absl::StrCat(table.max_num_seqs, "x", table.pages_per_seq);
}

// `changed`: rows of the table; all of them is a whole upload.
void Step(benchmark::State& state, int plugin, TableSize table, int32_t changed,
          bool runs) {
  StepWorld world(ClientOf(plugin),
                  Options(table.max_num_seqs, table.pages_per_seq));
  std::vector<int32_t> rows(static_cast<size_t>(changed));
  std::iota(rows.begin(), rows.end(), 0);
  world.Run(rows);  // compiles what the rows need
  const DeviceTable::Counts before = world.attention().table().counts();
  for (auto _ : state) {
    if (runs) {
      world.Run(rows);
    } else {
      world.Send(rows);
    }
  }
  const DeviceTable::Counts& after = world.attention().table().counts();
  state.counters["whole"] =
      after.whole_uploads - before.whole_uploads > 0 ? 1 : 0;
}

// The fastest round of several: others are of a machine that did something
// else.
void ReportFastest(benchmark::internal::Benchmark* bench) {
  bench->Repetitions(7)
      ->ReportAggregatesOnly()
      ->MeasureProcessCPUTime()
      ->UseRealTime()
      ->ComputeStatistics("fastest", [](const std::vector<double>& rounds) {
        return *std::min_element(rounds.begin(), rounds.end());
      });
}

void Register(int plugin) {
  const std::string prefix = absl::StrCat("plugin", plugin, "/");
  for (const bool awaits : {false, true}) {
    ReportFastest(benchmark::RegisterBenchmark(
        absl::StrCat(prefix, "launch/", awaits ? "awaited" : "started").c_str(),
        TrivialLaunch, plugin, awaits));
  }
  for (const TableSize& table : kTables) {
    for (const bool runs : {false, true}) {
      for (const int32_t changed : {0, 1, 8, table.max_num_seqs}) {
        ReportFastest(benchmark::RegisterBenchmark(
                          absl::StrCat(prefix, runs ? "step/" : "send/",
                                       NameOf(table), "/changed_rows:", changed)
                              .c_str(),
                          Step, plugin, table, changed, runs)
                          ->Unit(benchmark::kMicrosecond));
      }
    }
  }
}

// ---- The same programs in JAX ----

std::string ValuesOf(std::span<const int32_t> values) {
  return absl::StrCat(",\"values\":[", absl::StrJoin(values, ","), "]");
}

// The text and the arguments of the program that Step runs, for
// jax_step_bench.py.
void WriteProgram(const std::filesystem::path& folder, const TableSize& table,
                  StepWorld& world) {
  AttentionProgramShape shape = world.attention().shape();
  shape.form = AttentionForm::kDecode;
  shape.num_tokens = kNumSeqs;
  const auto program = EmitAttention(shape);
  Check(program.status());
  const std::string name = NameOf(table);
  std::ofstream(folder / (name + ".mlir")) << program->text;
  std::ofstream json(folder / (name + ".json"));
  json << "{\"name\":\"" << name << "\",\"arguments\":[";
  for (size_t i = 0; i < program->arguments.size(); ++i) {
    const ProgramArgument& argument = program->arguments[i];
    json << (i == 0 ? "" : ",") << "{\"name\":\"" << argument.name
         << "\",\"dtype\":\"" << ElementTypeName(argument.type.element)
         << "\",\"shape\":[" << absl::StrJoin(argument.type.dims, ",") << "]";
    const RaggedBatch& batch = world.batch();
    if (argument.name == "kv_lens") json << ValuesOf(batch.kv_lens);
    if (argument.name == "page_indices") json << ValuesOf(batch.page_indices);
    if (argument.name == "cu_q_lens") json << ValuesOf(batch.cu_q_lens);
    if (argument.name == "num_seqs") json << ValuesOf({&batch.num_seqs, 1});
    json << "}";
  }
  json << "]}\n";
}

void RunJax() {
  const std::string python = PjrtTestVariable("TIDEWHEEL_JAX_PYTHON");
  if (python.empty()) {
    std::cout << "no figures of JAX: set TIDEWHEEL_JAX_PYTHON, a python that "
                 "has jax 0.10.2\n";
    return;
  }
  const TemporaryFolder folder;
  for (const TableSize& table : kTables) {
    StepWorld world(ClientOf(0),
                    Options(table.max_num_seqs, table.pages_per_seq));
    WriteProgram(folder.path(), table, world);
  }
  std::cout.flush();
  const std::string command = absl::StrCat(
      "JAX_PLATFORMS=cpu '", python, "' '", TIDEWHEEL_SOURCE_DIR,
      "/tests/bench/jax_step_bench.py' '", folder.path().string(), "'");
  if (std::system(command.c_str()) != 0) {
    std::cout << "JAX failed: " << command << "\n";
  }
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const size_t plugins = PjrtCpuPlugins().size();
  if (plugins == 0) {
    std::cout << "nothing was measured: set TIDEWHEEL_PJRT_CPU_PLUGINS, .so "
                 "files of CPU plugins separated by ':'\n";
    return 0;
  }
  for (size_t plugin = 0; plugin < plugins; ++plugin) {
    Register(static_cast<int>(plugin));
  }
  benchmark::RunSpecifiedBenchmarks();
  RunJax();
  return 0;
}

}  // namespace
}  // namespace tidewheel

int main(int argc, char** argv) { return tidewheel::Main(argc, argv); }
