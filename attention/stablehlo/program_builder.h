// ProgramBuilder: writes a StableHLO function op by op.
//
// Each call appends an operation and returns its result, with the type that
// follows from the operands; text is never assembled elsewhere. It knows
// nothing of attention, and it does not optimise: compilers do.
//
// Use: 1. Argument for each, in order. 2. Operations. 3. Finish, once.
//
// A loop's regions may use any value from outside (RegionWriter). Where an
// operation takes two operands of one shape, either may be a scalar. Shapes
// that do not fit are CHECKed: they are mistakes of the emitter, not of its
// caller.
//
// Single-threaded. Allocates in every call.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_PROGRAM_BUILDER_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_PROGRAM_BUILDER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "attention/stablehlo/program_signature.h"
#include "attention/stablehlo/region_writer.h"

namespace tidewheel {

class ProgramBuilder {
 public:
  enum class Direction { kEq, kNe, kLt, kLe, kGt, kGe };
  enum class Precision { kHigh, kHighest };
  struct DotDims {
    Dims lhs_batching;
    Dims rhs_batching;
    Dims lhs_contracting;
    Dims rhs_contracting;
  };

  Value Argument(absl::string_view name, const TensorType& type,
                 std::optional<int> aliased_result = std::nullopt);
  Program Finish(absl::string_view name, const Values& results);

  // Scalars.
  Value Int32(int64_t value);
  Value Float32(float value);
  Value Zero(ElementType type);

  Value Iota(const Dims& dims, int64_t dimension);  // i32
  Value Fill(const Value& scalar, const Dims& dims);
  // Dimension i of `v` becomes dimension mapping[i].
  Value Broadcast(const Value& v, const Dims& dims, const Dims& mapping);
  Value Reshape(const Value& v, const Dims& dims);
  Value Transpose(const Value& v, const Dims& permutation);
  Value Slice(const Value& v, const Dims& begin, const Dims& end);
  Value Concatenate(const Values& parts, int64_t dimension);
  // `v` with zeros behind, so that `dimension` has `size`, at least its own.
  Value PadWithZeros(const Value& v, int64_t dimension, int64_t size);

  Value Convert(const Value& v, ElementType type);
  Value BitcastConvert(const Value& v, ElementType type);
  // The float32 `v` rounded as if stored in a type of so many bits.
  Value ReducePrecision(const Value& v, int exponent_bits, int mantissa_bits);
  // `v`, of which a compiler may assume nothing.
  Value Barrier(const Value& v);

  // `op`: StableHLO's name, such as "add", "exponential".
  Value Unary(absl::string_view op, const Value& v);
  Value Binary(absl::string_view op, const Value& a, const Value& b);
  Value Add(const Value& a, const Value& b) { return Binary("add", a, b); }
  Value Sub(const Value& a, const Value& b) { return Binary("subtract", a, b); }
  Value Mul(const Value& a, const Value& b) { return Binary("multiply", a, b); }
  Value Div(const Value& a, const Value& b) { return Binary("divide", a, b); }
  Value Max(const Value& a, const Value& b) { return Binary("maximum", a, b); }
  Value Min(const Value& a, const Value& b) { return Binary("minimum", a, b); }
  Value And(const Value& a, const Value& b) { return Binary("and", a, b); }
  Value Or(const Value& a, const Value& b) { return Binary("or", a, b); }
  Value Compare(Direction direction, const Value& a, const Value& b);
  Value Select(const Value& predicate, const Value& yes, const Value& no);

  // `op`: "add", "maximum", "minimum", "and", "or"; over `dimensions`, which
  // go.
  Value Reduce(absl::string_view op, const Value& v, const Dims& dimensions);
  // Accumulates in float32 and gives that.
  Value Dot(const Value& lhs, const Value& rhs, const DotDims& dims,
            Precision precision);

  // Slices of `sizes` whose corner in the first dimensions is the last
  // dimension of `indices`; the first `num_collapsed` dimensions, of size 1,
  // go. Corners are clamped so that slices lie inside.
  Value Gather(const Value& v, const Value& indices, const Dims& sizes,
               int64_t num_collapsed);
  // `v` with v[indices[i]] = updates[i]; indices: [n], of which those outside
  // of `v` are ignored.
  Value Scatter(const Value& v, const Value& indices, const Value& updates);
  // Corners are clamped.
  Value DynamicSlice(const Value& v, const Values& corner, const Dims& sizes);
  Value DynamicUpdateSlice(const Value& v, const Value& update,
                           const Values& corner);

  // Starts with `init`; as long as `condition` of the state holds, `body`
  // gives the next one.
  Values While(const Values& init, const RegionWriter::Condition& condition,
               const RegionWriter::Body& body) {
    return writer_.AppendLoop(init, condition, body);
  }

 private:
  // `a` as a tensor of b's shape if only it is a scalar.
  Value Like(const Value& a, const Value& b);

  std::vector<ProgramArgument> arguments_;
  RegionWriter writer_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_PROGRAM_BUILDER_H_
