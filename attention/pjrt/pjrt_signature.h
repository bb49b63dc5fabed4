// PjrtSignature: what a program takes and returns, as its author says.
//
// Plugins do not tell the arguments of a program, and at a launch they compare
// byte sizes only: an s32[4] where an f32[4] belongs runs, and the result is
// reinterpreted bits. So whoever has the program states its arguments, and
// every launch is compared with that statement before the plugin sees it.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_SIGNATURE_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_SIGNATURE_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "attention/pjrt/pjrt_shape.h"

namespace tidewheel {

struct PjrtArgument {
  PjrtShape shape = {};
  // The program carries `tf.aliasing_output` or `jax.buffer_donor` on it, and
  // a launch may take the buffer. Without this a launch leaves the buffer
  // alone, whatever the program says; the program then copies it.
  bool donated = false;
};

struct PjrtSignature {
  // Arguments or outputs of one program.
  static constexpr size_t kMaxArrays = 1024;

  std::vector<PjrtArgument> arguments = {};
  // Compared with what the compiled program returns. Empty: not compared.
  std::vector<PjrtShape> outputs = {};
};

// Errors: InvalidArgument for more than kMaxArrays arguments, or one without
// a shape.
absl::Status CheckSignature(const PjrtSignature& signature);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_SIGNATURE_H_
