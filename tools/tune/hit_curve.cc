#include "tools/tune/hit_curve.h"

#include <algorithm>

#include "allocator/check.h"

namespace tidewheel {

HitCurve::HitCurve(const HitQueries& queries, int64_t longest_request,
                   std::span<const int64_t> hits_by_pages)
    : queries_(queries) {
  TIDEWHEEL_CHECK_GT(longest_request, 0);
  points_.push_back({longest_request + 1, 0});
  for (size_t pages = 0; pages < hits_by_pages.size(); ++pages) {
    if (hits_by_pages[pages] == 0) continue;
    const int64_t size = static_cast<int64_t>(pages) + 1;
    const int64_t hits = points_.back().hit_pages + hits_by_pages[pages];
    if (size <= smallest()) {
      points_.back().hit_pages = hits;
    } else {
      points_.push_back({size, hits});
    }
  }
}

int64_t HitCurve::HitPages(int64_t total_num_pages) const {
  TIDEWHEEL_CHECK_GE(total_num_pages, smallest());
  const auto after = std::upper_bound(
      points_.begin(), points_.end(), total_num_pages,
      [](int64_t size, const Point& p) { return size < p.total_num_pages; });
  return std::prev(after)->hit_pages;
}

double HitCurve::TokenRatio(int64_t hit_pages) const {
  if (queries_.prompt_tokens == 0) return 0;
  return static_cast<double>(Tokens(hit_pages)) /
         static_cast<double>(queries_.prompt_tokens);
}

double HitCurve::PageRatio(int64_t hit_pages) const {
  if (queries_.prompt_pages == 0) return 0;
  return static_cast<double>(hit_pages) /
         static_cast<double>(queries_.prompt_pages);
}

std::optional<HitCurve::Point> HitCurve::Knee() const {
  const Point& first = points_.front();
  const Point& last = points_.back();
  const double width =
      static_cast<double>(last.total_num_pages - first.total_num_pages);
  const double height = static_cast<double>(last.hit_pages - first.hit_pages);
  if (width == 0 || height == 0) return std::nullopt;
  std::optional<Point> knee;
  double best = 0;
  for (const Point& point : points_) {
    const double across =
        static_cast<double>(point.total_num_pages - first.total_num_pages);
    const double up = static_cast<double>(point.hit_pages - first.hit_pages);
    const double above = up / height - across / width;
    if (above <= best) continue;
    best = above;
    knee = point;
  }
  return knee;
}

}  // namespace tidewheel
