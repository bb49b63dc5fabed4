// DeviceProgram: a program of attention/stablehlo, compiled by a plugin, with
// arrays of the host for arguments and results.
//
// A failure of the plugin fails the test that runs it: no method returns one.

#ifndef TIDEWHEEL_TESTS_ATTENTION_STABLEHLO_DEVICE_PROGRAM_H_
#define TIDEWHEEL_TESTS_ATTENTION_STABLEHLO_DEVICE_PROGRAM_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attention/pjrt/pjrt_client.h"
#include "attention/stablehlo/program_signature.h"

namespace tidewheel {

using Bytes = std::vector<char>;

inline Bytes BytesOf(std::span<const int32_t> values) {
  const auto* begin = reinterpret_cast<const char*>(values.data());
  return Bytes(begin, begin + values.size_bytes());
}

// One client of each CPU plugin in a process; null after a failure.
std::shared_ptr<PjrtClient> CpuClient(const std::string& plugin_path);

PjrtShape PjrtShapeOf(const TensorType& type);

class DeviceProgram {
 public:
  DeviceProgram(std::shared_ptr<PjrtClient> client, Program program);

  const Program& program() const { return program_; }
  // Whether it compiled.
  bool ok() const { return executable_ != nullptr; }
  PjrtCompiledMemoryStats MemoryStats() const;

  PjrtBuffer Upload(size_t argument, const Bytes& bytes) const;
  Bytes Download(const PjrtBuffer& buffer) const;
  // Donated arguments are gone after it.
  std::vector<PjrtBuffer> Launch(std::vector<PjrtBuffer>& arguments) const;
  // All of that.
  std::vector<Bytes> Run(const std::vector<Bytes>& arguments) const;

 private:
  const std::shared_ptr<PjrtClient> client_;
  const Program program_;
  std::unique_ptr<PjrtExecutable> executable_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ATTENTION_STABLEHLO_DEVICE_PROGRAM_H_
