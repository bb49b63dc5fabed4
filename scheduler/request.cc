#include "scheduler/request.h"

namespace tidewheel {

absl::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndToken:
      return "end_token";
    case FinishReason::kStopToken:
      return "stop_token";
    case FinishReason::kMaxNewTokens:
      return "max_new_tokens";
    case FinishReason::kModelLength:
      return "model_length";
    case FinishReason::kPoolCapacity:
      return "pool_capacity";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kQueueTimeout:
      return "queue_timeout";
    case FinishReason::kStepFailed:
      return "step_failed";
  }
  return "unknown";
}

}  // namespace tidewheel
