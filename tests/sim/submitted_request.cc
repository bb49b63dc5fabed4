#include "tests/sim/submitted_request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tidewheel {
namespace {

template <typename... Parts>
absl::Status Wrong(const Parts&... parts) {
  return absl::InternalError(absl::StrCat(parts...));
}

}  // namespace

absl::Status SubmittedRequest::CheckAnswer(const FinishedRequest& finished,
                                           std::span<const int32_t> tokens,
                                           const TinyTransformer& model) const {
  if (tokens.size() < prompt.size() ||
      !std::ranges::equal(tokens.first(prompt.size()), prompt)) {
    return Wrong("its prompt is not the one that was submitted");
  }
  const std::span<const int32_t> generated = tokens.subspan(prompt.size());
  if (finished.generated_tokens != static_cast<int32_t>(generated.size())) {
    return Wrong(finished.generated_tokens, " tokens are reported but ",
                 generated.size(), " are there");
  }
  const std::vector<int32_t> next = model.GreedyNext(tokens);
  std::vector<double> shortfalls;
  if (logit_tolerance > 0) shortfalls = model.Shortfalls(tokens);
  for (size_t i = prompt.size(); i < tokens.size(); ++i) {
    if (tokens[i] == next[i - 1]) continue;
    if (logit_tolerance > 0 && shortfalls[i] <= logit_tolerance) continue;
    return Wrong("generated token ", i - prompt.size(), " of ",
                 generated.size(), " behind a prompt of ", prompt.size(),
                 " is ", tokens[i], " and would be ", next[i - 1], " alone");
  }
  for (size_t i = 0; i < generated.size(); ++i) {
    if (EndBehind(generated.first(i)).has_value()) {
      return Wrong("went on behind generated token ", i);
    }
  }
  const std::optional<FinishReason> end = EndBehind(generated);
  if (IsCompletion(finished.reason) ? end != finished.reason
                                    : end.has_value()) {
    return Wrong("ended for another reason than its ", generated.size(),
                 " tokens give");
  }
  if (finished.reason == FinishReason::kCancelled && !cancelled) {
    return Wrong("nobody cancelled it");
  }
  return absl::OkStatus();
}

int64_t SubmittedRequest::CountNearTies(std::span<const int32_t> tokens,
                                        const TinyTransformer& model) const {
  if (logit_tolerance == 0) return 0;
  const std::vector<double> shortfalls = model.Shortfalls(tokens);
  return std::ranges::count_if(
      shortfalls.begin() + static_cast<ptrdiff_t>(prompt.size()),
      shortfalls.end(), [](double shortfall) { return shortfall > 0; });
}

// How a request that generated these tokens ends with the last of them; nothing
// if it goes on.
std::optional<FinishReason> SubmittedRequest::EndBehind(
    std::span<const int32_t> generated) const {
  if (generated.empty()) return std::nullopt;
  const int32_t count = static_cast<int32_t>(generated.size());
  if (count >= min_new_tokens) {
    if (generated.back() == end_token) return FinishReason::kEndToken;
    if (std::ranges::count(stop_tokens, generated.back()) > 0) {
      return FinishReason::kStopToken;
    }
  }
  if (static_cast<int32_t>(prompt.size()) + count < max_tokens) {
    return std::nullopt;
  }
  return limit_reason;
}

}  // namespace tidewheel
