#include "tools/report/axis_scale.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

// 1, 2 or 5 times a power of ten, at least `step`.
double NiceStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// Multiples of powers of ten in the range, by `factors`.
std::vector<double> DecadeTicks(double min, double max,
                                const std::vector<double>& factors) {
  std::vector<double> ticks;
  const int first = static_cast<int>(std::floor(std::log10(min)));
  const int last = static_cast<int>(std::ceil(std::log10(max)));
  for (int power = first; power <= last; ++power) {
    for (const double factor : factors) {
      const double tick = factor * std::pow(10, power);
      if (tick >= min * (1 - 1e-9) && tick <= max * (1 + 1e-9)) {
        ticks.push_back(tick);
      }
    }
  }
  return ticks;
}

}  // namespace

AxisScale AxisScale::Linear(double min, double max, int num_ticks) {
  TIDEWHEEL_CHECK(std::isfinite(min) && std::isfinite(max) && min <= max);
  if (min == max) {
    // A range around one value, so that its line is in the middle.
    const double room = min == 0 ? 1 : std::abs(min) / 2;
    if (min != 0) min -= room;
    max += room;
  }
  const double step = NiceStep((max - min) / num_ticks);
  AxisScale scale;
  const double first = std::floor(min / step + 1e-9);
  const double last = std::ceil(max / step - 1e-9);
  const int64_t num_steps = std::llround(last - first);
  for (int64_t i = 0; i <= num_steps; ++i) {
    scale.ticks_.push_back((first + static_cast<double>(i)) * step);
  }
  scale.min_ = first * step;
  scale.max_ = last * step;
  return scale;
}

AxisScale AxisScale::Exact(double min, double max, int num_ticks) {
  AxisScale scale = Linear(min, max, num_ticks);
  if (min == max) return scale;
  scale.min_ = min;
  scale.max_ = max;
  const double room = (max - min) * 1e-9;
  std::vector<double> ticks;
  for (const double tick : scale.ticks_) {
    if (tick >= min - room && tick <= max + room) ticks.push_back(tick);
  }
  scale.ticks_ = std::move(ticks);
  return scale;
}

AxisScale AxisScale::Logarithmic(double min, double max, int num_ticks) {
  TIDEWHEEL_CHECK(std::isfinite(max) && min > 0 && min <= max);
  if (min == max) {
    min /= 2;
    max *= 2;
  }
  AxisScale scale;
  scale.is_log_ = true;
  scale.min_ = min;
  scale.max_ = max;
  // The finest choice that is not more than what there is room for.
  const size_t most = static_cast<size_t>(num_ticks);
  for (const std::vector<double>& factors :
       {std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9},
        std::vector<double>{1, 2, 5}, std::vector<double>{1, 3},
        std::vector<double>{1}}) {
    scale.ticks_ = DecadeTicks(min, max, factors);
    if (scale.ticks_.size() <= most) break;
  }
  while (scale.ticks_.size() > most) {  // every other decade
    std::vector<double> fewer;
    for (size_t i = 0; i < scale.ticks_.size(); i += 2) {
      fewer.push_back(scale.ticks_[i]);
    }
    scale.ticks_ = std::move(fewer);
  }
  if (scale.ticks_.size() < 2) {  // within less than two of a decade's ninths
    scale.ticks_ = Exact(min, max, num_ticks).ticks_;
  }
  return scale;
}

double AxisScale::Place(double value) const {
  const double place =
      is_log_ ? (std::log(std::max(value, min_)) - std::log(min_)) /
                    (std::log(max_) - std::log(min_))
              : (value - min_) / (max_ - min_);
  return std::clamp(place, 0.0, 1.0);
}

std::string TickText(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return absl::StrFormat("%gG", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%gM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%gk", value / 1e3);
  if (size >= 1e3) return WithThousands(std::llround(value));
  if (size < 1e-12) return "0";
  return absl::StrFormat("%g", value);
}

std::string ValueText(double value) {
  const double size = std::abs(value);
  if (size >= 1000) return WithThousands(std::llround(value));
  if (value == std::floor(value)) return absl::StrFormat("%.0f", value);
  if (size >= 1) return absl::StrFormat("%.2f", value);
  return absl::StrFormat("%.3g", value);
}

}  // namespace tidewheel
