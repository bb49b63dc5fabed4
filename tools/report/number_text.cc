#include "tools/report/number_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tidewheel {

std::string WithThousands(int64_t value) {
  const std::string digits = absl::StrCat(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

std::string AsPercent(double fraction) {
  return absl::StrFormat("%.1f %%", fraction * 100);
}

std::string PercentileName(double percent) {
  return absl::StrFormat("%g", percent);
}

std::string SecondsText(int64_t us) {
  constexpr int64_t kUsPerSecond = 1'000'000;
  if (us < 0) return "";
  return absl::StrFormat("%d.%06d", us / kUsPerSecond, us % kUsPerSecond);
}

}  // namespace tidewheel
