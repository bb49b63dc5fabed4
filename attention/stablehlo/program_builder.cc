#include "attention/stablehlo/program_builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/check.h"

namespace tidewheel {
namespace {

std::string List(const Dims& dims) {
  return absl::StrCat("[", absl::StrJoin(dims, ", "), "]");
}

std::string Array(const Dims& dims) {
  return absl::StrCat("array<i64: ", absl::StrJoin(dims, ", "), ">");
}

// 0, 1, ... count - 1, counted from `first`.
Dims Range(int64_t first, int64_t count) {
  Dims range;
  for (int64_t i = 0; i < count; ++i) range.push_back(first + i);
  return range;
}

bool Contains(const Dims& dims, int64_t value) {
  return std::ranges::find(dims, value) != dims.end();
}

bool IsFloat(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
    case ElementType::kBfloat16:
    case ElementType::kFloat8E4m3fn:
    case ElementType::kFloat8E5m2:
      return true;
    default:
      return false;
  }
}

absl::string_view DirectionName(ProgramBuilder::Direction direction) {
  switch (direction) {
    case ProgramBuilder::Direction::kEq:
      return "EQ";
    case ProgramBuilder::Direction::kNe:
      return "NE";
    case ProgramBuilder::Direction::kLt:
      return "LT";
    case ProgramBuilder::Direction::kLe:
      return "LE";
    case ProgramBuilder::Direction::kGt:
      return "GT";
    case ProgramBuilder::Direction::kGe:
      break;
  }
  return "GE";
}

absl::string_view PrecisionName(ProgramBuilder::Precision precision) {
  return precision == ProgramBuilder::Precision::kHigh ? "HIGH" : "HIGHEST";
}

}  // namespace

Value ProgramBuilder::Argument(absl::string_view name, const TensorType& type,
                               std::optional<int> aliased_result) {
  arguments_.push_back({std::string(name), type, aliased_result});
  return writer_.Define(type, absl::StrCat("%", name));
}

Program ProgramBuilder::Finish(absl::string_view name, const Values& results) {
  const std::string names = writer_.Operands(results);
  writer_.AppendLine(absl::StrCat("return ", names, " : ", TypeList(results)));
  const std::string arguments = absl::StrJoin(
      arguments_, ",\n", [](std::string* out, const ProgramArgument& argument) {
        absl::StrAppend(out, "      %", argument.name, ": ",
                        argument.type.ToString());
        if (argument.donated()) {
          absl::StrAppend(out,
                          " {tf.aliasing_output = ", *argument.aliased_result,
                          " : i32}");
        }
      });
  Program program;
  program.name = std::string(name);
  program.text = absl::StrCat(
      "module @", name, " {\n  func.func public @main(", "\n", arguments,
      ")\n      -> (", TypeList(results), ") {\n", writer_.text(), "  }\n}\n");
  program.arguments = arguments_;
  for (const Value& v : results) program.results.push_back(v.type);
  return program;
}

Value ProgramBuilder::Int32(int64_t value) {
  return writer_.AppendConstant({ElementType::kInt32, {}}, absl::StrCat(value));
}

Value ProgramBuilder::Float32(float value) {
  return writer_.AppendConstant(
      {ElementType::kFloat32, {}},
      absl::StrCat("0x",
                   absl::Hex(std::bit_cast<uint32_t>(value), absl::kZeroPad8)));
}

Value ProgramBuilder::Zero(ElementType type) {
  const char* literal = "0";
  if (type == ElementType::kBool) literal = "false";
  if (IsFloat(type)) literal = "0.0";
  return writer_.AppendConstant({type, {}}, literal);
}

Value ProgramBuilder::Iota(const Dims& dims, int64_t dimension) {
  const TensorType type = {ElementType::kInt32, dims};
  return writer_.Append(type, absl::StrCat("stablehlo.iota dim = ", dimension,
                                           " : ", type.ToString()));
}

Value ProgramBuilder::Fill(const Value& scalar, const Dims& dims) {
  return Broadcast(scalar, dims, {});
}

Value ProgramBuilder::Broadcast(const Value& v, const Dims& dims,
                                const Dims& mapping) {
  TIDEWHEEL_CHECK_EQ(mapping.size(), v.type.dims.size());
  for (size_t i = 0; i < mapping.size(); ++i) {
    TIDEWHEEL_CHECK_EQ(v.dim(i), dims[static_cast<size_t>(mapping[i])]);
  }
  if (dims == v.type.dims) return v;
  const TensorType type = {v.type.element, dims};
  return writer_.Append(
      type, absl::StrCat("stablehlo.broadcast_in_dim ", writer_.Name(v),
                         ", dims = ", List(mapping), " : (", v.type.ToString(),
                         ") -> ", type.ToString()));
}

Value ProgramBuilder::Reshape(const Value& v, const Dims& dims) {
  const TensorType type = {v.type.element, dims};
  TIDEWHEEL_CHECK_EQ(type.num_elements(), v.type.num_elements());
  if (dims == v.type.dims) return v;
  return writer_.Append(
      type, absl::StrCat("stablehlo.reshape ", writer_.Name(v), " : (",
                         v.type.ToString(), ") -> ", type.ToString()));
}

Value ProgramBuilder::Transpose(const Value& v, const Dims& permutation) {
  TIDEWHEEL_CHECK_EQ(permutation.size(), v.type.dims.size());
  TensorType type = {v.type.element, {}};
  for (const int64_t from : permutation) {
    type.dims.push_back(v.dim(static_cast<size_t>(from)));
  }
  return writer_.Append(
      type, absl::StrCat("stablehlo.transpose ", writer_.Name(v),
                         ", dims = ", List(permutation), " : (",
                         v.type.ToString(), ") -> ", type.ToString()));
}

Value ProgramBuilder::Slice(const Value& v, const Dims& begin,
                            const Dims& end) {
  TensorType type = {v.type.element, {}};
  Dims strides;
  std::vector<std::string> ranges;
  for (size_t i = 0; i < v.type.dims.size(); ++i) {
    TIDEWHEEL_CHECK(0 <= begin[i] && begin[i] < end[i] && end[i] <= v.dim(i));
    type.dims.push_back(end[i] - begin[i]);
    ranges.push_back(absl::StrCat(begin[i], ":", end[i]));
  }
  if (type == v.type) return v;
  return writer_.Append(
      type, absl::StrCat("stablehlo.slice ", writer_.Name(v), " [",
                         absl::StrJoin(ranges, ", "), "] : (",
                         v.type.ToString(), ") -> ", type.ToString()));
}

Value ProgramBuilder::Concatenate(const Values& parts, int64_t dimension) {
  const size_t d = static_cast<size_t>(dimension);
  TensorType type = parts[0].type;
  for (size_t i = 1; i < parts.size(); ++i) {
    TIDEWHEEL_CHECK(parts[i].type.element == type.element);
    type.dims[d] += parts[i].dim(d);
  }
  const std::string names = writer_.Operands(parts);
  return writer_.Append(
      type, absl::StrCat("stablehlo.concatenate ", names, ", dim = ", dimension,
                         " : (", TypeList(parts), ") -> ", type.ToString()));
}

Value ProgramBuilder::PadWithZeros(const Value& v, int64_t dimension,
                                   int64_t size) {
  Dims dims = v.type.dims;
  int64_t& missing = dims[static_cast<size_t>(dimension)];
  TIDEWHEEL_CHECK_GE(size, missing);
  missing = size - missing;
  if (missing == 0) return v;
  return Concatenate({v, Fill(Zero(v.type.element), dims)}, dimension);
}

Value ProgramBuilder::Convert(const Value& v, ElementType element) {
  if (element == v.type.element) return v;
  const TensorType type = {element, v.type.dims};
  return writer_.Append(
      type, absl::StrCat("stablehlo.convert ", writer_.Name(v), " : (",
                         v.type.ToString(), ") -> ", type.ToString()));
}

Value ProgramBuilder::BitcastConvert(const Value& v, ElementType element) {
  if (element == v.type.element) return v;
  const TensorType type = {element, v.type.dims};
  TIDEWHEEL_CHECK_EQ(type.num_bytes(), v.type.num_bytes());
  return writer_.Append(
      type, absl::StrCat("stablehlo.bitcast_convert ", writer_.Name(v), " : (",
                         v.type.ToString(), ") -> ", type.ToString()));
}

Value ProgramBuilder::ReducePrecision(const Value& v, int exponent_bits,
                                      int mantissa_bits) {
  return writer_.Append(
      v.type, absl::StrCat("stablehlo.reduce_precision ", writer_.Name(v),
                           ", format = e", exponent_bits, "m", mantissa_bits,
                           " : ", v.type.ToString()));
}

Value ProgramBuilder::Barrier(const Value& v) {
  return writer_.Append(
      v.type, absl::StrCat("stablehlo.optimization_barrier ", writer_.Name(v),
                           " : ", v.type.ToString()));
}

Value ProgramBuilder::Unary(absl::string_view op, const Value& v) {
  return writer_.Append(
      v.type, absl::StrCat("stablehlo.", op, " ", writer_.Name(v), " : ",
                           v.type.ToString()));
}

Value ProgramBuilder::Like(const Value& a, const Value& b) {
  return a.type.dims.empty() ? Fill(a, b.type.dims) : a;
}

Value ProgramBuilder::Binary(absl::string_view op, const Value& a,
                             const Value& b) {
  const Value left = Like(a, b);
  const Value right = Like(b, a);
  TIDEWHEEL_CHECK(left.type == right.type);
  return writer_.Append(left.type, absl::StrCat("stablehlo.", op, " ",
                                                writer_.Operands({left, right}),
                                                " : ", left.type.ToString()));
}

Value ProgramBuilder::Compare(Direction direction, const Value& a,
                              const Value& b) {
  const Value left = Like(a, b);
  const Value right = Like(b, a);
  TIDEWHEEL_CHECK(left.type == right.type);
  const char* kind = IsFloat(left.type.element) ? ", FLOAT" : ", SIGNED";
  return writer_.Append(
      {ElementType::kBool, left.type.dims},
      absl::StrCat("stablehlo.compare ", DirectionName(direction), ", ",
                   writer_.Operands({left, right}), kind, " : (",
                   TypeList({left, right}), ") -> ",
                   TensorType{ElementType::kBool, left.type.dims}.ToString()));
}

Value ProgramBuilder::Select(const Value& predicate, const Value& yes,
                             const Value& no) {
  const Value left = Like(yes, predicate);
  const Value right = Like(no, predicate);
  TIDEWHEEL_CHECK(left.type == right.type);
  TIDEWHEEL_CHECK(left.type.dims == predicate.type.dims);
  return writer_.Append(
      left.type,
      absl::StrCat("stablehlo.select ",
                   writer_.Operands({predicate, left, right}), " : ",
                   predicate.type.ToString(), ", ", left.type.ToString()));
}

Value ProgramBuilder::Reduce(absl::string_view op, const Value& v,
                             const Dims& dimensions) {
  const ElementType element = v.type.element;
  Value init = Zero(element);
  if (op == "maximum" || op == "minimum") {
    const bool largest = op == "minimum";
    init = element == ElementType::kFloat32
               ? Float32(largest ? HUGE_VALF : -HUGE_VALF)
               : Int32(largest ? INT32_MAX : INT32_MIN);
  }
  TensorType type = {element, {}};
  for (size_t i = 0; i < v.type.dims.size(); ++i) {
    if (!Contains(dimensions, static_cast<int64_t>(i))) {
      type.dims.push_back(v.dim(i));
    }
  }
  const std::string name = writer_.Name(v);
  const std::string init_name = writer_.Name(init);
  return writer_.Append(
      type, absl::StrCat("stablehlo.reduce(", name, " init: ", init_name,
                         ") applies stablehlo.", op, " across dimensions = ",
                         List(dimensions), " : (", v.type.ToString(), ", ",
                         init.type.ToString(), ") -> ", type.ToString()));
}

Value ProgramBuilder::Dot(const Value& lhs, const Value& rhs,
                          const DotDims& dims, Precision precision) {
  TensorType type = {ElementType::kFloat32, {}};
  for (size_t i = 0; i < dims.lhs_batching.size(); ++i) {
    const int64_t size = lhs.dim(static_cast<size_t>(dims.lhs_batching[i]));
    TIDEWHEEL_CHECK_EQ(size,
                       rhs.dim(static_cast<size_t>(dims.rhs_batching[i])));
    type.dims.push_back(size);
  }
  const auto append_free = [&type](const Value& v, const Dims& batching,
                                   const Dims& contracting) {
    for (size_t i = 0; i < v.type.dims.size(); ++i) {
      const auto d = static_cast<int64_t>(i);
      if (Contains(batching, d) || Contains(contracting, d)) continue;
      type.dims.push_back(v.dim(i));
    }
  };
  append_free(lhs, dims.lhs_batching, dims.lhs_contracting);
  append_free(rhs, dims.rhs_batching, dims.rhs_contracting);
  TIDEWHEEL_CHECK(lhs.type.element == rhs.type.element);
  const absl::string_view name = PrecisionName(precision);
  return writer_.Append(
      type, absl::StrCat("stablehlo.dot_general ", writer_.Operands({lhs, rhs}),
                         ", batching_dims = ", List(dims.lhs_batching), " x ",
                         List(dims.rhs_batching),
                         ", contracting_dims = ", List(dims.lhs_contracting),
                         " x ", List(dims.rhs_contracting), ", precision = [",
                         name, ", ", name, "] : (", TypeList({lhs, rhs}),
                         ") -> ", type.ToString()));
}

Value ProgramBuilder::Gather(const Value& v, const Value& indices,
                             const Dims& sizes, int64_t num_collapsed) {
  const auto batch = static_cast<int64_t>(indices.type.dims.size()) - 1;
  const int64_t num_starts = indices.type.dims.back();
  TensorType type = {v.type.element, indices.type.dims};
  type.dims.pop_back();
  const int64_t num_kept = static_cast<int64_t>(sizes.size()) - num_collapsed;
  type.dims.insert(type.dims.end(), sizes.begin() + num_collapsed, sizes.end());
  return writer_.Append(
      type, absl::StrCat(
                "\"stablehlo.gather\"(", writer_.Operands({v, indices}),
                ") <{dimension_numbers = #stablehlo.gather<offset_dims = ",
                List(Range(batch, num_kept)),
                ", collapsed_slice_dims = ", List(Range(0, num_collapsed)),
                ", start_index_map = ", List(Range(0, num_starts)),
                ", index_vector_dim = ", batch,
                ">, indices_are_sorted = false, slice_sizes = ", Array(sizes),
                "}> : (", TypeList({v, indices}), ") -> ", type.ToString()));
}

Value ProgramBuilder::Scatter(const Value& v, const Value& indices,
                              const Value& updates) {
  const auto window = static_cast<int64_t>(v.type.dims.size()) - 1;
  const Value column = Reshape(indices, {indices.dim(0), 1});
  const std::string element = TensorType{v.type.element, {}}.ToString();
  const std::string old = writer_.NewName();
  const std::string update = writer_.NewName();
  return writer_.Append(
      v.type,
      absl::StrCat(
          "\"stablehlo.scatter\"(", writer_.Operands({v, column, updates}),
          ") <{indices_are_sorted = false, scatter_dimension_numbers = "
          "#stablehlo.scatter<update_window_dims = ",
          List(Range(1, window)),
          ", inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
          "index_vector_dim = 1>, unique_indices = false}> ({ ^bb0(",
          old, ": ", element, ", ", update, ": ", element,
          "): stablehlo.return ", update, " : ", element, " }) : (",
          TypeList({v, column, updates}), ") -> ", v.type.ToString()));
}

Value ProgramBuilder::DynamicSlice(const Value& v, const Values& corner,
                                   const Dims& sizes) {
  const TensorType type = {v.type.element, sizes};
  Values operands = {v};
  operands.insert(operands.end(), corner.begin(), corner.end());
  return writer_.Append(
      type, absl::StrCat("stablehlo.dynamic_slice ", writer_.Operands(operands),
                         ", sizes = ", List(sizes), " : (", v.type.ToString(),
                         ", ", TypeList(corner), ") -> ", type.ToString()));
}

Value ProgramBuilder::DynamicUpdateSlice(const Value& v, const Value& update,
                                         const Values& corner) {
  Values operands = {v, update};
  operands.insert(operands.end(), corner.begin(), corner.end());
  return writer_.Append(
      v.type, absl::StrCat("stablehlo.dynamic_update_slice ",
                           writer_.Operands(operands), " : (",
                           TypeList(operands), ") -> ", v.type.ToString()));
}

}  // namespace tidewheel
