// SubmittedRequest: a request as its user remembers it, and whether an answer
// is the one that plain full attention gives to this request alone.

#ifndef TIDEWHEEL_TESTS_SIM_SUBMITTED_REQUEST_H_
#define TIDEWHEEL_TESTS_SIM_SUBMITTED_REQUEST_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/request.h"
#include "tests/sim/tiny_transformer.h"

namespace tidewheel {

struct SubmittedRequest {
  std::vector<int32_t> prompt;
  // Where it ends if no token stops it, prompt included, and why there.
  int32_t max_tokens = 0;
  FinishReason limit_reason = FinishReason::kMaxNewTokens;
  int32_t min_new_tokens = 0;
  std::optional<int32_t> end_token;
  std::vector<int32_t> stop_tokens;
  bool cancelled = false;
  // How far below the best logit a token's may be: what the rounding of a
  // device may cost. 0: not at all.
  double logit_tolerance = 0;

  // Fails unless `tokens` are the prompt and then, token by token, what `model`
  // generates greedily (but for logit_tolerance), and end where they should:
  // neither sooner nor later if the request completed, anywhere before its end
  // if it did not.
  absl::Status CheckAnswer(const FinishedRequest& finished,
                           std::span<const int32_t> tokens,
                           const TinyTransformer& model) const;
  // Generated tokens that are not what `model` generates greedily.
  int64_t CountNearTies(std::span<const int32_t> tokens,
                        const TinyTransformer& model) const;

 private:
  std::optional<FinishReason> EndBehind(
      std::span<const int32_t> generated) const;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_SUBMITTED_REQUEST_H_
