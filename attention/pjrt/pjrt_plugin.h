// PjrtPlugin: a shared library that drives a kind of device through PJRT:
// libtpu.so on a TPU VM, a CPU plugin elsewhere.
//
// It is not a device: PjrtClient holds the devices. Loading it runs the
// plugin's code, so only load files that you trust.
//
// Lifecycle:
//   1. For libtpu on a host without a TPU: SetLibtpuCompileEnvironment.
//   2. Load. The library is opened once in a process and never closed, since
//      plugins have threads and static registries that outlive any handle;
//      loading the same file again returns the same object.
//   3. PjrtClient::Create, or PjrtTopology::Create to compile only.
//
// Invariants: major version 0, minor version 57 or newer; the table has the
// functions that destroy things.
//
// Thread-safety: all methods may be called concurrently. Load is serialised:
// one that hangs in a plugin's initialisation blocks others.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_PLUGIN_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_PLUGIN_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_named_value.h"

namespace tidewheel {

class PjrtPlugin {
 public:
  using Version = std::array<int64_t, 3>;

  // Errors: NotFound for a missing file; InvalidArgument for one that is no
  // shared library or has no GetPjrtApi; FailedPrecondition for a version
  // outside the window; Unimplemented for a table without a function that is
  // always needed; whatever the plugin's initialisation says. A plugin that
  // failed is tried anew by the next Load.
  static absl::StatusOr<std::shared_ptr<PjrtPlugin>> Load(
      const std::string& path);

  PjrtPlugin(const PjrtPlugin&) = delete;
  PjrtPlugin& operator=(const PjrtPlugin&) = delete;
  ~PjrtPlugin();

  // The file, as an absolute path without links.
  const std::string& path() const { return path_; }
  int major_version() const { return api_->major_version; }
  int minor_version() const { return api_->minor_version; }
  // What the plugin says about itself.
  const std::vector<PjrtNamedValue>& attributes() const { return attributes_; }
  std::optional<int64_t> xla_version() const;
  std::optional<Version> stablehlo_current_version() const;
  std::optional<Version> stablehlo_minimum_version() const;

  // XXH3-128 of the file that was loaded, 32 hexadecimal digits: the part of
  // a cache key that tells two builds of a plugin apart, which their versions
  // do not. Reads the whole file the first time (0.1 s per GB when cached).
  //
  // Errors: DataLoss if the file can not be read.
  absl::StatusOr<std::string> file_hash() const;

  // Whether the plugin offers the function.
  bool Has(pjrt_abi::Slot slot) const {
    return pjrt_abi::FindFunction(*api_, slot) != nullptr;
  }

  // Calls the function that `args` belongs to.
  //
  // Errors: Unimplemented where the plugin has no such function; the plugin's
  // own, with the function's name in front.
  template <typename Fields>
  absl::Status Call(pjrt_abi::Block<Fields>& args) const {
    return Invoke(Fields::kSlot, &args);
  }

 private:
  PjrtPlugin(std::string path, int file, const pjrt_abi::Api* api)
      : path_(std::move(path)), file_(file), api_(api) {}

  static absl::StatusOr<std::shared_ptr<PjrtPlugin>> Open(
      const std::string& path, void* library, int file);

  absl::Status Check() const;
  absl::Status Initialize();
  absl::Status Invoke(pjrt_abi::Slot slot, void* args) const;
  absl::Status MissingFunction(pjrt_abi::Slot slot) const;
  std::optional<Version> VersionAttribute(absl::string_view name) const;

  const std::string path_;
  const int file_;  // descriptor; names the loaded file after a replacement
  const pjrt_abi::Api* const api_;
  std::vector<PjrtNamedValue> attributes_;
  mutable std::mutex hash_mutex_;
  mutable std::string hash_;  // empty until asked for
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_PLUGIN_H_
