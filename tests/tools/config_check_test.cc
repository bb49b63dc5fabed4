// `tidewheel check --model`: configurations and what is wrong with them.

#include "tools/config_check.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/captured_output.h"
#include "tools/config_report.h"
#include "tools/nearest_configuration.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An 8B model on one v6e, as it is served.
ConfigurationShape Llama8B() {
  ConfigurationShape shape;
  shape.generation = TpuGeneration::kV6e;
  shape.num_q_heads = 32;
  shape.num_kv_heads = 8;
  shape.max_num_seqs = 256;
  shape.page_size = 32;
  shape.max_model_len = 8192;
  shape.max_num_batched_tokens = 2048;
  return shape;
}

std::vector<std::string> Names(const ConfigurationShape& shape) {
  std::vector<std::string> names;
  for (const Finding& finding : CheckConfiguration(shape)) {
    names.push_back(finding.name);
  }
  return names;
}

std::string TextOf(const ConfigurationShape& shape, const std::string& name) {
  for (const Finding& finding : CheckConfiguration(shape)) {
    if (finding.name == name) return finding.text;
  }
  return "no finding named " + name;
}

TEST(ConfigCheckTest, AServedConfigurationHolds) {
  EXPECT_THAT(CheckConfiguration(Llama8B()), IsEmpty());
}

TEST(ConfigCheckTest, ACacheThatShrankUnderItsLimitsIsNamed) {
  ConfigurationShape shape = Llama8B();
  shape.num_pages = 65;
  EXPECT_THAT(TextOf(shape, "cache-smaller-than-a-sequence"),
              AllOf(HasSubstr("leaves 64 usable pages (2048 tokens)"),
                    HasSubstr("needs 256"), HasSubstr("raise num_pages to 257"),
                    HasSubstr("lower max_model_len to 2048")));
  EXPECT_THAT(TextOf(shape, "cache-smaller-than-its-rows"),
              HasSubstr("lower max_num_seqs to 64"));
  shape.num_pages = 64;
  EXPECT_THAT(TextOf(shape, "cache-smaller-than-a-step"),
              HasSubstr("lower max_num_batched_tokens to 2016"));
  shape.num_pages = 257;
  EXPECT_THAT(Names(shape), IsEmpty());
}

TEST(ConfigCheckTest, MoreSequencesThanTableRowsAreNamed) {
  ConfigurationShape shape = Llama8B();
  shape.table_rows = 128;
  EXPECT_THAT(TextOf(shape, "max-num-seqs-above-table-rows"),
              HasSubstr("exceeds the 128 rows"));
  shape = Llama8B();
  shape.page_size = 16;
  shape.max_num_seqs = 505;
  EXPECT_THAT(TextOf(shape, "max-num-seqs-above-table-rows"),
              AllOf(HasSubstr("lower max_num_seqs to 504"),
                    HasSubstr("raise page_size to 32")));
  shape.max_num_seqs = 504;
  EXPECT_THAT(Names(shape), IsEmpty());
}

TEST(ConfigCheckTest, ABlockLargerThanASequenceIsNamed) {
  ConfigurationShape shape = Llama8B();
  shape.max_model_len = 1024;
  shape.num_kv_pages_per_block = 33;
  shape.num_queries_per_block = 32;
  EXPECT_THAT(TextOf(shape, "block-larger-than-sequence"),
              HasSubstr("lower it to at most 32"));
  shape.num_kv_pages_per_block = 16;
  EXPECT_THAT(Names(shape), IsEmpty());
}

TEST(ConfigCheckTest, AVmemConstantOfAnotherGenerationIsNamed) {
  ConfigurationShape shape = Llama8B();
  shape.vmem_limit_bytes = int64_t{100} << 20;
  EXPECT_THAT(Names(shape), IsEmpty());
  shape.generation = TpuGeneration::kV7x;
  EXPECT_THAT(TextOf(shape, "vmem-limit-of-another-generation"),
              AllOf(HasSubstr("of v7x (it would suit v5e, v6e)"),
                    HasSubstr("default of 33554432")));
  shape.generation = TpuGeneration::kV6e;
  shape.vmem_limit_bytes = int64_t{16} << 20;
  EXPECT_THAT(TextOf(shape, "vmem-limit-of-another-generation"),
              HasSubstr("is the default of v4, v5e, v5p, but that of v6e is"));
}

TEST(ConfigCheckTest, BlocksThatOverflowVmemCarryTheClass) {
  ConfigurationShape shape = Llama8B();
  shape.num_kv_pages_per_block = 128;
  shape.num_queries_per_block = 256;
  EXPECT_THAT(TextOf(shape, "oom_vmem") + TextOf(shape, "oom_scoped_vmem"),
              HasSubstr("blocks of 128 pages (4096 tokens) x 256 queries"));
}

TEST(ConfigCheckTest, HeadsMustDivideOverTheChips) {
  ConfigurationShape shape = Llama8B();
  shape.chips = 3;
  EXPECT_THAT(TextOf(shape, "heads-not-divisible"),
              HasSubstr("32 query heads do not divide over 3 chips"));
  // More chips than KV heads: each head is repeated.
  shape.chips = 16;
  EXPECT_THAT(Names(shape), IsEmpty());
}

TEST(ConfigCheckTest, OneFp8KvHeadAChipIsRefused) {
  ConfigurationShape shape = Llama8B();
  shape.kv_dtype = KvDtype::kFp8E4m3;
  shape.chips = 8;
  EXPECT_THAT(TextOf(shape, "export_heads_not_tileable"),
              HasSubstr("has 2 KV heads"));
  shape.chips = 4;
  EXPECT_THAT(Names(shape), IsEmpty());
}

TEST(ConfigCheckTest, PaddingIsAdvice) {
  ConfigurationShape shape = Llama8B();
  shape.head_dim = 64;
  shape.max_num_batched_tokens = 3000;
  const std::vector<Finding> findings = CheckConfiguration(shape);
  EXPECT_TRUE(Holds(findings));
  EXPECT_THAT(TextOf(shape, "head-dim-padded"), HasSubstr("128/64"));
  EXPECT_THAT(TextOf(shape, "budget-not-a-bucket"), HasSubstr("4096"));
  shape.max_num_batched_tokens = 128;
  EXPECT_THAT(TextOf(shape, "budget-below-rows"), HasSubstr("raise it to 256"));
}

TEST(ConfigCheckTest, NumbersThatAreNoSizesAreNamed) {
  ConfigurationShape shape;
  EXPECT_THAT(TextOf(shape, "not-a-size"), HasSubstr("is not positive"));
  EXPECT_EQ(NearestThatHolds(shape), std::nullopt);
  shape = Llama8B();
  shape.num_queries_per_block = 32;
  EXPECT_THAT(TextOf(shape, "half-a-block"), HasSubstr("give both or neither"));
}

TEST(NearestConfigurationTest, AConfigurationThatHoldsIsItsOwn) {
  const ConfigurationShape nearest = NearestThatHolds(Llama8B()).value();
  EXPECT_EQ(nearest.page_size, 32);
  EXPECT_EQ(nearest.max_num_seqs, 256);
  EXPECT_EQ(nearest.num_kv_pages_per_block, std::nullopt);
}

TEST(NearestConfigurationTest, ATableGivesUpTheSmallerFactor) {
  ConfigurationShape shape = Llama8B();
  shape.page_size = 16;
  // 512 pages a sequence: 504 rows fit, 600 would need pages of 32.
  shape.max_num_seqs = 600;
  EXPECT_EQ(NearestThatHolds(shape).value().max_num_seqs, 504);
  EXPECT_EQ(NearestThatHolds(shape).value().page_size, 16);
  shape.max_num_seqs = 1008;
  EXPECT_EQ(NearestThatHolds(shape).value().max_num_seqs, 1008);
  EXPECT_EQ(NearestThatHolds(shape).value().page_size, 32);
}

TEST(NearestConfigurationTest, WhateverIsFoundHolds) {
  int found = 0;
  for (const TpuGeneration generation : AllTpuGenerations()) {
    for (const int32_t chips : {1, 2, 3, 8, 16}) {
      for (const KvDtype dtype :
           {KvDtype::kBf16, KvDtype::kFp8E4m3, KvDtype::kF32, KvDtype::kInt8}) {
        for (const int64_t num_pages : {1, 2, 100, 100000}) {
          for (const int32_t seqs : {1, 256, 5000}) {
            for (const int32_t head_dim : {64, 128, 256}) {
              ConfigurationShape shape = Llama8B();
              shape.generation = generation;
              shape.chips = chips;
              shape.kv_dtype = dtype;
              shape.num_pages = num_pages;
              shape.max_num_seqs = seqs;
              shape.head_dim = head_dim;
              shape.num_kv_pages_per_block = 512;
              shape.num_queries_per_block = 512;
              shape.vmem_limit_bytes = int64_t{100} << 20;
              const std::optional<ConfigurationShape> nearest =
                  NearestThatHolds(shape);
              if (!nearest.has_value()) continue;
              ++found;
              ASSERT_TRUE(Holds(CheckConfiguration(*nearest)));
            }
          }
        }
      }
    }
  }
  EXPECT_GT(found, 3000);
}

TEST(NearestConfigurationTest, TheCacheIsKeptAndItsLimitsFollow) {
  ConfigurationShape shape = Llama8B();
  shape.num_pages = 65;
  const ConfigurationShape nearest = NearestThatHolds(shape).value();
  EXPECT_EQ(nearest.num_pages, 65);
  EXPECT_EQ(nearest.max_model_len, 2048);
  EXPECT_EQ(nearest.max_num_seqs, 64);
}

TEST(NearestConfigurationTest, V4GetsScalesForFp8) {
  ConfigurationShape shape = Llama8B();
  shape.generation = TpuGeneration::kV4;
  shape.kv_dtype = KvDtype::kFp8E4m3;
  const ConfigurationShape nearest = NearestThatHolds(shape).value();
  EXPECT_TRUE(nearest.has_kv_scales);
  EXPECT_EQ(nearest.kv_dtype, KvDtype::kFp8E4m3);
}

TEST(ConfigReportTest, JsonHoldsFindingsNeedsAndTheNearest) {
  ConfigurationShape shape = Llama8B();
  shape.num_pages = 65;
  std::FILE* const file = std::tmpfile();
  EXPECT_EQ(RunConfigReport(shape, {.json = true}, file), 1);
  const nlohmann::json json = nlohmann::json::parse(TakeText(file));
  EXPECT_EQ(json["holds"], false);
  EXPECT_EQ(json["findings"][0]["severity"], "error");
  EXPECT_EQ(json["needs"]["pages_per_seq"], 256);
  EXPECT_EQ(json["needs"]["num_queries_per_block"], 32);
  EXPECT_EQ(json["nearest"]["max-num-seqs"], "64");
  EXPECT_EQ(json["nearest"]["max-model-len"], "2048");
  EXPECT_EQ(json["nearest"].size(), 2);
}

TEST(ConfigReportTest, TextSaysWhetherItHolds) {
  std::FILE* file = std::tmpfile();
  EXPECT_EQ(RunConfigReport(Llama8B(), {}, file), 0);
  EXPECT_THAT(TakeText(file), HasSubstr("the configuration holds"));
  ConfigurationShape shape = Llama8B();
  shape.vmem_limit_bytes = int64_t{300} << 20;
  file = std::tmpfile();
  EXPECT_EQ(RunConfigReport(shape, {}, file), 1);
  EXPECT_THAT(TakeText(file),
              AllOf(HasSubstr("error: vmem-limit-of-another-generation"),
                    HasSubstr("nearest configuration that holds: (without "
                              "--vmem-limit-bytes)")));
}

TEST(ConfigReportTest, NoNumbersStillGiveAReport) {
  std::FILE* const file = std::tmpfile();
  EXPECT_EQ(RunConfigReport(ConfigurationShape(), {.json = true}, file), 1);
  const nlohmann::json json = nlohmann::json::parse(TakeText(file));
  EXPECT_TRUE(json["nearest"].is_null());
}

}  // namespace
}  // namespace tidewheel
