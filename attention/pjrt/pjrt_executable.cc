#include "attention/pjrt/pjrt_executable.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_executable.h"
#include "attention/pjrt/pjrt_client.h"

namespace tidewheel {

PjrtExecutable::PjrtExecutable(std::shared_ptr<const PjrtClient> client,
                               pjrt_abi::LoadedExecutable* handle,
                               PjrtSignature signature)
    : client_(std::move(client)),
      handle_(handle),
      signature_(std::move(signature)) {
  TIDEWHEEL_CHECK(client_ != nullptr);
  TIDEWHEEL_CHECK(handle != nullptr);
}

PjrtExecutable::~PjrtExecutable() {
  program_.reset();
  pjrt_abi::Block<pjrt_abi::LoadedExecutableDestroy> args;
  args->executable = handle_;
  client_->plugin().Call(args).IgnoreError();
}

absl::StatusOr<std::unique_ptr<PjrtExecutable>> PjrtExecutable::Create(
    std::shared_ptr<const PjrtClient> client,
    pjrt_abi::LoadedExecutable* handle, PjrtSignature signature) {
  std::unique_ptr<PjrtExecutable> executable(
      new PjrtExecutable(std::move(client), handle, std::move(signature)));
  TIDEWHEEL_RETURN_IF_ERROR(CheckSignature(executable->signature_));
  TIDEWHEEL_RETURN_IF_ERROR(executable->ReadProgram());
  TIDEWHEEL_RETURN_IF_ERROR(executable->FindDevice());
  TIDEWHEEL_RETURN_IF_ERROR(executable->CheckOutputsDeclared());
  TIDEWHEEL_RETURN_IF_ERROR(executable->CheckDonation());
  return executable;
}

absl::Status PjrtExecutable::ReadProgram() {
  const PjrtPlugin& plugin = client_->plugin();
  pjrt_abi::Block<pjrt_abi::LoadedExecutableGetExecutable> args;
  args->loaded_executable = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin.Call(args));
  TIDEWHEEL_ASSIGN_OR_RETURN(program_, PjrtCompiledProgram::Create(
                                           &plugin, client_, args->executable));
  if (outputs().size() > PjrtSignature::kMaxArrays) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a program of ", outputs().size(), " outputs exceeds ",
        PjrtSignature::kMaxArrays, "; join arrays of one type into one"));
  }
  return absl::OkStatus();
}

absl::Status PjrtExecutable::FindDevice() {
  pjrt_abi::Block<pjrt_abi::LoadedExecutableAddressableDevices> args;
  args->executable = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(client_->plugin().Call(args));
  if (args->num_addressable_devices != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the program runs on ", args->num_addressable_devices,
        " devices of this process, 1 is supported; export it without "
        "sharding"));
  }
  device_ = client_->FindDevice(args->addressable_devices[0]);
  if (device_ == nullptr) {
    return absl::InternalError(
        "the program was loaded on a device that is none of the client's; "
        "compile it anew");
  }
  return absl::OkStatus();
}

absl::Status PjrtExecutable::CheckOutputsDeclared() const {
  const std::vector<PjrtShape>& declared = signature_.outputs;
  if (declared.empty()) return absl::OkStatus();
  if (declared.size() != outputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the program returns ", outputs().size(), " arrays, its signature has ",
        declared.size(), "; state the outputs as the program returns them"));
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i] == outputs()[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("output ", i, " is ", outputs()[i].ToString(),
                     ", the signature says ", declared[i].ToString(),
                     "; state the outputs as the program returns them"));
  }
  return absl::OkStatus();
}

absl::Status PjrtExecutable::CheckDonation() {
  int64_t donated_bytes = 0;
  for (size_t i = 0; i < arguments().size(); ++i) {
    if (!arguments()[i].donated) continue;
    donated_.push_back(i);
    donated_bytes += arguments()[i].shape.num_bytes();
  }
  const absl::StatusOr<PjrtCompiledMemoryStats> stats = MemoryStats();
  if (stats.ok() && stats->alias_bytes == 0) {
    if (donated_bytes == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "argument ", donated_.front(), " of the signature is donated (",
        donated_bytes,
        " bytes in all), but the compiled program reuses 0 bytes, so every "
        "launch would copy it; put tf.aliasing_output or jax.buffer_donor on "
        "the argument, and return an array of its type and dimensions"));
  }
  for (size_t i = 0; i < arguments().size(); ++i) {
    if (!arguments()[i].donated) {
      not_donated_.push_back(static_cast<int64_t>(i));
    }
  }
  return absl::OkStatus();
}

absl::Status PjrtExecutable::CheckArgument(size_t index,
                                           const PjrtBuffer* buffer) const {
  const PjrtShape& expected = arguments()[index].shape;
  if (buffer == nullptr || buffer->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "argument ", index, " is ", buffer == nullptr ? "null" : "empty", ", ",
        expected.ToString(), " is expected; upload it, or pass an output"));
  }
  if (buffer->client() != client_.get()) {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", index, " (", buffer->shape().ToString(),
                     ") belongs to another client, one on platform ",
                     client_->platform_name(),
                     " is expected; upload it through that client"));
  }
  if (buffer->device() != device_) {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", index, " is on device ",
                     buffer->device()->id(), ", the program runs on device ",
                     device_->id(), "; upload it to that device"));
  }
  if (buffer->shape() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "argument ", index, " is ", buffer->shape().ToString(), ", ",
        expected.ToString(), " is expected; pass an array of that type"));
  }
  if (buffer->IsDeleted()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "argument ", index, " (", expected.ToString(),
        ") was deleted, or donated to an earlier launch; pass the output that "
        "took its memory"));
  }
  return absl::OkStatus();
}

absl::Status PjrtExecutable::CheckArguments(
    std::span<PjrtBuffer* const> arguments) const {
  if (arguments.size() != signature_.arguments.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the launch has ", arguments.size(), " arguments, ",
                     signature_.arguments.size(),
                     " are expected; pass one buffer for each"));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    TIDEWHEEL_RETURN_IF_ERROR(CheckArgument(i, arguments[i]));
  }
  for (const size_t donated : donated_) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (i == donated ||
          arguments[i]->handle() != arguments[donated]->handle()) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "argument ", donated, " (", arguments[i]->shape().ToString(),
          ") is donated, and is argument ", i,
          " too; pass a copy as one of them"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PjrtEvent> PjrtExecutable::Launch(
    std::span<PjrtBuffer* const> arguments,
    std::span<PjrtBuffer> outputs) const {
  const size_t num_outputs = this->outputs().size();
  if (outputs.size() != num_outputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("the launch has room for ", outputs.size(), " outputs, ",
                     num_outputs, " are expected; pass one object for each"));
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckArguments(arguments));
  pjrt_abi::Buffer* argument_handles[PjrtSignature::kMaxArrays];
  for (size_t i = 0; i < arguments.size(); ++i) {
    argument_handles[i] = arguments[i]->handle();
  }
  pjrt_abi::Buffer* output_handles[PjrtSignature::kMaxArrays];
  std::fill_n(output_handles, num_outputs, nullptr);
  pjrt_abi::Buffer* const* const argument_list = argument_handles;
  pjrt_abi::Buffer** const output_list = output_handles;
  pjrt_abi::Event* event = nullptr;
  pjrt_abi::Block<pjrt_abi::ExecuteOptions> options;
  options->non_donatable_input_indices = not_donated_.data();
  options->num_non_donatable_input_indices = not_donated_.size();
  pjrt_abi::Block<pjrt_abi::LoadedExecutableExecute> args;
  args->executable = handle_;
  args->options = &options;
  args->argument_lists = &argument_list;
  args->num_devices = 1;
  args->num_args = arguments.size();
  args->output_lists = &output_list;
  args->device_complete_events = &event;
  TIDEWHEEL_RETURN_IF_ERROR(client_->plugin().Call(args));
  PjrtEvent done;
  if (event != nullptr) done = PjrtEvent(&client_->plugin(), client_, event);
  TIDEWHEEL_RETURN_IF_ERROR(
      TakeOutputs(std::span(output_handles, num_outputs), outputs));
  if (done.empty()) {
    return absl::InternalError(
        absl::StrCat("PJRT plugin '", client_->plugin().path(),
                     "' gave no completion event for a launch; install "
                     "another build of the plugin"));
  }
  return done;
}

absl::Status PjrtExecutable::CheckOutput(size_t index,
                                         pjrt_abi::Buffer* handle) const {
  const PjrtShape& expected = outputs()[index];
  if (handle == nullptr) {
    return absl::InternalError(
        absl::StrCat("the plugin returned no buffer for output ", index, ", ",
                     expected.ToString(),
                     " is expected; install another build of the plugin"));
  }
  pjrt_abi::Block<pjrt_abi::BufferElementType> type;
  type->buffer = handle;
  TIDEWHEEL_RETURN_IF_ERROR(client_->plugin().Call(type));
  pjrt_abi::Block<pjrt_abi::BufferDimensions> dims;
  dims->buffer = handle;
  TIDEWHEEL_RETURN_IF_ERROR(client_->plugin().Call(dims));
  const std::span<const int64_t> found(dims->dims, dims->num_dims);
  if (type->type == expected.element_type() &&
      std::ranges::equal(found, expected.dims())) {
    return absl::OkStatus();
  }
  const absl::StatusOr<PjrtShape> shape = PjrtShape::Create(type->type, found);
  return absl::InternalError(absl::StrCat(
      "the plugin returned ",
      shape.ok() ? shape->ToString() : std::string(shape.status().message()),
      " as output ", index, ", but announced ", expected.ToString(),
      "; install another build of the plugin"));
}

absl::Status PjrtExecutable::TakeOutputs(
    std::span<pjrt_abi::Buffer* const> handles,
    std::span<PjrtBuffer> outputs) const {
  absl::Status status;
  for (size_t i = 0; i < handles.size() && status.ok(); ++i) {
    status = CheckOutput(i, handles[i]);
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    if (handles[i] == nullptr) continue;
    PjrtBuffer buffer(client_, device_, handles[i], this->outputs()[i]);
    // Where one is wrong, all are destroyed here.
    if (status.ok()) outputs[i] = std::move(buffer);
  }
  return status;
}

}  // namespace tidewheel
