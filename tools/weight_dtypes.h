// How a configuration stores its weights.
//
// Reads dtype (torch_dtype in older files) and quantization_config. What it
// can not tell exactly is a note, and a method that it does not know is
// refused by name.

#ifndef TIDEWHEEL_TOOLS_WEIGHT_DTYPES_H_
#define TIDEWHEEL_TOOLS_WEIGHT_DTYPES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "attention/model_shape.h"
#include "tools/config_fields.h"

namespace tidewheel {

// Sets the three dtypes of `model` and appends to `notes`.
//
// Errors: InvalidArgument where a key has a wrong type; Unimplemented for a
// dtype or a method that is not known.
absl::Status ReadWeightDtypes(const ConfigFields& fields,
                              ModelShape::Options& model,
                              std::vector<std::string>& notes);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_WEIGHT_DTYPES_H_
