// Interrupt: ctrl-C as a wish to end soon, with what is there so far.
//
// While a watch lives the first SIGINT sets a flag that `requested` reads; the
// second ends the process as if nobody had watched, for those who meant it.
//
// One at a time, made and destroyed by one thread. `requested` may be called
// from any.

#ifndef TIDEWHEEL_TOOLS_TUNE_INTERRUPT_H_
#define TIDEWHEEL_TOOLS_TUNE_INTERRUPT_H_

#include <csignal>

namespace tidewheel {

class InterruptWatch {
 public:
  // REQUIRES: no other watch lives.
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Whether SIGINT came since construction.
  static bool requested();

 private:
  struct sigaction before_ = {};
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_INTERRUPT_H_
