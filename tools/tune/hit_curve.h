// HitCurve: prefix hits as a function of the pool's size, for all sizes.
//
// A size is total_num_pages as in every flag: the null page is one of them and
// holds nothing. A curve begins at the size that has room for the longest
// request; smaller pools refuse requests, and then answer another question.
//
// Made by ComputeHitCurve or ComputeTimedHitCurve. An immutable value.
//
// Invariants: sizes and hits of points() strictly increase.

#ifndef TIDEWHEEL_TOOLS_TUNE_HIT_CURVE_H_
#define TIDEWHEEL_TOOLS_TUNE_HIT_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tidewheel {

// What was looked up, whatever was found: the denominators.
struct HitQueries {
  int32_t page_size = 0;
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t prompt_pages = 0;  // full ones
};

class HitCurve {
 public:
  struct Point {
    int64_t total_num_pages = 0;
    int64_t hit_pages = 0;  // from this size to the next point's
  };

  // `hits_by_pages[n]` pages are found where n pages besides the null page are
  // lent at most, and not where fewer are. `longest_request` pages are what the
  // longest request takes. REQUIRES: it is positive.
  HitCurve(const HitQueries& queries, int64_t longest_request,
           std::span<const int64_t> hits_by_pages);

  const HitQueries& queries() const { return queries_; }

  // The first is at smallest(); the last one's hits are those of any larger
  // size, infinity included.
  const std::vector<Point>& points() const { return points_; }
  int64_t smallest() const { return points_.front().total_num_pages; }
  const Point& ceiling() const { return points_.back(); }

  // O(log points). REQUIRES: total_num_pages >= smallest().
  int64_t HitPages(int64_t total_num_pages) const;

  int64_t Tokens(int64_t hit_pages) const {
    return hit_pages * queries_.page_size;
  }
  // Hits of all that was looked up; 0 where nothing was.
  double TokenRatio(int64_t hit_pages) const;
  double PageRatio(int64_t hit_pages) const;

  // Where the curve is furthest above the straight line from its first point
  // to its last: the knee of a concave curve after Satopaa et al. ("Finding a
  // 'Kneedle' in a haystack", 2011), without smoothing, since the curve is
  // exact. Nothing where the curve is one point, or nowhere above the line.
  std::optional<Point> Knee() const;

 private:
  HitQueries queries_;
  std::vector<Point> points_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_HIT_CURVE_H_
