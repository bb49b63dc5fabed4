// What a configuration may say that this version can not count.
//
// Latent attention, layers without a KV cache, layers that differ in their
// heads: each is refused by the key that says so, before anything is counted,
// since a plan for such a model would be wrong without looking wrong.
// Windows are no refusal: they are counted as full attention (see
// attention_windows.h).

#ifndef TIDEWHEEL_TOOLS_MODEL_REFUSALS_H_
#define TIDEWHEEL_TOOLS_MODEL_REFUSALS_H_

#include "absl/status/status.h"
#include "tools/config_fields.h"

namespace tidewheel {

// OK if every layer has grouped-query attention of one shape with a KV cache.
//
// Errors: Unimplemented that names file, key and reason; InvalidArgument where
// a key has a wrong type.
absl::Status RefuseUncountableLayers(const ConfigFields& fields);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_MODEL_REFUSALS_H_
