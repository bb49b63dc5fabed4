// KernelLibrary: a folder of ahead-of-time kernels, and which of them serves a
// batch.
//
// It compiles nothing, and it does not fall back: where no kernel fits, it says
// which came nearest and what differs, and the caller has StableHLO emitted.
//
// Lifecycle:
//   1. Load: parses manifest.json and checks every file against it, so that a
//      damaged copy is told at the start and not while a server serves.
//   2. Choose, for each shape that is about to be compiled.
//   3. Read, which checks the bytes once more.
//
// Invariants: every artifact's file lies in the folder, also behind symbolic
// links. No two artifacts are for the same settings and bucket.
//
// Thread-safety: immutable after Load. Choose is O(artifacts).

#ifndef TIDEWHEEL_ATTENTION_PJRT_KERNEL_LIBRARY_H_
#define TIDEWHEEL_ATTENTION_PJRT_KERNEL_LIBRARY_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/pjrt/kernel_manifest.h"

namespace tidewheel {

// What is asked for.
struct KernelNeed {
  KernelSettings settings;
  KernelBucket bucket;
};

struct KernelChoice {
  // Null where no kernel fits. Lives as long as the library.
  const KernelArtifact* artifact = nullptr;
  // Where it is null: the nearest kernel, what of it differs, what to do.
  std::string reason;
};

class KernelLibrary {
 public:
  // Errors: NotFound if the folder, its manifest or an artifact is not there;
  // those of ParseKernelManifest, with the file's name; InvalidArgument for a
  // file that is no regular one or lies outside of the folder; DataLoss for one
  // whose size or hash is not the manifest's.
  static absl::StatusOr<KernelLibrary> Load(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const KernelManifest& manifest() const { return manifest_; }

  // The kernel with these settings and the smallest bucket that covers: first
  // by tokens, which cost time in every layer, then by the table's size.
  KernelChoice Choose(const KernelNeed& need) const;

  // The program of one of this library's artifacts: StableHLO bytecode, format
  // "mlir".
  //
  // Errors: as Load, for this file.
  absl::StatusOr<std::string> Read(const KernelArtifact& artifact) const;

 private:
  KernelLibrary(std::string folder, KernelManifest manifest)
      : folder_(std::move(folder)), manifest_(std::move(manifest)) {}

  std::string folder_;
  KernelManifest manifest_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_KERNEL_LIBRARY_H_
