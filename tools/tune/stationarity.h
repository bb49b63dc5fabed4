// Stationarity: does a queue grow to the end of a run?
//
// Where requests arrive faster than they are served, waiting times rise as long
// as the run lasts, and every average says only how long that was. Such a run
// is called overloaded. The test takes the waiting times in order of arrival,
// after the warm-up, as 20 batch means, and asks for both
//
//   1. an upward trend that is significant at 1 %: the one-sided test of Mann
//      ("Nonparametric tests against trend", Econometrica 13, 1945) and
//      Kendall, which assumes no distribution, so that a burst is no trend;
//   2. a trend that matters: the median slope (Sen, "Estimates of the
//      regression coefficient based on Kendall's tau", JASA 63, 1968) adds
//      over the run more waiting than a request needs to be served.
//
// Without the second a slow rise of a few milliseconds, as where a trace's
// rate grows over its hour, would count as overload. Overload by less than
// that is not seen by a run of that length.
//
// Thread-safety: a pure function. O(n).

#ifndef TIDEWHEEL_TOOLS_TUNE_STATIONARITY_H_
#define TIDEWHEEL_TOOLS_TUNE_STATIONARITY_H_

#include <span>

namespace tidewheel {

// `waits` in order of arrival, `mean_service` in the same unit. False for
// fewer than 40 waits, of which nothing can be said.
bool QueueGrows(std::span<const double> waits, double mean_service);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_STATIONARITY_H_
