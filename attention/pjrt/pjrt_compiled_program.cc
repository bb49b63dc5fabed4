#include "attention/pjrt/pjrt_compiled_program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_c_api_executable.h"

namespace tidewheel {

PjrtCompiledProgram::PjrtCompiledProgram(const PjrtPlugin* plugin,
                                         std::shared_ptr<const void> owner,
                                         pjrt_abi::Executable* handle)
    : plugin_(plugin), owner_(std::move(owner)), handle_(handle) {
  TIDEWHEEL_CHECK(handle != nullptr);
}

PjrtCompiledProgram::~PjrtCompiledProgram() {
  pjrt_abi::Block<pjrt_abi::ExecutableDestroy> args;
  args->executable = handle_;
  plugin_->Call(args).IgnoreError();
}

absl::StatusOr<std::unique_ptr<PjrtCompiledProgram>>
PjrtCompiledProgram::Create(const PjrtPlugin* plugin,
                            std::shared_ptr<const void> owner,
                            pjrt_abi::Executable* handle) {
  std::unique_ptr<PjrtCompiledProgram> program(
      new PjrtCompiledProgram(plugin, std::move(owner), handle));
  TIDEWHEEL_RETURN_IF_ERROR(program->ReadOutputs());
  return program;
}

absl::Status PjrtCompiledProgram::ReadOutputs() {
  pjrt_abi::Block<pjrt_abi::ExecutableNumOutputs> count;
  count->executable = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(count));
  pjrt_abi::Block<pjrt_abi::ExecutableOutputElementTypes> types;
  types->executable = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(types));
  pjrt_abi::Block<pjrt_abi::ExecutableOutputDimensions> dims;
  dims->executable = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(dims));
  if (types->num_output_types != count->num_outputs ||
      dims->num_outputs != count->num_outputs) {
    return absl::InternalError(absl::StrCat(
        "PJRT plugin '", plugin_->path(), "' contradicts itself: a program of ",
        count->num_outputs, " outputs has ", types->num_output_types,
        " element types and ", dims->num_outputs,
        " dimension lists; install another build of the plugin"));
  }
  const int64_t* next = dims->dims;
  for (size_t i = 0; i < count->num_outputs; ++i) {
    const size_t rank = dims->dim_sizes[i];
    absl::StatusOr<PjrtShape> shape = PjrtShape::Create(
        types->output_types[i], std::span<const int64_t>(next, rank));
    if (!shape.ok()) {
      return absl::UnimplementedError(
          absl::StrCat("output ", i, ": ", shape.status().message()));
    }
    outputs_.push_back(*shape);
    next += rank;
  }
  return absl::OkStatus();
}

absl::StatusOr<PjrtCompiledMemoryStats> PjrtCompiledProgram::MemoryStats()
    const {
  pjrt_abi::Block<pjrt_abi::ExecutableGetCompiledMemoryStats> args;
  args->executable = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(args));
  return PjrtCompiledMemoryStats{
      .argument_bytes = args->argument_size_in_bytes,
      .output_bytes = args->output_size_in_bytes,
      .alias_bytes = args->alias_size_in_bytes,
      .temp_bytes = args->temp_size_in_bytes,
      .generated_code_bytes = args->generated_code_size_in_bytes,
  };
}

absl::StatusOr<std::string> PjrtCompiledProgram::Serialize() const {
  pjrt_abi::Block<pjrt_abi::ExecutableSerialize> args;
  args->executable = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(args));
  std::string bytes(args->serialized_bytes, args->serialized_bytes_size);
  if (args->serialized_executable_deleter != nullptr) {
    args->serialized_executable_deleter(args->serialized_executable);
  }
  return bytes;
}

}  // namespace tidewheel
