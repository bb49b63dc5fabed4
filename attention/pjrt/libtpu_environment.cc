#include "attention/pjrt/libtpu_environment.h"

#include <cstdlib>

namespace tidewheel {

void SetLibtpuCompileEnvironment() {
  constexpr struct {
    const char* name;
    const char* value;
  } kVariables[] = {
      {"TPU_SKIP_MDS_QUERY", "1"},
      {"ALLOW_MULTIPLE_LIBTPU_LOAD", "1"},
      {"TPU_ACCELERATOR_TYPE", "v5litepod-1"},
      {"TPU_WORKER_HOSTNAMES", "localhost"},
      {"TPU_WORKER_ID", "0"},
  };
  if (getenv("TPU_LOG_DIR") == nullptr) {
    setenv("TPU_MIN_LOG_LEVEL", "3", /*overwrite=*/0);
  }
  for (const auto& variable : kVariables) {
    setenv(variable.name, variable.value, /*overwrite=*/0);
  }
}

}  // namespace tidewheel
