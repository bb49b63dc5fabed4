// OutputFile: a file that a command writes, with errors that name it.
//
// stdio loses what goes wrong between fopen and fclose unless every call is
// looked at; here the first error is kept and Close returns it, so that a full
// disk is not a success.
//
// Single-threaded.

#ifndef TIDEWHEEL_TOOLS_OUTPUT_FILE_H_
#define TIDEWHEEL_TOOLS_OUTPUT_FILE_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

class OutputFile {
 public:
  // Creates or empties the file at `path`.
  // Errors: NotFound or PermissionDenied, naming path and reason.
  static absl::StatusOr<OutputFile> Open(const std::string& path);

  void Write(absl::string_view text);
  // Errors: Unavailable, for the first thing that went wrong.
  // REQUIRES: not closed before.
  absl::Status Close();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  OutputFile(std::string path, std::FILE* file)
      : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  int error_ = 0;  // errno of the first failure
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_OUTPUT_FILE_H_
