#include "tools/config_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "allocator/status_macros.h"
#include "tools/byte_size.h"
#include "tools/config_report.h"
#include "tools/model_config.h"

namespace tidewheel {

void AddConfigFlags(CLI::App& command, ConfigFlags& flags) {
  ConfigurationShape& shape = flags.shape;
  shape.max_num_seqs = 256;
  command
      .add_option("--chips", shape.chips,
                  "Chips that share one copy of the model")
      ->capture_default_str();
  command
      .add_option("--max-num-seqs", shape.max_num_seqs,
                  "Sequences in a step at most")
      ->capture_default_str();
  command.add_option("--page-size", shape.page_size, "Tokens of a page")
      ->capture_default_str();
  command.add_option("--max-model-len", flags.max_model_len,
                     "Tokens of a sequence at most (default: the model's)");
  command
      .add_option("--max-num-batched-tokens", shape.max_num_batched_tokens,
                  "Tokens in a step at most")
      ->capture_default_str();
  command.add_option("--num-pages", shape.num_pages,
                     "Pages of the pool, with the null page");
  command.add_option("--table-rows", shape.table_rows,
                     "Rows of a page table that exists already");
  command
      .add_option("--kv-dtype", flags.kv_dtype,
                  "auto, f32, bf16, fp8_e4m3, fp8_e5m2 or int8")
      ->capture_default_str();
  command.add_flag("--kv-scales", shape.has_kv_scales,
                   "K and V are scaled as they are read");
  command.add_option("--vmem-limit-bytes", flags.vmem_limit,
                     "Vector memory for the kernel, bytes or with unit");
  command.add_option("--num-kv-pages-per-block", shape.num_kv_pages_per_block,
                     "Pages of a KV block of the kernel");
  command.add_option("--num-queries-per-block", shape.num_queries_per_block,
                     "Query tokens of a block of the kernel");
}

absl::StatusOr<ConfigurationShape> ReadConfiguration(const ConfigFlags& flags) {
  ConfigurationShape shape = flags.shape;
  TIDEWHEEL_ASSIGN_OR_RETURN(shape.generation, ParseTpuGeneration(flags.chip));
  if (flags.kv_dtype != "auto") {
    TIDEWHEEL_ASSIGN_OR_RETURN(shape.kv_dtype, ParseKvDtype(flags.kv_dtype));
  }
  if (!flags.vmem_limit.empty()) {
    // Kernels name this limit in bytes, so a bare number is one.
    int64_t bytes = 0;
    if (!absl::SimpleAtoi(flags.vmem_limit, &bytes)) {
      TIDEWHEEL_ASSIGN_OR_RETURN(bytes, ParseByteSize(flags.vmem_limit));
    }
    shape.vmem_limit_bytes = bytes;
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const ModelConfig model,
                             LoadModelConfig(flags.model));
  const ModelShape::Options& options = model.shape.options();
  shape.num_q_heads = options.num_heads;
  shape.num_kv_heads = options.num_kv_heads;
  shape.head_dim = options.head_dim;
  shape.max_model_len =
      flags.max_model_len.value_or(options.max_position_embeddings);
  return shape;
}

int RunConfigCommand(const ConfigFlags& flags, CommandContext& context) {
  const absl::StatusOr<ConfigurationShape> shape = ReadConfiguration(flags);
  if (!shape.ok()) {
    const std::string message(shape.status().message());
    std::fprintf(context.err, "tidewheel check: %s\n", message.c_str());
    return kExitBadInput;
  }
  return RunConfigReport(*shape, {.json = flags.json}, context.out);
}

}  // namespace tidewheel
