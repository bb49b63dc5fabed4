// AttentionKey: two attention programs of equal keys have the same text, so an
// executable of one runs the other's calls.
//
// It is cheaper than the text, which takes a millisecond to emit.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_ATTENTION_PJRT_ATTENTION_KEY_H_
#define TIDEWHEEL_ATTENTION_PJRT_ATTENTION_KEY_H_

#include <array>
#include <cstdint>

#include "attention/attention_backend.h"
#include "attention/stablehlo/attention_program_shape.h"

namespace tidewheel {

class AttentionKey {
 public:
  explicit AttentionKey(const AttentionProgramShape& shape);

  friend bool operator==(const AttentionKey&, const AttentionKey&) = default;

 private:
  // Every field of the shape but empty_rows, which no program knows; floats as
  // their bits, absent values as one that no field has.
  std::array<int64_t, 25> fields_;
};

// Whether programs with these options are the same.
bool SameProgramOptions(const AttentionOptions& a, const AttentionOptions& b);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_ATTENTION_KEY_H_
