#include "tools/flag_values.h"

#include <cmath>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

// The text as a finite number; SimpleAtod also reads "nan" and "inf".
std::optional<double> FiniteNumber(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

absl::StatusOr<GoodputTargets> ParseGoodput(
    const std::vector<std::string>& targets) {
  GoodputTargets result;
  for (const std::string& target : targets) {
    const std::vector<std::string> parts = absl::StrSplit(target, ':');
    const auto error = [&target](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("--goodput \"", target, "\" ", what,
                       "; give ttft:MS, tpot:MS or e2el:MS, as in ttft:500"));
    };
    if (parts.size() != 2) return error("is not a name, a colon and a number");
    std::optional<double>* field = nullptr;
    if (parts[0] == "ttft") field = &result.ttft_ms;
    if (parts[0] == "tpot") field = &result.tpot_ms;
    if (parts[0] == "e2el") field = &result.e2el_ms;
    if (field == nullptr) return error("names no latency that has a target");
    if (field->has_value()) return error("gives a second target to one name");
    const std::optional<double> ms = FiniteNumber(parts[1]);
    if (!ms.has_value() || *ms <= 0) {
      return error("has no positive number of milliseconds");
    }
    *field = ms;
  }
  return result;
}

absl::StatusOr<ShownMetrics> ParsePercentileMetrics(absl::string_view names) {
  ShownMetrics shown = {false, false, false, false};
  for (absl::string_view name : absl::StrSplit(names, ',')) {
    if (name == "ttft") {
      shown.ttft = true;
    } else if (name == "tpot") {
      shown.tpot = true;
    } else if (name == "itl") {
      shown.itl = true;
    } else if (name == "e2el") {
      shown.e2el = true;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "--percentile-metrics \"", names, "\" names \"", name,
          "\"; give some of ttft,tpot,itl,e2el, separated by commas"));
    }
  }
  return shown;
}

absl::StatusOr<std::vector<double>> ParsePercentiles(absl::string_view text) {
  std::vector<double> percents;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::optional<double> percent = FiniteNumber(part);
    if (!percent.has_value() || *percent < 0 || *percent > 100) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--metric-percentiles \"", text, "\" holds \"", part,
          "\", which is no number in [0, 100]; give some as in 50,90,99.9"));
    }
    percents.push_back(*percent);
  }
  return percents;
}

absl::StatusOr<DeclaredTokens> ParseDeclaredTokens(absl::string_view text) {
  DeclaredTokens declared;
  if (text == "none") {
    declared.rule = DeclaredTokens::Rule::kUndeclared;
    return declared;
  }
  absl::string_view factor = text;
  if (absl::ConsumePrefix(&factor, "x")) {
    const std::optional<double> number = FiniteNumber(factor);
    if (number.has_value() && *number >= 1) {
      declared.rule = DeclaredTokens::Rule::kFactor;
      declared.factor = *number;
      return declared;
    }
  } else if (absl::SimpleAtoi(text, &declared.tokens) && declared.tokens >= 1) {
    declared.rule = DeclaredTokens::Rule::kAtLeast;
    return declared;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--declared-max-new-tokens \"", text,
      "\" is neither a number of at least 1, nor x and a finite factor of at "
      "least 1, nor none; give one as in 4096, x1.5 or none"));
}

}  // namespace tidewheel
