#include "attention/pjrt/kernel_library.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/status_macros.h"

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace tidewheel {
namespace {

namespace fs = std::filesystem;

constexpr char kManifestName[] = "manifest.json";
// A manifest of ten thousand kernels has 20 MB.
constexpr uintmax_t kMaxManifestBytes = 256 << 20;

// What to do about a folder that is not as it was exported.
constexpr absl::string_view kRemedy =
    "; copy the folder again, or export it again with "
    "tools/export_tpu_kernel.py";

absl::StatusOr<uintmax_t> FileSize(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::NotFoundError(
        absl::StrCat("kernels: ", path.string(), " is not there", kRemedy));
  }
  if (!fs::is_regular_file(status)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kernels: ", path.string(),
        error ? absl::StrCat(" can not be opened (", error.message(), ")")
              : " is no regular file",
        kRemedy));
  }
  const uintmax_t size = fs::file_size(path, error);
  if (!error) return size;
  return absl::UnavailableError(
      absl::StrCat("kernels: the size of ", path.string(), " can not be told (",
                   error.message(), "); check the file system"));
}

absl::StatusOr<std::string> ReadFile(const fs::path& path, uintmax_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return absl::UnavailableError(
        absl::StrCat("kernels: ", path.string(), " can not be read (", size,
                     " bytes); check its permissions"));
  }
  return bytes;
}

std::string Xxh3Of(const std::string& bytes) {
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes.data(), bytes.size()));
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.digest), sizeof(digest.digest)));
}

// A link inside of the folder may not point out of it.
absl::Status CheckInside(const fs::path& folder, const fs::path& path) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  const fs::path target = fs::canonical(path, error);
  const fs::path relative = target.lexically_relative(root);
  if (!error && !relative.empty() && *relative.begin() != "..") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("kernels: ", path.string(), " leads out of the folder",
                   error ? absl::StrCat(" (", error.message(), ")") : "",
                   "; replace the link by the file"));
}

absl::StatusOr<std::string> ReadArtifact(const fs::path& folder,
                                         const KernelArtifact& artifact) {
  const fs::path path = folder / artifact.file;
  TIDEWHEEL_ASSIGN_OR_RETURN(const uintmax_t size, FileSize(path));
  TIDEWHEEL_RETURN_IF_ERROR(CheckInside(folder, path));
  if (size != static_cast<uintmax_t>(artifact.bytes)) {
    return absl::DataLossError(
        absl::StrCat("kernels: ", path.string(), " has ", size, " bytes, not ",
                     artifact.bytes, " as the manifest says", kRemedy));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, size));
  const std::string hash = Xxh3Of(bytes);
  if (hash != artifact.xxh3_128) {
    return absl::DataLossError(absl::StrCat(
        "kernels: ", path.string(), " has the XXH3-128 ", hash, ", not ",
        artifact.xxh3_128, " as the manifest says", kRemedy));
  }
  return bytes;
}

std::vector<std::string> Shortages(const KernelBucket& has,
                                   const KernelBucket& needs) {
  std::vector<std::string> found;
  const auto compare = [&](absl::string_view name, int64_t a, int64_t b) {
    if (a >= b) return;
    found.push_back(absl::StrCat(name, " ", a, " where ", b, " are needed"));
  };
  compare("num_tokens", has.num_tokens, needs.num_tokens);
  compare("max_num_seqs", has.max_num_seqs, needs.max_num_seqs);
  compare("pages_per_seq", has.pages_per_seq, needs.pages_per_seq);
  return found;
}

// Smaller is cheaper. The sizes are below 2^31.
std::tuple<int64_t, int64_t, int64_t> CostOf(const KernelBucket& bucket) {
  return {bucket.num_tokens, bucket.max_num_seqs * bucket.pages_per_seq,
          bucket.max_num_seqs};
}

std::string Describe(const KernelNeed& need) {
  return absl::StrCat(TpuGenerationName(need.settings.generation), ", ",
                      need.bucket.num_tokens, " tokens, ",
                      need.bucket.max_num_seqs, " sequences of ",
                      need.bucket.pages_per_seq, " pages");
}

}  // namespace

absl::StatusOr<KernelLibrary> KernelLibrary::Load(const std::string& folder) {
  const fs::path path = fs::path(folder) / kManifestName;
  TIDEWHEEL_ASSIGN_OR_RETURN(const uintmax_t size, FileSize(path));
  if (size > kMaxManifestBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kernels: ", path.string(), " has ", size, " bytes, above ",
        kMaxManifestBytes, "; split the kernels over several folders"));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, size));
  absl::StatusOr<KernelManifest> manifest = ParseKernelManifest(text);
  if (!manifest.ok()) {
    return absl::Status(
        manifest.status().code(),
        absl::StrCat(path.string(), ": ", manifest.status().message()));
  }
  for (const KernelArtifact& artifact : manifest->artifacts) {
    TIDEWHEEL_RETURN_IF_ERROR(ReadArtifact(folder, artifact).status());
  }
  return KernelLibrary(folder, *std::move(manifest));
}

KernelChoice KernelLibrary::Choose(const KernelNeed& need) const {
  const KernelArtifact* best = nullptr;
  const KernelArtifact* nearest = nullptr;
  std::vector<std::string> differences;
  // Settings count before sizes, and the larger of two kernels is nearer.
  std::optional<std::tuple<size_t, size_t, int64_t>> least;
  for (const KernelArtifact& artifact : manifest_.artifacts) {
    std::vector<std::string> found =
        DifferentSettings(artifact.settings, need.settings);
    const std::vector<std::string> shortages =
        Shortages(artifact.bucket, need.bucket);
    if (found.empty() && shortages.empty()) {
      if (best == nullptr || CostOf(artifact.bucket) < CostOf(best->bucket)) {
        best = &artifact;
      }
      continue;
    }
    const std::tuple distance(found.size(), shortages.size(),
                              -artifact.bucket.num_tokens);
    if (least.has_value() && *least <= distance) continue;
    least = distance;
    nearest = &artifact;
    found.insert(found.end(), shortages.begin(), shortages.end());
    differences = std::move(found);
  }
  if (best != nullptr) return {.artifact = best, .reason = ""};
  std::string reason = absl::StrCat("no ahead-of-time kernel in ", folder_,
                                    " is for ", Describe(need));
  if (nearest == nullptr) {
    absl::StrAppend(&reason, ": the manifest lists none");
  } else {
    absl::StrAppend(&reason, ": the nearest, ", nearest->file, " for ",
                    TpuGenerationName(nearest->settings.generation), ", has ",
                    absl::StrJoin(differences, ", "));
  }
  absl::StrAppend(&reason, "; tools/export_tpu_kernel.py exports one");
  return {.artifact = nullptr, .reason = std::move(reason)};
}

absl::StatusOr<std::string> KernelLibrary::Read(
    const KernelArtifact& artifact) const {
  return ReadArtifact(folder_, artifact);
}

}  // namespace tidewheel
