// ServerConfig: a server's configuration as a file, tidewheel.json.
//
// `tune --output` writes it, `simulate --config` reads it. One flat object:
//
//   key                     simulate flag             library option
//   tidewheel_config        -                         - (the format: 1)
//   model                   --model                   -
//   chip, chips             --chip, --chips           -
//   kv_dtype                --kv-dtype                -
//   page_size               --page-size               PageAllocator::Options
//   total_num_pages         --num-pages               PageAllocator::Options
//   prefix_cache            --no-prefix-cache         enable_prefix_cache
//   max_num_seqs            --max-num-seqs            both
//   max_model_len           --max-model-len           SchedulerOptions, and
//                                                     pages_per_seq of the
//                                                     allocator, in pages
//   max_num_batched_tokens  --max-num-batched-tokens  SchedulerOptions
//   policy, admission       --policy, --admission     SchedulerOptions
//   watermark_pages         --watermark               SchedulerOptions
//   chunked_prefill         --no-chunked-prefill      SchedulerOptions
//   max_prefill_chunk       --max-prefill-chunk       SchedulerOptions
//
// Every key may be left out, and keeps its default. A flag that is given
// beside the file wins.

#ifndef TIDEWHEEL_TOOLS_SERVER_CONFIG_FILE_H_
#define TIDEWHEEL_TOOLS_SERVER_CONFIG_FILE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "allocator/page_allocator.h"
#include "scheduler/scheduler_options.h"
#include "tools/serving_setup.h"
#include "tools/simulate_flags.h"

namespace tidewheel {

struct ServerConfig {
  std::optional<std::string> model;
  std::optional<std::string> chip;
  std::optional<int32_t> chips;
  std::optional<std::string> kv_dtype;
  std::optional<int32_t> page_size;
  std::optional<int64_t> total_num_pages;
  std::optional<bool> prefix_cache;
  std::optional<int32_t> max_num_seqs;
  std::optional<int32_t> max_model_len;
  std::optional<int32_t> max_num_batched_tokens;
  std::optional<OrderingPolicy> policy;
  std::optional<AdmissionPolicy> admission;
  std::optional<int32_t> watermark_pages;
  std::optional<bool> chunked_prefill;
  std::optional<int32_t> max_prefill_chunk;

  friend bool operator==(const ServerConfig&, const ServerConfig&) = default;
};

// What `setup` is made of; `model` as the user named it.
ServerConfig ConfigOf(const ServingSetup& setup, const std::string& model,
                      const std::string& chip);

// Ends with a newline. Keys that are absent are left out.
std::string ServerConfigJson(const ServerConfig& config);

// Errors: InvalidArgument with the place (line and column, or key) for what is
// no JSON, an unknown or repeated key, a wrong type or a value out of range,
// and a watermark_pages without total_num_pages. `name` stands before it.
absl::StatusOr<ServerConfig> ParseServerConfig(absl::string_view json,
                                               absl::string_view name);
// Errors: NotFound; those of ParseServerConfig.
absl::StatusOr<ServerConfig> ReadServerConfig(const std::string& path);

// Sets the flags that the configuration has, but not those for whose name
// `is_given` is true.
void ApplyServerConfig(const ServerConfig& config,
                       const std::function<bool(const char*)>& is_given,
                       SimulateFlags& flags);

struct LibraryOptions {
  PageAllocator::Options allocator;
  SchedulerOptions scheduler;
};

// The same as options of the library.
// Errors: InvalidArgument where a key is absent that has no default there:
// page_size, total_num_pages, max_num_seqs, max_model_len and
// max_num_batched_tokens.
absl::StatusOr<LibraryOptions> LibraryOptionsOf(const ServerConfig& config);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_SERVER_CONFIG_FILE_H_
