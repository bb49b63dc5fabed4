// EmitKeyLoop: attention of one tile of queries, block of keys by block.
//
// A tile is `num_rows` rows with `num_queries` tokens each: many rows of one
// token in a decode, one row of many tokens in a prefill. Each block gathers
// the rows' next pages, scores them, and folds them into the running maximum,
// sum and weighted values of every query and head (Milakov and Gimelshein,
// arXiv:1805.02867), so that no memory depends on the context.
//
// Thread-safety: a pure function.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_KEY_LOOP_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_KEY_LOOP_H_

#include "attention/stablehlo/attention_program_shape.h"
#include "attention/stablehlo/batch_values.h"
#include "attention/stablehlo/program_builder.h"

namespace tidewheel {

struct QueryTile {
  Value q;         // [num_rows, num_queries, num_q_heads, head_dim]
  Value row;       // i32[num_rows], of the table
  Value kv_len;    // i32[num_rows]
  Value position;  // i32[num_rows, num_queries]
  Value is_live;   // i1[num_rows, num_queries]; the others give 0
};

// Of q's shape and type.
Value EmitKeyLoop(ProgramBuilder& b, const AttentionProgramShape& shape,
                  const Value& kv_pages, const Value& page_indices,
                  const QueryTile& tile);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_KEY_LOOP_H_
