#include "tools/report/progress_bar.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/number_text.h"

namespace tidewheel {

std::string ProgressLine(const SimulationProgress& progress,
                         double elapsed_seconds) {
  constexpr int kCells = 20;
  const double fraction =
      progress.total_requests > 0
          ? std::clamp(static_cast<double>(progress.ended_requests) /
                           static_cast<double>(progress.total_requests),
                       0.0, 1.0)
          : 0.0;
  const size_t full = static_cast<size_t>(fraction * kCells);
  std::string line =
      absl::StrCat("[", std::string(full, '#'), std::string(kCells - full, '-'),
                   "] ", absl::StrFormat("%3.0f %%  ", 100 * fraction),
                   WithThousands(progress.ended_requests), " of ",
                   WithThousands(progress.total_requests), " requests");
  if (fraction > 0 && fraction < 1) {
    absl::StrAppend(
        &line, absl::StrFormat("  %.0f s left",
                               elapsed_seconds / fraction - elapsed_seconds));
  }
  return line;
}

void ProgressBar::Update(const SimulationProgress& progress,
                         double elapsed_seconds) {
  constexpr double kSecondsBetweenDraws = 0.1;
  if (elapsed_seconds < next_draw_seconds_) return;
  next_draw_seconds_ = elapsed_seconds + kSecondsBetweenDraws;
  is_drawn_ = true;
  // Back to the first column, erase to the end of the line.
  const std::string line = ProgressLine(progress, elapsed_seconds);
  std::fprintf(terminal_, "\r\x1b[K%s", line.c_str());
  std::fflush(terminal_);
}

void ProgressBar::Clear() {
  if (!is_drawn_) return;
  std::fputs("\r\x1b[K", terminal_);
  std::fflush(terminal_);
  is_drawn_ = false;
}

}  // namespace tidewheel
