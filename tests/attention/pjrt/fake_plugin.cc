#include "tests/attention/pjrt/fake_plugin.h"

#include <algorithm>
#include <cstring>

#include "tests/attention/pjrt/fake_objects.h"

namespace tidewheel::fake {
namespace {

// Every line here speaks of the C API.
using namespace pjrt_abi;  // NOLINT(google-build-using-namespace)

struct Table {
  Api api;
  Function slots[kFakeNumSlots];
};

Table* GetTable() {
  static Table* const table = new Table{};
  return table;
}

Error* InitializePlugin(void* block) {
  TIDEWHEEL_FAKE_OPEN(PluginInitialize, args);
  static_cast<void>(args);
  return nullptr;
}

Error* AttributesOfPlugin(void* block) {
  TIDEWHEEL_FAKE_OPEN(PluginAttributes, args);
  static constexpr int64_t kVersion[] = {1, 2, 3};
  static NamedValue values[2] = {};
  values[0].name = "xla_version";
  values[0].name_size = 11;
  values[0].type = NamedValueType::kInt64;
  values[0].int64_value = 2;
  values[0].value_size = 1;
  values[1].name = "stablehlo_current_version";
  values[1].name_size = 25;
  values[1].type = NamedValueType::kInt64List;
  values[1].int64_array_value = kVersion;
  values[1].value_size = 3;
  args->attributes = values;
  args->num_attributes = 2;
  return nullptr;
}

Error* NotOffered(void*) { return Fail(12, "the fake plugin lacks this"); }

void RefreshTable() {
  Table* const table = GetTable();
  const FakePlugin& state = *State();
  table->api.struct_size =
      kFirstSlotOffset + state.num_slots * sizeof(Function);
  table->api.version_struct_size = 24;
  table->api.major_version = state.major_version;
  table->api.minor_version = state.minor_version;
  std::fill_n(table->slots, kFakeNumSlots, NotOffered);
  SetSlot(PluginInitialize::kSlot, InitializePlugin);
  SetSlot(PluginAttributes::kSlot, AttributesOfPlugin);
  SetErrorSlots();
  SetClientSlots();
  SetProgramSlots();
  SetBufferSlots();
  if (state.null_slot != kNoSlot) table->slots[state.null_slot] = nullptr;
}

}  // namespace

void SetSlot(Slot slot, Function function) {
  GetTable()->slots[slot.index] = function;
}

void SetVoidSlot(Slot slot, VoidFunction function) {
  std::memcpy(&GetTable()->slots[slot.index], &function, sizeof(function));
}

}  // namespace tidewheel::fake

extern "C" {

const tidewheel::pjrt_abi::Api* GetPjrtApi() {
  tidewheel::fake::RefreshTable();
  return tidewheel::fake::State()->no_table ? nullptr
                                            : &tidewheel::fake::GetTable()->api;
}

tidewheel::FakePlugin* GetFakePlugin() {
  tidewheel::FakePlugin* const state = tidewheel::fake::State();
  state->refresh = tidewheel::fake::RefreshTable;
  state->prepare_launch = tidewheel::fake::PrepareLaunch;
  return state;
}
}
