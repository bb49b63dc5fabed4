// The hazard of sharing pages within one step.
//
// A backend that writes K and V itself may take the rows of a batch in any
// order and overlap them: a row that reads a page which another row writes in
// the same step may read it before it is written. So a page may be shared only
// from the step after the one that writes it.

#ifndef TIDEWHEEL_TESTS_SIM_SAME_STEP_HAZARD_H_
#define TIDEWHEEL_TESTS_SIM_SAME_STEP_HAZARD_H_

#include "absl/status/status.h"
#include "attention/ragged_batch.h"

namespace tidewheel {

// Fails if a row of the batch reads or writes a page that another row writes.
// Looks at every token and shares nothing with ValidateStrict.
absl::Status CheckNoRowReadsWhatAnotherWrites(const RaggedBatch& batch);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_SAME_STEP_HAZARD_H_
