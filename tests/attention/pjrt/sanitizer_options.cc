// What the sanitizers must not report of real plugins.
//
// A CPU plugin releases with free what operator new of the test binary gave
// it, while it is being loaded; the address sanitizer would end the process
// there. Nothing in this binary mixes the two.

// NOLINTNEXTLINE(readability-identifier-naming): the sanitizer's name
extern "C" const char* __asan_default_options() {
  return "alloc_dealloc_mismatch=0";
}
