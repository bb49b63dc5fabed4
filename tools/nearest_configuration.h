// NearestConfiguration: what to change in a configuration that does not hold.
//
// Errors are mended one at a time, each by the change that is smallest: pages
// grow or sequences shrink, whichever by the smaller factor; scheduler limits
// follow a cache that shrank, since the cache is what the chip has room for;
// a limit of another generation becomes the default; blocks become chosen
// ones; 8-bit KV becomes bf16 before the number of chips changes. What was
// right stays.
//
// Thread-safety: pure functions. They allocate.

#ifndef TIDEWHEEL_TOOLS_NEAREST_CONFIGURATION_H_
#define TIDEWHEEL_TOOLS_NEAREST_CONFIGURATION_H_

#include <optional>

#include "tools/config_check.h"

namespace tidewheel {

// `shape` itself if it holds; nothing if none of these changes leads to one
// that does, as where a size is not positive.
std::optional<ConfigurationShape> NearestThatHolds(
    const ConfigurationShape& shape);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_NEAREST_CONFIGURATION_H_
