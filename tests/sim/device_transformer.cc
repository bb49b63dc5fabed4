#include "tests/sim/device_transformer.h"

#include <array>
#include <cmath>

#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/emitted_program.h"
#include "attention/pjrt/pjrt_client.h"
#include "attention/stablehlo/step_program.h"

namespace tidewheel {
namespace {

using Model = TinyTransformer;
using Direction = ProgramBuilder::Direction;

constexpr int32_t kHalf = Model::kHeadDim / 2;
constexpr int32_t kQkvSize = Model::kQuerySize + 2 * Model::kKvSize;

TensorType Floats(const Dims& dims) { return {ElementType::kFloat32, dims}; }
TensorType Ints(const Dims& dims) { return {ElementType::kInt32, dims}; }

// y[t] = W x[t], for W [rows, columns].
Value Multiply(ProgramBuilder& b, const Value& x, const Value& weights) {
  return b.Dot(x, weights, {{}, {}, {1}, {1}},
               ProgramBuilder::Precision::kHighest);
}

Value Normalize(ProgramBuilder& b, const Value& x, const Value& factors) {
  const Value squares = b.Reduce("add", b.Mul(x, x), {1});
  const Value mean = b.Div(squares, b.Float32(Model::kHidden));
  const Value scale = b.Unary("rsqrt", b.Add(mean, b.Float32(1e-6f)));
  const Value gain = b.Add(b.Reshape(factors, {Model::kHidden}), b.Float32(1));
  return b.Mul(b.Mul(x, b.Broadcast(scale, x.type.dims, {0})),
               b.Broadcast(gain, x.type.dims, {1}));
}

// The rows of `table` at `positions`, for each token.
Value RowsAt(ProgramBuilder& b, const Value& table, const Value& indices) {
  return b.Gather(table, b.Reshape(indices, {indices.dim(0), 1}),
                  {1, table.dim(1)}, 1);
}

struct Turns {
  Value cosines;
  Value sines;
  Value positions;
};

Turns DeclareTurns(ProgramBuilder& b, const DeviceTransformer::Sizes& sizes) {
  const Dims table = {sizes.max_positions, kHalf};
  return {b.Argument("cosines", Floats(table)),
          b.Argument("sines", Floats(table)),
          b.Argument("positions", Ints({sizes.num_tokens}))};
}

// Heads, [tokens, heads * kHeadDim], turned by their positions.
Value Rotate(ProgramBuilder& b, const Turns& turns, const Value& heads) {
  const int64_t tokens = heads.dim(0);
  const int64_t count = heads.dim(1) / Model::kHeadDim;
  const Dims half = {tokens, count, 1, kHalf};
  const Value pairs = b.Reshape(heads, {tokens, count, 2, kHalf});
  const Value x = b.Slice(pairs, {0, 0, 0, 0}, {tokens, count, 1, kHalf});
  const Value y = b.Slice(pairs, {0, 0, 1, 0}, {tokens, count, 2, kHalf});
  const Value cosine =
      b.Broadcast(RowsAt(b, turns.cosines, turns.positions), half, {0, 3});
  const Value sine =
      b.Broadcast(RowsAt(b, turns.sines, turns.positions), half, {0, 3});
  const Value turned = b.Concatenate({b.Sub(b.Mul(x, cosine), b.Mul(y, sine)),
                                      b.Add(b.Mul(x, sine), b.Mul(y, cosine))},
                                     2);
  return b.Reshape(turned, heads.type.dims);
}

// q, k and v of a layer.
std::vector<Value> Project(ProgramBuilder& b, const Turns& turns,
                           const Value& hidden, const Value& norm,
                           const Value& qkv_weights) {
  const int64_t tokens = hidden.dim(0);
  const Value qkv = Multiply(b, Normalize(b, hidden, norm), qkv_weights);
  const int64_t turned_size = Model::kQuerySize + Model::kKvSize;
  const Value turned =
      Rotate(b, turns, b.Slice(qkv, {0, 0}, {tokens, turned_size}));
  const auto heads = [&](const Value& from, int64_t begin, int64_t end) {
    return b.Reshape(
        b.Slice(from, {0, begin}, {tokens, end}),
        {tokens, (end - begin) / Model::kHeadDim, Model::kHeadDim});
  };
  return {heads(turned, 0, Model::kQuerySize),
          heads(turned, Model::kQuerySize, turned_size),
          heads(qkv, turned_size, kQkvSize)};
}

struct Behind {
  Value hidden;
  Value attention;
  Value output;
  Value mlp_norm;
  Value gate;
  Value up;
  Value down;
};

Behind DeclareBehind(ProgramBuilder& b, int64_t tokens) {
  Behind behind;
  behind.hidden = b.Argument("hidden", Floats({tokens, Model::kHidden}));
  behind.attention = b.Argument(
      "attention", Floats({tokens, Model::kNumQHeads, Model::kHeadDim}));
  behind.output =
      b.Argument("output", Floats({Model::kHidden, Model::kQuerySize}));
  behind.mlp_norm = b.Argument("mlp_norm", Floats({1, Model::kHidden}));
  behind.gate = b.Argument("gate", Floats({Model::kMlp, Model::kHidden}));
  behind.up = b.Argument("up", Floats({Model::kMlp, Model::kHidden}));
  behind.down = b.Argument("down", Floats({Model::kHidden, Model::kMlp}));
  return behind;
}

// The hidden state behind a layer's attention.
Value Finish(ProgramBuilder& b, const Behind& behind) {
  const Value attended =
      b.Reshape(behind.attention, {behind.hidden.dim(0), Model::kQuerySize});
  const Value hidden =
      b.Add(behind.hidden, Multiply(b, attended, behind.output));
  const Value normalized = Normalize(b, hidden, behind.mlp_norm);
  const Value gate = Multiply(b, normalized, behind.gate);
  const Value up = Multiply(b, normalized, behind.up);
  const Value mlp = b.Mul(up, b.Mul(gate, b.Unary("logistic", gate)));
  return b.Add(hidden, Multiply(b, mlp, behind.down));
}

}  // namespace

Program DeviceTransformer::EmitBegin() const {
  ProgramBuilder b;
  const Value tokens = b.Argument("token_ids", Ints({sizes_.num_tokens}));
  const Turns turns = DeclareTurns(b, sizes_);
  const Value embedding =
      b.Argument("embedding", Floats({Model::kVocabulary, Model::kHidden}));
  const Value norm = b.Argument("norm", Floats({1, Model::kHidden}));
  const Value qkv = b.Argument("qkv", Floats({kQkvSize, Model::kHidden}));
  const Value hidden = RowsAt(b, embedding, tokens);
  std::vector<Value> results = Project(b, turns, hidden, norm, qkv);
  results.insert(results.begin(), hidden);
  return b.Finish("begin", results);
}

Program DeviceTransformer::EmitNext() const {
  ProgramBuilder b;
  const Behind behind = DeclareBehind(b, sizes_.num_tokens);
  const Turns turns = DeclareTurns(b, sizes_);
  const Value norm = b.Argument("norm", Floats({1, Model::kHidden}));
  const Value qkv = b.Argument("qkv", Floats({kQkvSize, Model::kHidden}));
  const Value hidden = Finish(b, behind);
  std::vector<Value> results = Project(b, turns, hidden, norm, qkv);
  results.insert(results.begin(), hidden);
  return b.Finish("next", results);
}

Program DeviceTransformer::EmitSample() const {
  ProgramBuilder b;
  const Behind behind = DeclareBehind(b, sizes_.num_tokens);
  const Value last = b.Argument("last_tokens", Ints({sizes_.max_num_seqs}));
  const Value norm = b.Argument("norm", Floats({1, Model::kHidden}));
  const Value unembed =
      b.Argument("unembed", Floats({Model::kVocabulary, Model::kHidden}));
  const Value hidden = RowsAt(b, Finish(b, behind), last);
  const Value logits = Multiply(b, Normalize(b, hidden, norm), unembed);
  const Value best =
      b.Broadcast(b.Reduce("maximum", logits, {1}), logits.type.dims, {0});
  // A NaN is the maximum, and equal to nothing.
  const Value candidates =
      b.Select(b.Compare(Direction::kEq, logits, best),
               b.Iota(logits.type.dims, 1), b.Int32(Model::kVocabulary));
  return b.Finish("sample", {b.Reduce("minimum", candidates, {1})});
}

absl::Status DeviceTransformer::Compile() {
  TIDEWHEEL_ASSIGN_OR_RETURN(
      fill_,
      CompileEmitted(EmitFillTokens(sizes_.num_tokens, sizes_.max_num_seqs),
                     *programs_));
  TIDEWHEEL_ASSIGN_OR_RETURN(begin_, CompileEmitted(EmitBegin(), *programs_));
  TIDEWHEEL_ASSIGN_OR_RETURN(next_, CompileEmitted(EmitNext(), *programs_));
  TIDEWHEEL_ASSIGN_OR_RETURN(sample_, CompileEmitted(EmitSample(), *programs_));
  return UploadTurns();
}

absl::StatusOr<std::unique_ptr<DeviceTransformer>> DeviceTransformer::Create(
    ProgramCache* programs, const Sizes& sizes) {
  std::unique_ptr<DeviceTransformer> result(
      new DeviceTransformer(programs, sizes));
  TIDEWHEEL_RETURN_IF_ERROR(result->Compile());
  return result;
}

absl::StatusOr<PjrtBuffer> DeviceTransformer::UploadInts(
    std::span<const int32_t> values) const {
  return programs_->client().Upload(
      std::as_bytes(values),
      PjrtShape(PjrtElementType::kI32, {static_cast<int64_t>(values.size())}));
}

absl::StatusOr<PjrtBuffer> DeviceTransformer::UploadFloats(
    std::span<const float> values, int64_t rows, int64_t columns) const {
  return programs_->client().Upload(
      std::as_bytes(values), PjrtShape(PjrtElementType::kF32, {rows, columns}));
}

absl::Status DeviceTransformer::UploadTurns() {
  std::vector<float> cosines;
  std::vector<float> sines;
  for (int32_t position = 0; position < sizes_.max_positions; ++position) {
    for (int32_t d = 0; d < kHalf; ++d) {
      const double angle = position * std::pow(100.0, -double{1} * d / kHalf);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      cosines_, UploadFloats(cosines, sizes_.max_positions, kHalf));
  TIDEWHEEL_ASSIGN_OR_RETURN(sines_,
                             UploadFloats(sines, sizes_.max_positions, kHalf));
  return absl::OkStatus();
}

absl::Status DeviceTransformer::SetModel(const TinyTransformer& model) {
  const auto upload = [this](const TinyTransformer::Matrix& matrix) {
    return UploadFloats(matrix.weights, matrix.rows, matrix.columns);
  };
  TIDEWHEEL_ASSIGN_OR_RETURN(embedding_, upload(model.embedding_));
  TIDEWHEEL_ASSIGN_OR_RETURN(final_norm_, upload(model.final_norm_));
  TIDEWHEEL_ASSIGN_OR_RETURN(unembed_, upload(model.unembed_));
  weights_.clear();
  for (const TinyTransformer::Layer& layer : model.layers_) {
    std::vector<PjrtBuffer>& uploaded = weights_.emplace_back();
    for (const TinyTransformer::Matrix* matrix :
         {&layer.attention_norm, &layer.qkv, &layer.output, &layer.mlp_norm,
          &layer.gate, &layer.up, &layer.down}) {
      TIDEWHEEL_ASSIGN_OR_RETURN(uploaded.emplace_back(), upload(*matrix));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceTransformer::Begin(std::span<const int32_t> token_ids,
                                      std::span<const int32_t> source_rows,
                                      std::span<const int32_t> positions,
                                      PjrtBuffer& sampled, State& state) {
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer tokens, UploadInts(token_ids));
  TIDEWHEEL_ASSIGN_OR_RETURN(positions_, UploadInts(positions));
  if (!sampled.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer rows, UploadInts(source_rows));
    TIDEWHEEL_RETURN_IF_ERROR(fill_
                                  ->Launch(std::array{&tokens, &rows, &sampled},
                                           std::span<PjrtBuffer>(&tokens, 1))
                                  .status());
  }
  std::vector<PjrtBuffer>& layer = weights_.front();
  std::array<PjrtBuffer, 4> outputs;
  TIDEWHEEL_RETURN_IF_ERROR(
      begin_
          ->Launch(
              std::array{&tokens, &cosines_, &sines_, &positions_, &embedding_,
                         &layer[kAttentionNorm], &layer[kQkv]},
              outputs)
          .status());
  state = {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]),
           std::move(outputs[3])};
  return absl::OkStatus();
}

absl::Status DeviceTransformer::Next(int32_t layer, PjrtBuffer& attention,
                                     State& state) {
  std::vector<PjrtBuffer>& own = weights_[static_cast<size_t>(layer)];
  std::vector<PjrtBuffer>& next = weights_[static_cast<size_t>(layer) + 1];
  std::array<PjrtBuffer, 4> outputs;
  TIDEWHEEL_RETURN_IF_ERROR(
      next_
          ->Launch(std::array{&state.hidden, &attention, &own[kOutput],
                              &own[kMlpNorm], &own[kGate], &own[kUp],
                              &own[kDown], &cosines_, &sines_, &positions_,
                              &next[kAttentionNorm], &next[kQkv]},
                   outputs)
          .status());
  state = {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]),
           std::move(outputs[3])};
  return absl::OkStatus();
}

absl::Status DeviceTransformer::Sample(std::span<const int32_t> last_tokens,
                                       PjrtBuffer& attention, State& state,
                                       PjrtBuffer& sampled) {
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer last, UploadInts(last_tokens));
  std::vector<PjrtBuffer>& own = weights_.back();
  return sample_
      ->Launch(std::array{&state.hidden, &attention, &own[kOutput],
                          &own[kMlpNorm], &own[kGate], &own[kUp], &own[kDown],
                          &last, &final_norm_, &unembed_},
               std::span<PjrtBuffer>(&sampled, 1))
      .status();
}

}  // namespace tidewheel
