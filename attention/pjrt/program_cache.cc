#include "attention/pjrt/program_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_program.h"
#include "attention/pjrt/program_entry.h"

namespace tidewheel {

ProgramCache::ProgramCache(std::shared_ptr<const PjrtClient> client,
                           const PjrtDevice* device, Options options)
    : client_(std::move(client)),
      device_(device),
      options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<ProgramCache>> ProgramCache::Create(
    std::shared_ptr<const PjrtClient> client, Options options) {
  TIDEWHEEL_CHECK(client != nullptr);
  const PjrtDevice* device = nullptr;
  for (const PjrtDevice& candidate : client->devices()) {
    const int wanted = options.device_id.value_or(candidate.id());
    if (device == nullptr && candidate.id() == wanted) device = &candidate;
  }
  if (device == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device_id ", *options.device_id, " is none of the client's ",
        client->devices().size(), " devices; pass the id of one of them"));
  }
  std::unique_ptr<ProgramCache> cache(
      new ProgramCache(std::move(client), device, std::move(options)));
  if (!cache->options_.folder.empty()) cache->OpenFolder();
  return cache;
}

void ProgramCache::OpenFolder() {
  const std::string& folder = options_.folder;
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    NoteOnce(absl::StrCat("can not make the folder '", folder,
                          "': ", std::strerror(errno)));
    return;
  }
  const absl::StatusOr<std::string> plugin = client_->plugin().file_hash();
  if (!plugin.ok()) {
    NoteOnce(plugin.status().message());
    return;
  }
  const std::string compile_options = CompileOptionsBytes(options_.device_id);
  common_key_ = HashOfParts(std::array<absl::string_view, 4>{
      *plugin, client_->platform_name(), device_->kind(), compile_options});
  has_folder_ = true;
}

void ProgramCache::NoteOnce(absl::string_view text) {
  if (std::exchange(noted_, true) || options_.note == nullptr) return;
  options_.note(absl::StrCat("compiled programs are not kept: ", text,
                             "; every start compiles anew"));
}

std::string ProgramCache::Key(absl::string_view program,
                              const PjrtSignature& signature) const {
  std::string donated;
  for (const PjrtArgument& argument : signature.arguments) {
    donated.push_back(argument.donated ? '1' : '0');
  }
  return HashOfParts(
      std::array<absl::string_view, 3>{common_key_, program, donated});
}

std::string ProgramCache::PathOf(const std::string& key) const {
  return absl::StrCat(options_.folder, "/", absl::BytesToHexString(key),
                      ".pjrt");
}

std::unique_ptr<PjrtExecutable> ProgramCache::Find(
    const std::string& key, const PjrtSignature& signature) {
  const absl::StatusOr<std::string> entry = ReadProgramEntry(PathOf(key), key);
  if (entry.ok()) {
    absl::StatusOr<std::unique_ptr<PjrtExecutable>> loaded =
        client_->Load(*entry, signature);
    if (loaded.ok() && &(*loaded)->device() == device_) {
      return *std::move(loaded);
    }
  }
  if (!absl::IsNotFound(entry.status())) ++counts_.bad_entries;
  return nullptr;
}

void ProgramCache::Store(const std::string& key,
                         const PjrtExecutable& executable) {
  const absl::StatusOr<std::string> bytes = executable.Serialize();
  const absl::Status status =
      bytes.ok() ? WriteProgramEntry(PathOf(key), key, *bytes) : bytes.status();
  if (!status.ok()) {
    NoteOnce(status.message());
    return;
  }
  ++counts_.stored;
}

absl::StatusOr<std::unique_ptr<PjrtExecutable>> ProgramCache::Compile(
    absl::string_view program, const PjrtSignature& signature) {
  const std::string key = has_folder_ ? Key(program, signature) : "";
  if (has_folder_) {
    std::unique_ptr<PjrtExecutable> found = Find(key, signature);
    if (found != nullptr) {
      ++counts_.hits;
      return found;
    }
  }
  ++counts_.compiles;
  TIDEWHEEL_ASSIGN_OR_RETURN(
      std::unique_ptr<PjrtExecutable> executable,
      client_->Compile(program, signature, {.device_id = options_.device_id}));
  if (has_folder_) Store(key, *executable);
  return executable;
}

}  // namespace tidewheel
