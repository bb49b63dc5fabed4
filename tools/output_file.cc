#include "tools/output_file.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"

namespace tidewheel {

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file != nullptr) return OutputFile(path, file);
  const int error = errno;
  const std::string text =
      absl::StrCat("cannot write ", path, ": ", std::strerror(error),
                   "; name a file in a folder that you may write to");
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(text);
  }
  return absl::NotFoundError(text);
}

void OutputFile::Write(absl::string_view text) {
  if (error_ != 0 || text.empty()) return;
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) {
    error_ = errno != 0 ? errno : EIO;
  }
}

absl::Status OutputFile::Close() {
  TIDEWHEEL_CHECK(file_ != nullptr);
  if (std::fclose(file_.release()) != 0 && error_ == 0) {
    error_ = errno != 0 ? errno : EIO;
  }
  if (error_ == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("writing ", path_,
                                             " failed: ", std::strerror(error_),
                                             "; the file is not complete"));
}

}  // namespace tidewheel
