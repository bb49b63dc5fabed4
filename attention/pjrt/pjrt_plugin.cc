#include "attention/pjrt/pjrt_plugin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <span>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_client.h"
#include "attention/pjrt/pjrt_c_api_executable.h"
#include "attention/pjrt/pjrt_error.h"

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace tidewheel {
namespace {

// Without these nothing can be used and given back.
constexpr pjrt_abi::Slot kNeededSlots[] = {
    pjrt_abi::ErrorDestroy::kSlot,
    pjrt_abi::ErrorMessage::kSlot,
    pjrt_abi::ErrorGetCode::kSlot,
    pjrt_abi::PluginInitialize::kSlot,
    pjrt_abi::PluginAttributes::kSlot,
    pjrt_abi::EventDestroy::kSlot,
    pjrt_abi::ClientDestroy::kSlot,
    pjrt_abi::ExecutableDestroy::kSlot,
    pjrt_abi::LoadedExecutableDestroy::kSlot,
    pjrt_abi::BufferDestroy::kSlot,
    pjrt_abi::BufferIsDeleted::kSlot,
};

// Plugins by the loader's handle, which is the same for all names of a file.
// Never destroyed, like the libraries.
struct Registry {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<PjrtPlugin>> plugins;
};

Registry& GetRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

std::string LoaderError() {
  const char* const text = dlerror();
  return text == nullptr ? "(the loader gave no reason)" : text;
}

// Closes the descriptor at its end.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

// Absolute and without links: the loader searches other folders for a name
// without a slash.
absl::StatusOr<std::string> FindFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  if (error) {
    return absl::NotFoundError(absl::StrCat(
        "PJRT plugin '", path, "' can not be opened: ", error.message(),
        "; give the path of the plugin's .so file"));
  }
  if (!std::filesystem::is_regular_file(file, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("PJRT plugin '", path,
                     "' is not a file; give the path of the plugin's .so "
                     "file"));
  }
  return file.string();
}

}  // namespace

absl::StatusOr<std::shared_ptr<PjrtPlugin>> PjrtPlugin::Load(
    const std::string& path) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::string file_path, FindFile(path));
  Registry& registry = GetRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  OpenFile file(file_path);
  if (file.descriptor() < 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "PJRT plugin '", file_path, "' can not be read: ",
        std::generic_category().message(errno), "; allow reading the file"));
  }
  void* const library = dlopen(file_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PJRT plugin '", file_path, "' can not be loaded: ", LoaderError(),
        "; give a plugin built for this platform"));
  }
  const auto known = registry.plugins.find(library);
  if (known != registry.plugins.end()) return known->second;
  TIDEWHEEL_ASSIGN_OR_RETURN(std::shared_ptr<PjrtPlugin> plugin,
                             Open(file_path, library, file.descriptor()));
  registry.plugins.emplace(library, plugin);
  return plugin;
}

absl::StatusOr<std::shared_ptr<PjrtPlugin>> PjrtPlugin::Open(
    const std::string& path, void* library, int file) {
  void* const symbol = dlsym(library, pjrt_abi::kGetPjrtApi);
  if (symbol == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is no PJRT plugin: ", LoaderError(),
                     "; give the path of a plugin, e.g. libtpu.so"));
  }
  const pjrt_abi::Api* const api =
      reinterpret_cast<pjrt_abi::GetPjrtApi>(symbol)();
  if (api == nullptr || api->struct_size < sizeof(pjrt_abi::Api)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", path, "' is no usable PJRT plugin: GetPjrtApi returned ",
        api == nullptr
            ? std::string("null")
            : absl::StrCat("a table of ", api->struct_size, " bytes, at least ",
                           sizeof(pjrt_abi::Api), " are needed"),
        "; install another build of the plugin"));
  }
  std::shared_ptr<PjrtPlugin> plugin(
      new PjrtPlugin(path, fcntl(file, F_DUPFD_CLOEXEC, 0), api));
  TIDEWHEEL_RETURN_IF_ERROR(plugin->Check());
  TIDEWHEEL_RETURN_IF_ERROR(plugin->Initialize());
  return plugin;
}

PjrtPlugin::~PjrtPlugin() {
  if (file_ >= 0) close(file_);
}

absl::Status PjrtPlugin::Check() const {
  if (api_->major_version != pjrt_abi::kMajorVersion ||
      api_->minor_version < pjrt_abi::kOldestMinorVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "PJRT plugin '", path_, "' has API version ", api_->major_version, ".",
        api_->minor_version, "; ", pjrt_abi::kMajorVersion, ".",
        pjrt_abi::kOldestMinorVersion,
        " or newer of that major version is needed, since older ones have "
        "another layout; install a newer plugin"));
  }
  for (const pjrt_abi::Slot slot : kNeededSlots) {
    if (!Has(slot)) return MissingFunction(slot);
  }
  return absl::OkStatus();
}

absl::Status PjrtPlugin::Initialize() {
  pjrt_abi::Block<pjrt_abi::PluginInitialize> initialize;
  TIDEWHEEL_RETURN_IF_ERROR(Call(initialize));
  pjrt_abi::Block<pjrt_abi::PluginAttributes> args;
  TIDEWHEEL_RETURN_IF_ERROR(Call(args));
  attributes_ = CopyNamedValues({args->attributes, args->num_attributes});
  return absl::OkStatus();
}

absl::Status PjrtPlugin::Invoke(pjrt_abi::Slot slot, void* args) const {
  const pjrt_abi::Function function = pjrt_abi::FindFunction(*api_, slot);
  if (function == nullptr) [[unlikely]] {
    return MissingFunction(slot);
  }
  pjrt_abi::Error* const error = function(args);
  if (error != nullptr) [[unlikely]] {
    return TakePjrtError(*api_, error, slot.name);
  }
  return absl::OkStatus();
}

absl::Status PjrtPlugin::MissingFunction(pjrt_abi::Slot slot) const {
  const size_t num_slots =
      (api_->struct_size - pjrt_abi::kFirstSlotOffset) / sizeof(void*);
  return absl::UnimplementedError(absl::StrCat(
      "PJRT plugin '", path_, "' (API version ", api_->major_version, ".",
      api_->minor_version, ", ", num_slots, " functions) does not offer ",
      slot.name, ", function number ", slot.index,
      static_cast<size_t>(slot.index) < num_slots
          ? "; its entry is null"
          : "; its table ends before that",
      "; install a newer plugin"));
}

std::optional<int64_t> PjrtPlugin::xla_version() const {
  for (const PjrtNamedValue& attribute : attributes_) {
    if (attribute.name != "xla_version") continue;
    const auto* const value = std::get_if<int64_t>(&attribute.value);
    if (value != nullptr) return *value;
  }
  return std::nullopt;
}

std::optional<PjrtPlugin::Version> PjrtPlugin::stablehlo_current_version()
    const {
  return VersionAttribute("stablehlo_current_version");
}

std::optional<PjrtPlugin::Version> PjrtPlugin::stablehlo_minimum_version()
    const {
  return VersionAttribute("stablehlo_minimum_version");
}

std::optional<PjrtPlugin::Version> PjrtPlugin::VersionAttribute(
    absl::string_view name) const {
  for (const PjrtNamedValue& attribute : attributes_) {
    if (attribute.name != name) continue;
    const auto* const list =
        std::get_if<std::vector<int64_t>>(&attribute.value);
    if (list != nullptr && list->size() == 3) {
      return Version{(*list)[0], (*list)[1], (*list)[2]};
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::string> PjrtPlugin::file_hash() const {
  const std::lock_guard<std::mutex> lock(hash_mutex_);
  if (!hash_.empty()) return hash_;
  XXH3_state_t* const state = XXH3_createState();
  XXH3_128bits_reset(state);
  std::vector<char> part(size_t{1} << 20);
  off_t offset = 0;
  ssize_t size = 0;
  // pread: the descriptor's own position is not ours to move.
  while ((size = pread(file_, part.data(), part.size(), offset)) > 0) {
    XXH3_128bits_update(state, part.data(), static_cast<size_t>(size));
    offset += size;
  }
  const int error = errno;
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  if (size < 0) {
    return absl::DataLossError(
        absl::StrCat("PJRT plugin '", path_, "' can not be read after ", offset,
                     " bytes: ", std::generic_category().message(error),
                     "; check the disk that it lies on"));
  }
  char text[33];
  std::snprintf(text, sizeof(text), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  hash_ = text;
  return hash_;
}

}  // namespace tidewheel
