// ProgramCache: compiles programs for one device, or finds them compiled in a
// folder.
//
// It is not a cache in memory: every call makes a new executable. It does not
// bound the folder: an entry is some 10 KB (CPU) to 3 MB (TPU), and any of
// them, or all, may be deleted at any time.
//
// An entry is one file, "<key>.pjrt", of a header and what the plugin made of
// the program. The key covers the program, the signature's donations and all
// that decides about the bytes: the plugin file's hash, platform, device kind
// and compile options. An entry that is cut short, foreign, damaged or that
// the plugin will not load is a miss, and is replaced. Entries appear by being
// renamed, so processes may share a folder. Whoever can write to it decides
// what the device runs: keep it as private as the plugin's own file.
//
// Nothing about the folder is an error: what goes wrong is told once to `note`
// and the program is compiled.
//
// Thread-safety: one call at a time on an object.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PROGRAM_CACHE_H_
#define TIDEWHEEL_ATTENTION_PJRT_PROGRAM_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/pjrt/pjrt_client.h"
#include "attention/pjrt/pjrt_device.h"
#include "attention/pjrt/pjrt_executable.h"
#include "attention/pjrt/pjrt_signature.h"

namespace tidewheel {

// Told what the user should know and no caller can act on; may be empty.
using PjrtNote = std::function<void(absl::string_view)>;

class ProgramCache {
 public:
  struct Options {
    std::string folder = {};  // empty: no entries
    // PjrtDevice::id; absent: the client's first device.
    std::optional<int> device_id = std::nullopt;
    PjrtNote note = nullptr;
  };
  struct Counts {
    int64_t hits = 0;
    int64_t compiles = 0;
    int64_t bad_entries = 0;  // found, but of no use
    int64_t stored = 0;
  };

  // Makes the folder if its parent is there.
  //
  // Errors: InvalidArgument for a device that is not the client's.
  static absl::StatusOr<std::unique_ptr<ProgramCache>> Create(
      std::shared_ptr<const PjrtClient> client, Options options);

  ProgramCache(const ProgramCache&) = delete;
  ProgramCache& operator=(const ProgramCache&) = delete;

  const PjrtClient& client() const { return *client_; }
  const PjrtDevice& device() const { return *device_; }
  const Counts& counts() const { return counts_; }

  // Errors: those of PjrtClient::Compile.
  absl::StatusOr<std::unique_ptr<PjrtExecutable>> Compile(
      absl::string_view program, const PjrtSignature& signature);

 private:
  ProgramCache(std::shared_ptr<const PjrtClient> client,
               const PjrtDevice* device, Options options);

  void OpenFolder();
  void NoteOnce(absl::string_view text);
  std::string Key(absl::string_view program,
                  const PjrtSignature& signature) const;
  std::string PathOf(const std::string& key) const;
  std::unique_ptr<PjrtExecutable> Find(const std::string& key,
                                       const PjrtSignature& signature);
  void Store(const std::string& key, const PjrtExecutable& executable);

  const std::shared_ptr<const PjrtClient> client_;
  const PjrtDevice* const device_;
  const Options options_;
  bool has_folder_ = false;
  bool noted_ = false;
  std::string common_key_;  // of plugin, device and options
  Counts counts_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PROGRAM_CACHE_H_
