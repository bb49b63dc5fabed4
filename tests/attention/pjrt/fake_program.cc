#include <algorithm>
#include <span>

#include "tests/attention/pjrt/fake_objects.h"

namespace tidewheel::fake {
namespace {

// Every line here speaks of the C API.
using namespace pjrt_abi;  // NOLINT(google-build-using-namespace)

// ---- Programs ----

// An executable of the announced outputs.
Executable* NewExecutable() {
  auto* const executable = new Executable;
  for (const FakeArray& output : State()->outputs) {
    executable->types.push_back(output.type);
    executable->ranks.push_back(output.dims.size());
    executable->dims.insert(executable->dims.end(), output.dims.begin(),
                            output.dims.end());
  }
  if (State()->donated_argument >= 0 && !State()->outputs.empty()) {
    executable->alias_bytes =
        static_cast<int64_t>(BytesOf(State()->outputs.front()));
  }
  return Track(executable, State()->live_executables);
}

LoadedExecutable* NewLoadedExecutable(Client* client) {
  return Track(new LoadedExecutable{State()->outputs, State()->donated_argument,
                                    client->handles.front()},
               State()->live_loaded_executables);
}

Error* CompileForClient(void* block) {
  TIDEWHEEL_FAKE_OPEN(ClientCompile, args);
  State()->compile_options.assign(args->compile_options,
                                  args->compile_options_size);
  args->executable = NewLoadedExecutable(args->client);
  return nullptr;
}

Error* DeserializeForClient(void* block) {
  TIDEWHEEL_FAKE_OPEN(ExecutableDeserializeAndLoad, args);
  args->loaded_executable = NewLoadedExecutable(args->client);
  return nullptr;
}

Error* CompileForTopology(void* block) {
  TIDEWHEEL_FAKE_OPEN(Compile, args);
  CheckLive(args->topology, "PJRT_Compile");
  if (args->client != nullptr) Violation("PJRT_Compile with a client");
  args->executable = NewExecutable();
  args->executable->topology = const_cast<TopologyDescription*>(args->topology);
  ++args->executable->topology->num_live_programs;
  return nullptr;
}

Error* ExecutableOfLoaded(void* block) {
  TIDEWHEEL_FAKE_OPEN(LoadedExecutableGetExecutable, args);
  CheckLive(args->loaded_executable, "PJRT_LoadedExecutable_GetExecutable");
  args->executable = NewExecutable();
  return nullptr;
}

Error* DevicesOfLoaded(void* block) {
  TIDEWHEEL_FAKE_OPEN(LoadedExecutableAddressableDevices, args);
  args->addressable_devices = &args->executable->device;
  args->num_addressable_devices = 1;
  return nullptr;
}

Error* DestroyExecutable(void* block) {
  TIDEWHEEL_FAKE_OPEN(ExecutableDestroy, args);
  TopologyDescription* const topology = args->executable->topology;
  if (topology != nullptr) --topology->num_live_programs;
  Destroy(args->executable, State()->live_executables,
          "PJRT_Executable_Destroy");
  return nullptr;
}

Error* DestroyLoadedExecutable(void* block) {
  TIDEWHEEL_FAKE_OPEN(LoadedExecutableDestroy, args);
  Destroy(args->executable, State()->live_loaded_executables,
          "PJRT_LoadedExecutable_Destroy");
  return nullptr;
}

Error* NumOutputs(void* block) {
  TIDEWHEEL_FAKE_OPEN(ExecutableNumOutputs, args);
  args->num_outputs = args->executable->types.size();
  return nullptr;
}

Error* OutputElementTypes(void* block) {
  TIDEWHEEL_FAKE_OPEN(ExecutableOutputElementTypes, args);
  args->output_types = args->executable->types.data();
  args->num_output_types = args->executable->types.size();
  return nullptr;
}

Error* OutputDimensions(void* block) {
  TIDEWHEEL_FAKE_OPEN(ExecutableOutputDimensions, args);
  args->num_outputs = args->executable->ranks.size();
  args->dims = args->executable->dims.data();
  args->dim_sizes = args->executable->ranks.data();
  return nullptr;
}

Error* CompiledMemoryStats(void* block) {
  TIDEWHEEL_FAKE_OPEN(ExecutableGetCompiledMemoryStats, args);
  args->alias_size_in_bytes = args->executable->alias_bytes;
  args->temp_size_in_bytes = 42;
  return nullptr;
}

void DeleteSerialized(SerializedExecutable* serialized) {
  Destroy(serialized, State()->live_serialized, "the serialized deleter");
}

Error* SerializeExecutable(void* block) {
  TIDEWHEEL_FAKE_OPEN(ExecutableSerialize, args);
  args->serialized_executable =
      Track(new SerializedExecutable{"blob"}, State()->live_serialized);
  SetText(args->serialized_executable->bytes, &args->serialized_bytes,
          &args->serialized_bytes_size);
  args->serialized_executable_deleter = DeleteSerialized;
  return nullptr;
}

// ---- Launches ----

// What the next launch returns, made beforehand.
std::vector<Buffer*>& PreparedBuffers() {
  static auto* const buffers = new std::vector<Buffer*>;
  return *buffers;
}
std::vector<Event*>& PreparedEvents() {
  static auto* const events = new std::vector<Event*>;
  return *events;
}

Buffer* TakeBuffer(const FakeArray& array) {
  if (PreparedBuffers().empty()) return NewBuffer(array);
  Buffer* const buffer = PreparedBuffers().back();
  PreparedBuffers().pop_back();
  return buffer;
}

Event* TakeEvent(bool fails) {
  if (PreparedEvents().empty()) return NewEvent(fails);
  Event* const event = PreparedEvents().back();
  PreparedEvents().pop_back();
  return event;
}

bool IsVetoed(const ExecuteOptions& options, int argument) {
  const int64_t* const begin = options.non_donatable_input_indices;
  return std::count(begin, begin + options.num_non_donatable_input_indices,
                    argument) > 0;
}

Error* ExecuteLoaded(void* block) {
  TIDEWHEEL_FAKE_OPEN(LoadedExecutableExecute, args);
  CheckLive(args->executable, "PJRT_LoadedExecutable_Execute");
  FakePlugin* const state = State();
  ++state->num_launches;
  const LoadedExecutable& program = *args->executable;
  const std::vector<FakeArray>& outputs = state->returned_outputs.empty()
                                              ? program.outputs
                                              : state->returned_outputs;
  const std::span inputs(args->argument_lists[0], args->num_args);
  // What reads an array that was never computed fails as well.
  const bool fails =
      state->fail_after_launch ||
      std::ranges::any_of(inputs, [](const Buffer* b) { return b->poisoned; });
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (state->lose_outputs) continue;
    Buffer* const buffer = TakeBuffer(outputs[i]);
    buffer->poisoned = fails;
    if (i < inputs.size() && inputs[i]->bytes.size() == buffer->bytes.size()) {
      buffer->bytes.assign(inputs[i]->bytes.begin(), inputs[i]->bytes.end());
    }
    args->output_lists[0][i] = buffer;
  }
  const int donated = program.donated_argument;
  if (donated >= 0 && !IsVetoed((*args->options).fields, donated)) {
    Buffer* const input = inputs[static_cast<size_t>(donated)];
    input->deleted = true;
    if (!state->lose_outputs) {
      args->output_lists[0][0]->bytes.swap(input->bytes);
    }
  }
  if (!state->lose_event) args->device_complete_events[0] = TakeEvent(fails);
  return nullptr;
}

}  // namespace

void PrepareLaunch() {
  for (const FakeArray& output : State()->outputs) {
    PreparedBuffers().insert(PreparedBuffers().begin(), NewBuffer(output));
  }
  PreparedEvents().push_back(NewEvent(false));
}

void SetProgramSlots() {
  SetSlot(ClientCompile::kSlot, CompileForClient);
  SetSlot(Compile::kSlot, CompileForTopology);
  SetSlot(ExecutableDeserializeAndLoad::kSlot, DeserializeForClient);
  SetSlot(ExecutableDestroy::kSlot, DestroyExecutable);
  SetSlot(ExecutableNumOutputs::kSlot, NumOutputs);
  SetSlot(ExecutableOutputElementTypes::kSlot, OutputElementTypes);
  SetSlot(ExecutableOutputDimensions::kSlot, OutputDimensions);
  SetSlot(ExecutableGetCompiledMemoryStats::kSlot, CompiledMemoryStats);
  SetSlot(ExecutableSerialize::kSlot, SerializeExecutable);
  SetSlot(LoadedExecutableDestroy::kSlot, DestroyLoadedExecutable);
  SetSlot(LoadedExecutableGetExecutable::kSlot, ExecutableOfLoaded);
  SetSlot(LoadedExecutableAddressableDevices::kSlot, DevicesOfLoaded);
  SetSlot(LoadedExecutableExecute::kSlot, ExecuteLoaded);
}

}  // namespace tidewheel::fake
