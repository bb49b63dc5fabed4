#include "attention/pjrt/program_entry.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace tidewheel {
namespace {

constexpr char kMagic[] = "TWPJRT\r\n";
constexpr size_t kMagicBytes = 8;
constexpr uint64_t kVersion = 1;
constexpr size_t kHashBytes = 16;
constexpr size_t kHeaderBytes = 56;
// Executables have some megabytes; a larger file would only take memory.
constexpr size_t kLargestEntry = size_t{1} << 31;

// Closes a descriptor at the end of a scope.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() { Close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool ok() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  // Whether all that was written has arrived.
  bool Close() {
    const int descriptor = std::exchange(descriptor_, -1);
    return descriptor < 0 || close(descriptor) == 0;
  }

 private:
  int descriptor_;
};

std::string LittleEndian(uint64_t value, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(value >> (8 * i));
  }
  return text;
}

std::string HashOf(absl::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical,
                           XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest),
                     kHashBytes);
}

std::string Header(absl::string_view key, absl::string_view payload) {
  TIDEWHEEL_CHECK_EQ(key.size(), kHashBytes);
  return absl::StrCat(absl::string_view(kMagic, kMagicBytes),
                      LittleEndian(kVersion, 8), key,
                      LittleEndian(payload.size(), 8), HashOf(payload));
}

absl::Status SystemError(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("can not ", what, " '", path, "': ", std::strerror(errno)));
}

bool ReadAll(int file, std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = read(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

bool WriteAll(int file, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// A name that no other process or thread uses.
std::string TemporaryName(const std::string& path) {
  static std::atomic<uint64_t> counter = 0;
  return absl::StrCat(path, ".", getpid(), ".", counter++, ".tmp");
}

}  // namespace

std::string HashOfParts(std::span<const absl::string_view> parts) {
  std::string joined;
  for (const absl::string_view part : parts) {
    joined += LittleEndian(part.size(), 8);
    joined.append(part.data(), part.size());
  }
  return HashOf(joined);
}

absl::StatusOr<std::string> ReadProgramEntry(const std::string& path,
                                             absl::string_view key) {
  // Not blocking: a pipe of that name must not hold the caller.
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) {
    return absl::NotFoundError(absl::StrCat("no entry '", path, "'"));
  }
  struct stat status = {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return absl::DataLossError(absl::StrCat("'", path, "' is no file"));
  }
  const auto size = static_cast<size_t>(status.st_size);
  if (size < kHeaderBytes || size > kLargestEntry) {
    return absl::DataLossError(
        absl::StrCat("'", path, "' has ", size, " bytes, an entry has ",
                     kHeaderBytes, " to ", kLargestEntry));
  }
  std::string header(kHeaderBytes, '\0');
  std::string payload(size - kHeaderBytes, '\0');
  if (!ReadAll(file.get(), header) || !ReadAll(file.get(), payload)) {
    return absl::DataLossError(absl::StrCat("can not read '", path, "'"));
  }
  if (header != Header(key, payload)) {
    return absl::DataLossError(absl::StrCat(
        "'", path, "' is no entry of this version, this program and ",
        payload.size(), " undamaged bytes"));
  }
  return payload;
}

absl::Status WriteProgramEntry(const std::string& path, absl::string_view key,
                               absl::string_view payload) {
  const std::string temporary = TemporaryName(path);
  File file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                 S_IRUSR | S_IWUSR));
  if (!file.ok()) return SystemError("create", temporary);
  const bool written = WriteAll(file.get(), Header(key, payload)) &&
                       WriteAll(file.get(), payload);
  if (!written || !file.Close()) {
    const absl::Status status = SystemError("write", temporary);
    unlink(temporary.c_str());
    return status;
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const absl::Status status = SystemError("rename a file to", path);
    unlink(temporary.c_str());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
