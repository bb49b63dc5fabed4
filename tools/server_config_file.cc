#include "tools/server_config_file.h"

#include <simdjson.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/json_place.h"

namespace tidewheel {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxFileBytes = 1 << 20;
constexpr int64_t kFormat = 1;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::string_view View(std::string_view text) {
  return {text.data(), text.size()};
}

template <typename T>
absl::Status ReadWhole(dom::element value, const std::string& place,
                       int64_t least, std::optional<T>& field) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  int64_t number = 0;
  if (value.get(number) != simdjson::SUCCESS || number < least ||
      number > kMost) {
    return Invalid(place, " is ", std::string(simdjson::minify(value)),
                   "; give a whole number in [", least, ", ", kMost, "]");
  }
  field = static_cast<T>(number);
  return absl::OkStatus();
}

absl::Status ReadBool(dom::element value, const std::string& place,
                      std::optional<bool>& field) {
  bool is_true = false;
  if (value.get(is_true) != simdjson::SUCCESS) {
    return Invalid(place, " is ", std::string(simdjson::minify(value)),
                   "; give true or false");
  }
  field = is_true;
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadText(dom::element value,
                                     const std::string& place) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) {
    return Invalid(place, " is ", std::string(simdjson::minify(value)),
                   "; give a name in quotes");
  }
  return std::string(text);
}

template <typename T, typename Parser>
absl::Status ReadName(dom::element value, const std::string& place,
                      const Parser& parse, std::optional<T>& field) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::string name, ReadText(value, place));
  const absl::StatusOr<T> parsed = parse(name);
  if (!parsed.ok()) return Invalid(place, ": ", parsed.status().message());
  field = *parsed;
  return absl::OkStatus();
}

absl::Status ReadKey(std::string_view key, dom::element value,
                     const std::string& place, ServerConfig& config) {
  if (key == "tidewheel_config") {
    std::optional<int64_t> format;
    TIDEWHEEL_RETURN_IF_ERROR(ReadWhole(value, place, 1, format));
    if (*format == kFormat) return absl::OkStatus();
    return Invalid(place, " is ", *format, ", and this version reads ", kFormat,
                   "; use a newer tidewheel");
  }
  if (key == "model") {
    TIDEWHEEL_ASSIGN_OR_RETURN(config.model, ReadText(value, place));
  } else if (key == "chip") {
    TIDEWHEEL_ASSIGN_OR_RETURN(config.chip, ReadText(value, place));
  } else if (key == "kv_dtype") {
    TIDEWHEEL_ASSIGN_OR_RETURN(config.kv_dtype, ReadText(value, place));
  } else if (key == "chips") {
    return ReadWhole(value, place, 1, config.chips);
  } else if (key == "page_size") {
    return ReadWhole(value, place, 1, config.page_size);
  } else if (key == "total_num_pages") {
    return ReadWhole(value, place, 2, config.total_num_pages);
  } else if (key == "prefix_cache") {
    return ReadBool(value, place, config.prefix_cache);
  } else if (key == "max_num_seqs") {
    return ReadWhole(value, place, 1, config.max_num_seqs);
  } else if (key == "max_model_len") {
    return ReadWhole(value, place, 1, config.max_model_len);
  } else if (key == "max_num_batched_tokens") {
    return ReadWhole(value, place, 1, config.max_num_batched_tokens);
  } else if (key == "policy") {
    return ReadName(value, place, ParseOrderingPolicy, config.policy);
  } else if (key == "admission") {
    return ReadName(value, place, ParseAdmissionPolicy, config.admission);
  } else if (key == "watermark_pages") {
    return ReadWhole(value, place, 0, config.watermark_pages);
  } else if (key == "chunked_prefill") {
    return ReadBool(value, place, config.chunked_prefill);
  } else if (key == "max_prefill_chunk") {
    return ReadWhole(value, place, 1, config.max_prefill_chunk);
  } else {
    return Invalid(
        place,
        " is no key of a server's configuration; use model, chip, chips, "
        "kv_dtype, page_size, total_num_pages, prefix_cache, max_num_seqs, "
        "max_model_len, max_num_batched_tokens, policy, admission, "
        "watermark_pages, chunked_prefill or max_prefill_chunk");
  }
  return absl::OkStatus();
}

// The fraction of usable pages that becomes exactly the watermark again.
double WatermarkFraction(int32_t watermark_pages, int64_t total_num_pages) {
  return (watermark_pages + 0.5) / static_cast<double>(total_num_pages - 1);
}

}  // namespace

ServerConfig ConfigOf(const ServingSetup& setup, const std::string& model,
                      const std::string& chip) {
  ServerConfig config;
  config.model = model;
  config.chip = chip;
  config.chips = setup.plan_options.chips;
  config.kv_dtype = std::string(KvDtypeName(setup.plan_options.kv_dtype));
  config.page_size = setup.allocator.page_size;
  config.total_num_pages = setup.allocator.total_num_pages;
  config.prefix_cache = setup.allocator.enable_prefix_cache;
  config.max_num_seqs = setup.scheduler.max_num_seqs;
  config.max_model_len = setup.scheduler.max_model_len;
  config.max_num_batched_tokens = setup.scheduler.max_num_batched_tokens;
  config.policy = setup.scheduler.policy;
  config.admission = setup.scheduler.admission;
  if (setup.scheduler.admission == AdmissionPolicy::kOptimistic) {
    config.watermark_pages = setup.scheduler.watermark_pages;
  }
  config.chunked_prefill = setup.scheduler.chunked_prefill;
  if (setup.scheduler.max_prefill_chunk > 0) {
    config.max_prefill_chunk = setup.scheduler.max_prefill_chunk;
  }
  return config;
}

std::string ServerConfigJson(const ServerConfig& config) {
  nlohmann::ordered_json json;
  json["tidewheel_config"] = kFormat;
  const auto add = [&json](const char* key, const auto& value) {
    if (value.has_value()) json[key] = *value;
  };
  add("model", config.model);
  add("chip", config.chip);
  add("chips", config.chips);
  add("kv_dtype", config.kv_dtype);
  add("page_size", config.page_size);
  add("total_num_pages", config.total_num_pages);
  add("prefix_cache", config.prefix_cache);
  add("max_num_seqs", config.max_num_seqs);
  add("max_model_len", config.max_model_len);
  add("max_num_batched_tokens", config.max_num_batched_tokens);
  if (config.policy.has_value()) {
    json["policy"] = std::string(OrderingPolicyName(*config.policy));
  }
  if (config.admission.has_value()) {
    json["admission"] = std::string(AdmissionPolicyName(*config.admission));
  }
  add("watermark_pages", config.watermark_pages);
  add("chunked_prefill", config.chunked_prefill);
  add("max_prefill_chunk", config.max_prefill_chunk);
  return json.dump(2) + "\n";
}

absl::StatusOr<ServerConfig> ParseServerConfig(absl::string_view json,
                                               absl::string_view name) {
  dom::parser parser(kMaxFileBytes);
  dom::element root;
  simdjson::error_code error = parser.allocate(json.size(), kMaxDepth);
  if (error == simdjson::SUCCESS) {
    error = parser.parse(simdjson::padded_string(json.data(), json.size()))
                .get(root);
  }
  if (error != simdjson::SUCCESS) {
    return Invalid(
        name, ": ",
        LocateJsonError(json, kMaxDepth, simdjson::error_message(error)));
  }
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return Invalid(name, " is no object; give keys and their values");
  }
  ServerConfig config;
  std::set<std::string_view> seen;
  for (const dom::key_value_pair field : object) {
    const std::string place = absl::StrCat(name, ": ", View(field.key));
    if (!seen.insert(field.key).second) {
      return Invalid(place, " appears twice; remove one");
    }
    TIDEWHEEL_RETURN_IF_ERROR(ReadKey(field.key, field.value, place, config));
  }
  if (config.watermark_pages.has_value()) {
    if (!config.total_num_pages.has_value()) {
      return Invalid(name, ": watermark_pages ", *config.watermark_pages,
                     " needs total_num_pages, of which it is a part; give both "
                     "or neither");
    }
    if (*config.watermark_pages >= *config.total_num_pages - 1) {
      return Invalid(name, ": watermark_pages ", *config.watermark_pages,
                     " leaves none of the ", *config.total_num_pages - 1,
                     " usable pages; lower it");
    }
  }
  return config;
}

absl::StatusOr<ServerConfig> ReadServerConfig(const std::string& path) {
  simdjson::padded_string json;
  if (simdjson::padded_string::load(path).get(json) != simdjson::SUCCESS) {
    return absl::NotFoundError(absl::StrCat(
        path,
        ": can not be read; give a server's configuration, as `tidewheel "
        "tune --output` writes it"));
  }
  if (json.size() > kMaxFileBytes) {
    return Invalid(path, " has ", json.size(), " bytes, more than the ",
                   kMaxFileBytes, " of a configuration; give another file");
  }
  return ParseServerConfig({json.data(), json.size()}, path);
}

void ApplyServerConfig(const ServerConfig& config,
                       const std::function<bool(const char*)>& is_given,
                       SimulateFlags& flags) {
  const auto set = [&is_given](const char* flag, const auto& value,
                               auto& field) {
    if (value.has_value() && !is_given(flag)) field = *value;
  };
  ServingOptions& serving = flags.serving;
  set("--model", config.model, serving.model);
  set("--chip", config.chip, serving.chip);
  set("--chips", config.chips, serving.plan.chips);
  set("--kv-dtype", config.kv_dtype, flags.kv_dtype);
  set("--page-size", config.page_size, serving.plan.page_size);
  set("--num-pages", config.total_num_pages, serving.plan.total_num_pages);
  set("--max-num-seqs", config.max_num_seqs, serving.plan.max_num_seqs);
  set("--max-model-len", config.max_model_len, serving.plan.max_model_len);
  set("--max-num-batched-tokens", config.max_num_batched_tokens,
      serving.plan.max_num_batched_tokens);
  set("--max-prefill-chunk", config.max_prefill_chunk, flags.max_prefill_chunk);
  if (config.prefix_cache.has_value() && !is_given("--no-prefix-cache")) {
    flags.no_prefix_cache = !*config.prefix_cache;
  }
  if (config.chunked_prefill.has_value() && !is_given("--no-chunked-prefill")) {
    flags.no_chunked_prefill = !*config.chunked_prefill;
  }
  if (config.policy.has_value() && !is_given("--policy")) {
    flags.policy = std::string(OrderingPolicyName(*config.policy));
  }
  if (config.admission.has_value() && !is_given("--admission")) {
    flags.admission = std::string(AdmissionPolicyName(*config.admission));
  }
  if (config.watermark_pages.has_value() && !is_given("--watermark")) {
    serving.watermark =
        WatermarkFraction(*config.watermark_pages, *config.total_num_pages);
  }
}

absl::StatusOr<LibraryOptions> LibraryOptionsOf(const ServerConfig& config) {
  const auto need = [](const char* key, bool is_there) {
    return is_there ? absl::OkStatus()
                    : Invalid("the configuration has no ", key,
                              ", which the library has no default for; add it");
  };
  TIDEWHEEL_RETURN_IF_ERROR(need("page_size", config.page_size.has_value()));
  TIDEWHEEL_RETURN_IF_ERROR(
      need("total_num_pages", config.total_num_pages.has_value()));
  TIDEWHEEL_RETURN_IF_ERROR(
      need("max_num_seqs", config.max_num_seqs.has_value()));
  TIDEWHEEL_RETURN_IF_ERROR(
      need("max_model_len", config.max_model_len.has_value()));
  TIDEWHEEL_RETURN_IF_ERROR(need("max_num_batched_tokens",
                                 config.max_num_batched_tokens.has_value()));
  LibraryOptions options;
  PageAllocator::Options& allocator = options.allocator;
  allocator.page_size = *config.page_size;
  allocator.total_num_pages = static_cast<int32_t>(*config.total_num_pages);
  allocator.max_num_seqs = *config.max_num_seqs;
  allocator.pages_per_seq = static_cast<int32_t>(
      (int64_t{*config.max_model_len} + *config.page_size - 1) /
      *config.page_size);
  allocator.enable_prefix_cache =
      config.prefix_cache.value_or(allocator.enable_prefix_cache);
  SchedulerOptions& scheduler = options.scheduler;
  scheduler.max_num_seqs = *config.max_num_seqs;
  scheduler.max_model_len = *config.max_model_len;
  scheduler.max_num_batched_tokens = *config.max_num_batched_tokens;
  scheduler.policy = config.policy.value_or(scheduler.policy);
  scheduler.admission = config.admission.value_or(scheduler.admission);
  scheduler.watermark_pages = config.watermark_pages.value_or(0);
  scheduler.chunked_prefill =
      config.chunked_prefill.value_or(scheduler.chunked_prefill);
  scheduler.max_prefill_chunk = config.max_prefill_chunk.value_or(0);
  return options;
}

}  // namespace tidewheel
