// The fake plugin of tests/attention/pjrt with faults that the environment
// chooses, since a test can not reach into a child process:
//
//   TIDEWHEEL_TEST_FAULT=abort:WORD   compiling a program that holds WORD ends
//   TIDEWHEEL_TEST_FAULT=hang:WORD    the process, or never ends
//   TIDEWHEEL_TEST_FAULT=refuse:WORD  or fails as libtpu does
//   TIDEWHEEL_TEST_FAULT=load:abort, load:hang, client:abort, client:hang
//   TIDEWHEEL_TEST_ALIAS=BYTES        of every compiled program

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/attention/pjrt/fake_objects.h"

// What fake_plugin.cc exports, renamed by its compile definition.
extern "C" const tidewheel::pjrt_abi::Api* GetFakePjrtApi();

namespace tidewheel::fake {
namespace {

// Every line here speaks of the C API.
using namespace pjrt_abi;  // NOLINT(google-build-using-namespace)

Function g_compile = nullptr;  // the fake's own

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void Hang() {
  while (true) pause();
}

void Act(std::string_view fault) {
  if (fault == "abort") {
    std::fprintf(stderr, "Check failed: the plugin was told to abort\n");
    std::abort();
  }
  if (fault == "hang") Hang();
}

Error* FaultyCompile(void* block) {
  TIDEWHEEL_FAKE_OPEN(Compile, args);
  const std::string_view program((*args->program)->code,
                                 (*args->program)->code_size);
  const std::string fault = Variable("TIDEWHEEL_TEST_FAULT");
  const size_t colon = fault.find(':');
  if (colon != std::string::npos &&
      program.find(fault.substr(colon + 1)) != std::string_view::npos) {
    Act(fault.substr(0, colon));
    return Fail(8,
                "E1001: CompileTimeScopedVmemOom: Scoped allocation with size "
                "17.72M and limit 16.00M exceeded scoped vmem limit by 1.72M");
  }
  return g_compile(block);
}

Error* FaultyClient(void*) {
  Act(Variable("TIDEWHEEL_TEST_FAULT").substr(7));
  return Fail(5, "no device");
}

}  // namespace
}  // namespace tidewheel::fake

extern "C" const tidewheel::pjrt_abi::Api* GetPjrtApi() {
  namespace abi = tidewheel::pjrt_abi;
  using tidewheel::fake::Variable;
  const std::string fault = Variable("TIDEWHEEL_TEST_FAULT");
  if (fault.rfind("load:", 0) == 0) tidewheel::fake::Act(fault.substr(5));
  const std::string alias = Variable("TIDEWHEEL_TEST_ALIAS");
  if (!alias.empty()) {
    tidewheel::FakePlugin* const state = tidewheel::fake::State();
    state->outputs = {{tidewheel::PjrtElementType::kI8, {std::stoll(alias)}}};
    state->donated_argument = 0;
  }
  const abi::Api* const api = GetFakePjrtApi();
  tidewheel::fake::g_compile = abi::FindFunction(*api, abi::Compile::kSlot);
  tidewheel::fake::SetSlot(abi::Compile::kSlot, tidewheel::fake::FaultyCompile);
  if (fault.rfind("client:", 0) == 0) {
    tidewheel::fake::SetSlot(abi::ClientCreate::kSlot,
                             tidewheel::fake::FaultyClient);
  }
  return api;
}
