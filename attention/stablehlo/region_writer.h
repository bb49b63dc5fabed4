// RegionWriter: the text of a StableHLO function and of the loops in it, and
// who may use which value where.
//
// It writes lines that others compose; it knows no operation but constants and
// the loop. A value has a number; its name is that of the region in which it
// is used, since StableHLO's loops see only what is passed to them:
//   - a constant is written again in the region that uses it,
//   - any other value from outside becomes one more operand of the loop.
//
// A value of a loop's region may not be used after it: CHECKed.
//
// Names are counters, so the same calls give the same bytes.
//
// Single-threaded. Allocates in every call.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_REGION_WRITER_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_REGION_WRITER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "attention/stablehlo/program_signature.h"

namespace tidewheel {

using Dims = std::vector<int64_t>;

// A result of an operation, or an argument.
struct Value {
  int id = -1;
  TensorType type;

  int64_t dim(size_t i) const { return type.dims[i]; }
};

using Values = std::vector<Value>;

// "tensor<4xf32>, tensor<i32>".
std::string TypeList(const Values& values);

class RegionWriter {
 public:
  using Condition = std::function<Value(const Values&)>;
  using Body = std::function<Values(const Values&)>;

  RegionWriter();

  // A value whose name is written elsewhere.
  Value Define(const TensorType& type, std::string name);
  // Appends `%name = text` and returns the result.
  Value Append(const TensorType& type, absl::string_view text);
  Value AppendConstant(const TensorType& type, const std::string& literal);
  void AppendLine(absl::string_view line);
  // A name that no value has.
  std::string NewName();

  // The value's name where text is being written.
  std::string Name(const Value& v);
  // The names in order: a name may append a line, and the order of a call's
  // arguments is the compiler's choice.
  std::string Operands(const Values& values);

  // Starts with `init`; as long as `condition` of the state holds, `body`
  // gives the next one.
  Values AppendLoop(const Values& init, const Condition& condition,
                    const Body& body);

  // The function's lines.
  // REQUIRES: no loop is being written.
  const std::string& text() const;

 private:
  struct Definition {
    std::string name;
    TensorType type;
    size_t depth = 0;      // of the region
    bool in_scope = true;  // false: its region is closed
    std::string constant;  // what to write to have it again, if a constant
  };
  // A region that is being written.
  struct Region {
    std::string text;
    std::map<std::string, int> constants;  // ids, by what is written
  };
  // The loop whose regions lie at one depth.
  struct Loop {
    Values outer;  // captured
    std::map<int, int> local;
    std::vector<int> arguments;
  };

  Definition& definition(int id) {
    return definitions_[static_cast<size_t>(id)];
  }
  // The number under which the innermost region knows the value.
  int Localize(int id);
  // `write` as a region of the innermost loop: its lines.
  std::string WriteRegion(const std::function<void()>& write);
  // The loop's lines, once its regions are written.
  Values CloseLoop(const Values& init, const std::string& condition_text,
                   const std::string& body_text);

  std::vector<Definition> definitions_;  // by id
  std::vector<Region> regions_;          // the function, then nested regions
  std::vector<Loop> loops_;              // loops_[i] has region i + 1
  int next_name_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_REGION_WRITER_H_
