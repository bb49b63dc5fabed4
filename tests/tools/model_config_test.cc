#include "tools/model_config.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tools/builtin_models.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kTiny[] = R"({"model_type": "llama", "hidden_size": 64,
  "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
  "num_hidden_layers": 2, "vocab_size": 100, "max_position_embeddings": 512,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

// kTiny with `from` replaced by `to`, which must be in it.
std::string Tiny(absl::string_view from, absl::string_view to) {
  std::string text = kTiny;
  EXPECT_GT(absl::StrReplaceAll({{from, to}}, &text), 0) << from;
  return text;
}

std::string TinyWith(absl::string_view keys) {
  return Tiny("\"vocab_size\"", absl::StrCat(keys, ", \"vocab_size\""));
}

absl::StatusOr<ModelConfig> Parse(absl::string_view json) {
  return ParseModelConfig(json, "test.json");
}

struct Supported {
  const char* file;
  int64_t total_params;
  int64_t active_params;
  int64_t weight_bytes;
};

// What is published for each model, except for the two multimodal ones, whose
// language part is summed by hand.
const Supported kSupported[] = {
    {"Qwen--Qwen3-0.6B.json", 596'049'920, 596'049'920, 1'192'099'840},
    {"Qwen--Qwen3-8B.json", 8'190'735'360, 8'190'735'360, 16'381'470'720},
    {"Qwen--Qwen3-32B.json", 32'762'123'264, 32'762'123'264, 65'524'246'528},
    {"Qwen--Qwen3-30B-A3B.json", 30'532'122'624, 3'353'032'704, 61'064'245'248},
    {"Qwen--Qwen3-VL-8B-Instruct.json", 8'190'735'360, 8'190'735'360,
     16'381'470'720},
    {"meta-llama--Meta-Llama-3.1-8B.json", 8'030'261'248, 8'030'261'248,
     16'060'522'496},
    {"meta-llama--Meta-Llama-3.1-70B.json", 70'553'706'496, 70'553'706'496,
     141'107'412'992},
    {"meta-llama--Meta-Llama-3.1-405B.json", 405'853'388'800, 405'853'388'800,
     811'706'777'600},
    {"mistralai--Mixtral-8x7B-v0.1.json", 46'702'792'704, 12'879'925'248,
     93'405'585'408},
    {"meta-llama--Llama-4-Scout-17B-16E-Instruct.json", 107'769'861'120,
     17'172'894'720, 215'539'722'240}};

TEST(SharedModelsTest, CountsEqualThePublishedOnes) {
  for (const Supported& expected : kSupported) {
    TIDEWHEEL_REQUIRE_SHARED(path, absl::StrCat("models/", expected.file));
    const auto config = LoadModelConfig(path);
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(config->shape.total_params(), expected.total_params)
        << expected.file;
    EXPECT_EQ(config->shape.active_params(), expected.active_params)
        << expected.file;
    EXPECT_EQ(config->shape.weight_bytes(), expected.weight_bytes)
        << expected.file;
  }
}

TEST(SharedModelsTest, Fp8WeightsAreOneByteOutsideEmbeddingsAndNorms) {
  TIDEWHEEL_REQUIRE_SHARED(path, "models/Qwen--Qwen3-32B-FP8.json");
  const auto config = LoadModelConfig(path);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.total_params(), 32'762'123'264);
  const int64_t embeddings = int64_t{2} * 151936 * 5120;
  const int64_t vectors = 64 * (2 * 5120 + 2 * 128) + 5120;
  const int64_t matrices = 32'762'123'264 - embeddings - vectors;
  EXPECT_EQ(config->shape.weight_bytes(),
            matrices + matrices / 16384 * 4 + 2 * (embeddings + vectors));
  EXPECT_THAT(config->notes, ElementsAre(HasSubstr("fp8")));
}

TEST(SharedModelsTest, GptOssHasMxfp4ExpertsAndWindowsCountedInFull) {
  TIDEWHEEL_REQUIRE_SHARED(path, "models/openai--gpt-oss-20b.json");
  const auto config = LoadModelConfig(path);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.total_params(), 20'914'757'184);
  EXPECT_EQ(config->shape.active_params(),
            20'914'757'184 - int64_t{28} * 24 * (3 * 2880 * 2880 + 3 * 2880));
  const auto& options = config->shape.options();
  EXPECT_EQ(options.attention_dtype, WeightDtype::kBf16);
  EXPECT_EQ(options.ffn_dtype, WeightDtype::kMxfp4);
  const int64_t experts = int64_t{24} * 32 * 3 * 2880 * 2880;
  EXPECT_EQ(config->shape.weight_bytes(),
            experts / 32 * 17 + 2 * (20'914'757'184 - experts));
  EXPECT_THAT(config->notes,
              ElementsAre(HasSubstr("counted as bf16"),
                          HasSubstr("mxfp4 in feed-forward layers only"),
                          AllOf(HasSubstr("sliding_window 128"),
                                HasSubstr("12 of 24"), HasSubstr("2.00"))));
}

TEST(SharedModelsTest, NotesNameWhatIsOverCountedOrLeftOut) {
  TIDEWHEEL_REQUIRE_SHARED(
      llama4, "models/meta-llama--Llama-4-Scout-17B-16E-Instruct.json");
  auto config = LoadModelConfig(llama4);
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->notes,
              ElementsAre(HasSubstr("no tie_word_embeddings"),
                          AllOf(HasSubstr("attention_chunk_size 8192"),
                                HasSubstr("36 of 48"))));
  TIDEWHEEL_REQUIRE_SHARED(vl, "models/Qwen--Qwen3-VL-8B-Instruct.json");
  config = LoadModelConfig(vl);
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->notes, ElementsAre(HasSubstr("vision_config")));
  TIDEWHEEL_REQUIRE_SHARED(qwen3, "models/Qwen--Qwen3-8B.json");
  config = LoadModelConfig(qwen3);
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->notes, IsEmpty());
}

const std::pair<const char*, const char*> kRefused[] = {
    {"deepseek-ai--DeepSeek-V3.json", "kv_lora_rank 512"},
    {"moonshotai--Kimi-K2-Instruct.json", "kv_lora_rank 512"},
    {"zai-org--GLM-5.json", "kv_lora_rank 512"},
    {"Qwen--Qwen3.5-27B.json", "layer_types has 48 of 64 layers"},
    {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json",
     "hybrid_override_pattern"},
    {"nvidia--Llama-3_3-Nemotron-Super-49B-v1.json", "block_configs"},
    {"XiaomiMiMo--MiMo-V2-Flash.json", "swa_num_key_value_heads"},
    {"google--gemma-4-26B-A4B.json", "global_head_dim"}};

TEST(SharedModelsTest, WhatCanNotBeCountedIsRefusedByItsKey) {
  for (const auto& [file, reason] : kRefused) {
    TIDEWHEEL_REQUIRE_SHARED(path, absl::StrCat("models/", file));
    EXPECT_THAT(LoadModelConfig(path),
                StatusIs(absl::StatusCode::kUnimplemented,
                         AllOf(HasSubstr(file), HasSubstr(reason))));
  }
}

TEST(SharedModelsTest, EveryFileHasAnExpectedOutcome) {
  TIDEWHEEL_REQUIRE_SHARED(folder, "models");
  std::set<std::string> expected = {"Qwen--Qwen3-32B-FP8.json",
                                    "openai--gpt-oss-20b.json"};
  for (const Supported& model : kSupported) expected.insert(model.file);
  for (const auto& refused : kRefused) expected.insert(refused.first);
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      found.insert(entry.path().filename().string());
    }
  }
  EXPECT_EQ(found, expected);
}

TEST(BuiltinModelsTest, AreTheShapesOfTheirConfigurations) {
  const std::pair<const char*, const char*> files[] = {
      {"llama-3.1-8b", "meta-llama--Meta-Llama-3.1-8B.json"},
      {"llama-3.1-70b", "meta-llama--Meta-Llama-3.1-70B.json"},
      {"llama-3.3-70b", "meta-llama--Meta-Llama-3.1-70B.json"},
      {"llama-3.1-405b", "meta-llama--Meta-Llama-3.1-405B.json"},
      {"qwen3-0.6b", "Qwen--Qwen3-0.6B.json"},
      {"qwen3-8b", "Qwen--Qwen3-8B.json"},
      {"qwen3-32b", "Qwen--Qwen3-32B.json"},
      {"qwen3-30b-a3b", "Qwen--Qwen3-30B-A3B.json"},
      {"mixtral-8x7b", "mistralai--Mixtral-8x7B-v0.1.json"}};
  for (const auto& [name, file] : files) {
    TIDEWHEEL_REQUIRE_SHARED(path, absl::StrCat("models/", file));
    const auto read = LoadModelConfig(path);
    const auto built_in = LoadModelConfig(name);
    ASSERT_THAT(read, IsOk());
    ASSERT_THAT(built_in, IsOk());
    EXPECT_THAT(built_in->notes, IsEmpty());
    const ModelShape::Options& a = built_in->shape.options();
    const ModelShape::Options& b = read->shape.options();
    EXPECT_EQ(built_in->shape.total_params(), read->shape.total_params());
    EXPECT_EQ(built_in->shape.active_params(), read->shape.active_params());
    EXPECT_EQ(built_in->shape.weight_bytes(), read->shape.weight_bytes());
    EXPECT_EQ(built_in->shape.matmul_flops_per_token(),
              read->shape.matmul_flops_per_token());
    EXPECT_EQ(a.num_layers, b.num_layers);
    EXPECT_EQ(a.num_heads, b.num_heads);
    EXPECT_EQ(a.num_kv_heads, b.num_kv_heads);
    EXPECT_EQ(a.head_dim, b.head_dim);
    EXPECT_EQ(a.max_position_embeddings, b.max_position_embeddings);
  }
}

TEST(BuiltinModelsTest, AreFoundByNameAndHuggingFaceIdInAnyCase) {
  for (const char* name :
       {"llama-3.1-8b", "Llama-3.1-8B", "meta-llama/Llama-3.1-8B",
        "meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"}) {
    const auto config = LoadModelConfig(name);
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(config->shape.options().name, "llama-3.1-8b");
  }
  for (const char* name :
       {"Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-Instruct-v0.1"}) {
    EXPECT_THAT(LoadModelConfig(name), IsOk());
  }
  for (const std::string& name : BuiltinModelNames()) {
    EXPECT_THAT(LoadModelConfig(name), IsOk());
  }
}

TEST(BuiltinModelsTest, AnUnknownNameListsTheKnownOnes) {
  for (const char* name : {"", "llama", "gpt-5", "/no/such/config.json"}) {
    EXPECT_THAT(
        LoadModelConfig(name),
        StatusIs(absl::StatusCode::kNotFound,
                 AllOf(HasSubstr(absl::StrCat("\"", name, "\"")),
                       HasSubstr("llama-3.1-8b"), HasSubstr("mixtral-8x7b"))));
  }
}

TEST(ModelConfigTest, AFolderStandsForItsConfig) {
  const TemporaryFolder folder;
  folder.Write("config.json", kTiny);
  const auto config = LoadModelConfig(folder.path().string());
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.options().num_layers, 2);
}

// Architectures without a file among the shared ones, against what their
// authors publish.
TEST(ModelConfigTest, OtherArchitecturesCountAsPublished) {
  struct Case {
    const char* json;
    int64_t params;
  };
  const Case cases[] = {
      // Mistral-7B-v0.3 has 32768 tokens; this is v0.1.
      {R"({"model_type": "mistral", "hidden_size": 4096,
           "intermediate_size": 14336, "num_attention_heads": 32,
           "num_key_value_heads": 8, "num_hidden_layers": 32,
           "vocab_size": 32000, "max_position_embeddings": 32768,
           "sliding_window": 4096})",
       7'241'732'096},
      // Qwen2.5-7B: biases on Q, K and V.
      {R"({"model_type": "qwen2", "hidden_size": 3584,
           "intermediate_size": 18944, "num_attention_heads": 28,
           "num_key_value_heads": 4, "num_hidden_layers": 28,
           "vocab_size": 152064, "max_position_embeddings": 131072,
           "sliding_window": 131072, "use_sliding_window": false})",
       7'615'616'512},
      // Phi-3-mini: a KV head for each query head.
      {R"({"model_type": "phi3", "hidden_size": 3072,
           "intermediate_size": 8192, "num_attention_heads": 32,
           "num_key_value_heads": 32, "num_hidden_layers": 32,
           "vocab_size": 32064, "max_position_embeddings": 4096,
           "sliding_window": 2047})",
       3'821'079'552},
      // Gemma-2-2b: tied by default, four norms a layer.
      {R"({"model_type": "gemma2", "hidden_size": 2304, "head_dim": 256,
           "intermediate_size": 9216, "num_attention_heads": 8,
           "num_key_value_heads": 4, "num_hidden_layers": 26,
           "vocab_size": 256000, "max_position_embeddings": 8192,
           "sliding_window": 4096})",
       2'614'341'888}};
  for (const Case& c : cases) {
    const auto config = Parse(c.json);
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(config->shape.total_params(), c.params) << c.json;
  }
}

TEST(ModelConfigTest, WindowsAreNotedWhereTheyMatter) {
  const auto noted = [](const std::string& json, const char* text) {
    const auto config = Parse(json);
    ASSERT_THAT(config, IsOk());
    EXPECT_THAT(config->notes, ElementsAre(HasSubstr(text))) << json;
  };
  const auto unnoted = [](const std::string& json) {
    const auto config = Parse(json);
    ASSERT_THAT(config, IsOk());
    EXPECT_THAT(config->notes, IsEmpty()) << json;
  };
  // One of two layers of 512 tokens with a window of 64: 1024 / 576.
  noted(TinyWith(R"("sliding_window": 64,
                    "layer_types": ["full_attention", "sliding_attention"])"),
        "1.78 times at 512 tokens");
  noted(TinyWith(R"("sliding_window": 64)"), "2 of 2 layers");
  unnoted(TinyWith(R"("sliding_window": 512)"));
  unnoted(TinyWith(R"("sliding_window": null)"));
  unnoted(TinyWith(R"("sliding_window": 64,
                      "layer_types": ["full_attention", "full_attention"])"));

  std::string qwen = TinyWith(
      R"("sliding_window": 64, "use_sliding_window": true,
         "max_window_layers": 1)");
  absl::StrReplaceAll({{"llama", "qwen2"}}, &qwen);
  noted(qwen, "1 of 2 layers");
  absl::StrReplaceAll(
      {{"\"use_sliding_window\": true", "\"use_sliding_window\": false"}},
      &qwen);
  unnoted(qwen);
}

TEST(ModelConfigTest, AbsentHeadsAndHeadDimHaveTheirDefaults) {
  auto config = Parse(kTiny);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.options().head_dim, 16);
  config = Parse(Tiny("\"num_key_value_heads\": 2,", ""));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.options().num_kv_heads, 4);
  EXPECT_THAT(config->notes, Contains(HasSubstr("num_key_value_heads")));
  config = Parse(TinyWith("\"head_dim\": 32"));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.options().head_dim, 32);
  // An explicit null is an absent key.
  EXPECT_THAT(Parse(TinyWith("\"head_dim\": null")), IsOk());
  EXPECT_THAT(Parse(Tiny("\"hidden_size\": 64", "\"hidden_size\": 66")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("test.json: head_dim is missing")));
}

TEST(ModelConfigTest, BiasesAreCountedWhereTheFlagsSaySo) {
  const int64_t plain = Parse(kTiny)->shape.total_params();
  EXPECT_EQ(Parse(TinyWith("\"attention_bias\": true"))->shape.total_params(),
            plain + 2 * (64 + 2 * 32 + 64));
  EXPECT_EQ(Parse(TinyWith("\"mlp_bias\": true"))->shape.total_params(),
            plain + 2 * (2 * 128 + 64));
}

TEST(ModelConfigTest, MixturesFollowTheirStepAndExceptions) {
  const std::string moe = R"({"model_type": "qwen3_moe", "hidden_size": 64,
    "intermediate_size": 128, "moe_intermediate_size": 32, "num_experts": 4,
    "num_experts_per_tok": 2, "decoder_sparse_step": STEP,
    "mlp_only_layers": ONLY, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 6, "vocab_size": 100,
    "max_position_embeddings": 512})";
  for (const auto& [step, only, layers] : {std::tuple{"1", "[]", 6},
                                           {"2", "[]", 3},
                                           {"1", "[0, 5]", 4},
                                           {"2", "[1]", 2}}) {
    const auto config =
        Parse(absl::StrReplaceAll(moe, {{"STEP", step}, {"ONLY", only}}));
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(config->shape.options().num_moe_layers, layers)
        << step << " " << only;
  }
  EXPECT_THAT(Parse(absl::StrReplaceAll(moe, {{"STEP", "0"}, {"ONLY", "[]"}})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("decoder_sparse_step")));
  EXPECT_THAT(
      Parse(absl::StrReplaceAll(moe, {{"STEP", "1"}, {"ONLY", "[\"0\"]"}})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("mlp_only_layers")));
}

TEST(ModelConfigTest, WeightsAreStoredAsTheConfigurationSays) {
  const int64_t params = Parse(kTiny)->shape.total_params();
  auto config = Parse(Tiny("bfloat16", "float32"));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.weight_bytes(), 4 * params);
  // The newer name of the key wins over the older.
  config = Parse(TinyWith("\"dtype\": \"float32\""));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.weight_bytes(), 4 * params);
  config = Parse(Tiny(", \"torch_dtype\": \"bfloat16\"", ""));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.weight_bytes(), 2 * params);
  EXPECT_THAT(config->notes, Contains(HasSubstr("no dtype")));
  EXPECT_THAT(Parse(Tiny("bfloat16", "int3")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("int3")));

  const auto dtypes = [](absl::string_view quantization) {
    const auto parsed = Parse(
        TinyWith(absl::StrCat("\"quantization_config\": ", quantization)));
    EXPECT_THAT(parsed, IsOk());
    return std::pair(parsed->shape.options().attention_dtype,
                     parsed->shape.options().ffn_dtype);
  };
  using D = WeightDtype;
  EXPECT_EQ(dtypes(R"({"quant_method": "fp8"})"), std::pair(D::kFp8, D::kFp8));
  EXPECT_EQ(dtypes(R"({"quant_method": "compressed-tensors", "config_groups":
    {"group_0": {"weights": {"num_bits": 8, "type": "int"}}},
    "ignore": ["lm_head"]})"),
            std::pair(D::kInt8, D::kInt8));
  EXPECT_EQ(dtypes(R"({"quant_method": "fp8",
    "modules_to_not_convert": ["re:.*self_attn.*", "lm_head"]})"),
            std::pair(D::kBf16, D::kFp8));

  for (const auto& [quantization, reason] :
       {std::pair{R"({"quant_method": "awq", "bits": 4})", "awq"},
        {R"({"bits": 4})", "quant_method"},
        {R"({"quant_method": "compressed-tensors", "config_groups":
             {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}})",
         "4-bit int"}}) {
    EXPECT_THAT(Parse(TinyWith(
                    absl::StrCat("\"quantization_config\": ", quantization))),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(reason)));
  }
  EXPECT_THAT(Parse(TinyWith("\"quantization_config\": \"fp8\"")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("quantization_config")));
  config = Parse(TinyWith(R"("quantization_config": {"quant_method": "fp8",
      "modules_to_not_convert": ["model.layers.0.mlp.down_proj"]})"));
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->notes, Contains(HasSubstr("lower bound")));
}

TEST(ModelConfigTest, ArchitecturesThatAreNotKnownAreRefusedByName) {
  EXPECT_THAT(Parse(Tiny("llama", "falcon")),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("test.json"), HasSubstr("\"falcon\""),
                             HasSubstr("qwen3_moe"))));
  EXPECT_THAT(Parse(Tiny("\"model_type\": \"llama\",", "")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model_type is missing")));
  for (const auto& [keys, reason] :
       {std::pair{"\"kv_lora_rank\": 512", "latent"},
        {"\"layer_types\": [\"mamba\", \"full_attention\"]", "1 of 2"},
        {"\"num_kv_shared_layers\": 1", "another layer's KV"},
        {"\"is_encoder_decoder\": true", "encoder"},
        {"\"cross_attention_layers\": [1]", "image"},
        {"\"v_head_dim\": 8", "v_head_dim 8"},
        {"\"block_configs\": [{\"attention\": {\"no_op\": true}}]",
         "1 of 1"}}) {
    EXPECT_THAT(Parse(TinyWith(keys)),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(reason)));
  }
}

TEST(ModelConfigTest, EveryRequiredKeyIsAskedForByName) {
  for (const char* key :
       {"hidden_size", "intermediate_size", "num_attention_heads",
        "num_hidden_layers", "vocab_size", "max_position_embeddings"}) {
    EXPECT_THAT(
        Parse(Tiny(absl::StrCat("\"", key, "\""), "\"other\"")),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(absl::StrCat("test.json: ", key, " is missing"))));
  }
}

TEST(ModelConfigTest, WrongTypesAndRangesAreRefusedWithTheValue) {
  for (const char* bad :
       {"0", "-1", "2.0", "2.5", "\"2\"", "true", "[2]", "{}", "1e3",
        "2147483648", "9223372036854775807", "9223372036854775808"}) {
    EXPECT_THAT(
        Parse(Tiny("\"num_hidden_layers\": 2",
                   absl::StrCat("\"num_hidden_layers\": ", bad))),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("test.json: num_hidden_layers must be an integer")))
        << bad;
  }
  EXPECT_THAT(Parse(Tiny("false", "\"no\"")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tie_word_embeddings must be true or false")));
  EXPECT_THAT(Parse(Tiny("\"llama\"", "7")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model_type must be text, not 7")));
  EXPECT_THAT(
      Parse(Tiny("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("num_key_value_heads 3 does not divide")));
  EXPECT_THAT(Parse(TinyWith("\"layer_types\": \"full_attention\"")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("layer_types must be a list")));
}

TEST(ModelConfigTest, TextThatIsNoConfigurationIsRefusedWithTheFile) {
  const std::string deep(3'000'000, '[');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("3"),
        std::string("null"), std::string("{\"a\": }"),
        std::string("{\"a\": 1,}"), std::string("\0\0", 2), deep,
        std::string("{\"text_config\": 5}"), std::string("\xff\xfe{}")}) {
    EXPECT_THAT(Parse(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("test.json")))
        << text.substr(0, 40);
  }
  EXPECT_THAT(Parse(absl::StrCat("\xEF\xBB\xBF", kTiny)), IsOk());
}

TEST(ModelConfigTest, AKeyThatAppearsTwiceIsRefused) {
  EXPECT_THAT(Parse(TinyWith("\"hidden_size\": 128")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"hidden_size\" appears twice")));
}

TEST(ModelConfigTest, ANestedConfigurationComesBeforeTheTopLevel) {
  const auto config = Parse(absl::StrCat(
      R"({"model_type": "wrapper", "hidden_size": 8, "text_config": )", kTiny,
      "}"));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->shape.options().hidden_size, 64);
}

}  // namespace
}  // namespace tidewheel
