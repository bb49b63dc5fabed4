// Outcome: what a command returned and printed.
//
// Thread-safety: single-threaded.

#ifndef TIDEWHEEL_TESTS_TOOLS_CAPTURED_OUTPUT_H_
#define TIDEWHEEL_TESTS_TOOLS_CAPTURED_OUTPUT_H_

#include <cstdio>
#include <string>

#include "nlohmann/json.hpp"

namespace tidewheel {

struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;

  // Discarded where `out` is no JSON.
  nlohmann::json json() const {
    return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
  }
};

// Everything in the file from its start; closes it.
inline std::string TakeText(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    text.push_back(static_cast<char>(c));
  }
  std::fclose(file);
  return text;
}

// `run` takes the two streams and returns the exit code.
template <typename Run>
Outcome Capture(const Run& run) {
  std::FILE* const out = std::tmpfile();
  std::FILE* const err = std::tmpfile();
  const int exit_code = run(out, err);
  return {exit_code, TakeText(out), TakeText(err)};
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_CAPTURED_OUTPUT_H_
