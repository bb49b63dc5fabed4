// TemporaryFolder: a place for a test's files, gone with the object.
//
// Its name comes from mkdtemp and not from a test or a process: a test that
// was killed leaves its folder behind, and process ids come again. Use it for
// each file that a test writes:
//
//   const TemporaryFolder folder;
//   const std::string path = folder.Write("shapes.json", "[]");
//
// A process that ends with _exit must end the folder's scope before.
//
// Thread-safety: single-threaded.

#ifndef TIDEWHEEL_TESTS_TEMPORARY_FOLDER_H_
#define TIDEWHEEL_TESTS_TEMPORARY_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "allocator/check.h"

namespace tidewheel {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name =
        std::filesystem::temp_directory_path() / "tidewheel_XXXXXX";
    TIDEWHEEL_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = std::filesystem::canonical(name);
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    TIDEWHEEL_CHECK(!error);
  }

  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Without symbolic links in it.
  const std::filesystem::path& path() const { return path_; }

  // The path that a file of this name has, or would have.
  std::string File(const std::string& name) const { return path_ / name; }

  // The path of a file that holds these bytes now.
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file << bytes;
    file.close();
    TIDEWHEEL_CHECK(file.good());
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TEMPORARY_FOLDER_H_
