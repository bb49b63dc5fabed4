#include "tools/tune/interrupt.h"

#include <atomic>

#include "allocator/check.h"

namespace tidewheel {
namespace {

std::atomic<bool> is_watched = false;
std::atomic<bool> was_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void OnInterrupt(int) { was_requested = true; }

}  // namespace

InterruptWatch::InterruptWatch() {
  TIDEWHEEL_CHECK(!is_watched.exchange(true));
  was_requested = false;
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  sigemptyset(&action.sa_mask);
  // The handler stands for one signal; the next has its default again.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  TIDEWHEEL_CHECK_EQ(sigaction(SIGINT, &action, &before_), 0);
}

InterruptWatch::~InterruptWatch() {
  sigaction(SIGINT, &before_, nullptr);
  is_watched = false;
}

bool InterruptWatch::requested() { return was_requested; }

}  // namespace tidewheel
