#include "scheduler/submission.h"

#include <algorithm>
#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "scheduler/sequence_store.h"

namespace tidewheel {
namespace {

constexpr absl::string_view kPayload = "tidewheel/refusal";

constexpr Refusal kRefusals[] = {
    Refusal::kEmptyPrompt,         Refusal::kInvalidOption,
    Refusal::kExceedsModel,        Refusal::kExceedsPool,
    Refusal::kExceedsStep,         Refusal::kQueueFull,
    Refusal::kTooManyIsolationKeys};

absl::StatusCode CodeOf(Refusal refusal) {
  switch (refusal) {
    case Refusal::kQueueFull:
    case Refusal::kTooManyIsolationKeys:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInvalidArgument;
  }
}

absl::Status CheckFields(const Request& request) {
  if (request.prompt.empty()) {
    return RefusalError(Refusal::kEmptyPrompt,
                        "the prompt has 0 tokens; it needs at least 1");
  }
  const auto refuse = [](absl::string_view name, int64_t value,
                         absl::string_view remedy) {
    return RefusalError(Refusal::kInvalidOption,
                        absl::StrCat(name, " is ", value, "; ", remedy));
  };
  if (request.max_new_tokens.has_value() && *request.max_new_tokens < 1) {
    return refuse("max_new_tokens", *request.max_new_tokens,
                  "ask for at least 1, or leave it out");
  }
  if (request.min_new_tokens < 0) {
    return refuse("min_new_tokens", request.min_new_tokens,
                  "it can not be negative");
  }
  if (request.max_new_tokens.has_value() &&
      request.min_new_tokens > *request.max_new_tokens) {
    return refuse("min_new_tokens", request.min_new_tokens,
                  absl::StrCat("it can not exceed max_new_tokens ",
                               *request.max_new_tokens));
  }
  if (request.stop_tokens.size() > Sequence::kMaxStopTokens) {
    return refuse("the number of stop tokens",
                  static_cast<int64_t>(request.stop_tokens.size()),
                  absl::StrCat("at most ", Sequence::kMaxStopTokens,
                               " are compared a step"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view RefusalName(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      return "none";
    case Refusal::kEmptyPrompt:
      return "empty_prompt";
    case Refusal::kInvalidOption:
      return "invalid_option";
    case Refusal::kExceedsModel:
      return "exceeds_model";
    case Refusal::kExceedsPool:
      return "exceeds_pool";
    case Refusal::kExceedsStep:
      return "exceeds_step";
    case Refusal::kQueueFull:
      return "queue_full";
    case Refusal::kTooManyIsolationKeys:
      return "too_many_isolation_keys";
  }
  return "unknown";
}

Refusal RefusalOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return Refusal::kNone;
  for (const Refusal refusal : kRefusals) {
    if (*payload == RefusalName(refusal)) return refusal;
  }
  return Refusal::kNone;
}

absl::Status RefusalError(Refusal refusal, absl::string_view message) {
  absl::Status status(CodeOf(refusal), message);
  status.SetPayload(kPayload, absl::Cord(RefusalName(refusal)));
  return status;
}

absl::StatusOr<LengthLimit> CheckRequest(const Request& request,
                                         const SchedulerOptions& options,
                                         const PageAllocator& allocator) {
  const absl::Status fields = CheckFields(request);
  if (!fields.ok()) return fields;
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt >= options.max_model_len) {
    return RefusalError(Refusal::kExceedsModel,
                        absl::StrCat("prompt of ", prompt,
                                     " tokens leaves no room to generate "
                                     "within max_model_len ",
                                     options.max_model_len,
                                     "; shorten it or raise max_model_len"));
  }
  const int64_t page_size = allocator.page_size();
  const int64_t pool_pages = allocator.options().total_num_pages - 1;
  const int64_t pool_tokens = pool_pages * page_size + 1;
  if (!options.chunked_prefill && prompt > options.max_num_batched_tokens) {
    return RefusalError(
        Refusal::kExceedsStep,
        absl::StrCat("prompt of ", prompt,
                     " tokens exceeds "
                     "max_num_batched_tokens ",
                     options.max_num_batched_tokens,
                     " and chunked prefill is off; turn it on or raise "
                     "max_num_batched_tokens"));
  }
  LengthLimit limit;
  if (request.max_new_tokens.has_value()) {
    const int64_t total = prompt + *request.max_new_tokens;
    if (total > options.max_model_len) {
      return RefusalError(
          Refusal::kExceedsModel,
          absl::StrCat("prompt of ", prompt, " tokens and max_new_tokens ",
                       *request.max_new_tokens, " exceed max_model_len ",
                       options.max_model_len,
                       "; lower max_new_tokens or raise max_model_len"));
    }
    if (total > pool_tokens) {
      return RefusalError(
          Refusal::kExceedsPool,
          absl::StrCat("prompt of ", prompt, " tokens and max_new_tokens ",
                       *request.max_new_tokens, " need ",
                       (total - 1 + page_size - 1) / page_size, " pages of ",
                       page_size, " tokens but the whole pool has ", pool_pages,
                       "; lower max_new_tokens or raise total_num_pages"));
    }
    limit.max_tokens = static_cast<int32_t>(total);
    return limit;
  }
  if (prompt >= pool_tokens) {
    return RefusalError(
        Refusal::kExceedsPool,
        absl::StrCat("prompt of ", prompt, " tokens needs ",
                     (prompt + page_size - 1) / page_size, " pages of ",
                     page_size, " tokens but the whole pool has ", pool_pages,
                     "; shorten it or raise total_num_pages"));
  }
  limit.max_tokens = static_cast<int32_t>(
      std::min<int64_t>(options.max_model_len, pool_tokens));
  limit.reason = options.max_model_len <= pool_tokens
                     ? FinishReason::kModelLength
                     : FinishReason::kPoolCapacity;
  return limit;
}

}  // namespace tidewheel
