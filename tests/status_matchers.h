// Matchers for absl::Status and absl::StatusOr, which Debian's Abseil lacks.

#ifndef TIDEWHEEL_TESTS_STATUS_MATCHERS_H_
#define TIDEWHEEL_TESTS_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"

namespace tidewheel {

inline const absl::Status& GetStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

// EXPECT_THAT(Create(options), IsOk());
MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << "whose status is " << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

// EXPECT_THAT(Create(options), StatusIs(absl::StatusCode::kInvalidArgument,
//                                       HasSubstr("page_size 0")));
MATCHER_P2(StatusIs, code, message_matcher,
           "is a status of that code and text") {
  const absl::Status& status = GetStatus(arg);
  *result_listener << "whose status is " << status.ToString();
  return status.code() == code &&
         testing::ExplainMatchResult(
             message_matcher, std::string(status.message()), result_listener);
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_STATUS_MATCHERS_H_
