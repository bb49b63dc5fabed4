// The values of a program that describe its batch, and what follows from them
// for each token.
//
// Thread-safety: values.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_BATCH_VALUES_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_BATCH_VALUES_H_

#include "attention/stablehlo/program_builder.h"

namespace tidewheel {

// All i32.
struct BatchValues {
  Value kv_lens;       // [max_num_seqs]
  Value page_indices;  // [max_num_seqs, pages_per_seq]
  Value cu_q_lens;     // [max_num_seqs + 1]
  Value num_seqs;      // scalar

  // Of each row: where its queries begin and end.
  Value row_begin(ProgramBuilder& b) const;  // [max_num_seqs]
  Value row_end(ProgramBuilder& b) const;    // [max_num_seqs]
};

// Where each token belongs.
struct TokenValues {
  Value row;       // i32[num_tokens]
  Value position;  // i32[num_tokens], in its sequence
  Value is_live;   // i1[num_tokens]; the others are padding
};

TokenValues PlaceTokens(ProgramBuilder& b, const BatchValues& batch,
                        int64_t num_tokens);

// v[indices[i]] of a vector; indices are clamped.
Value Pick(ProgramBuilder& b, const Value& v, const Value& indices);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_BATCH_VALUES_H_
