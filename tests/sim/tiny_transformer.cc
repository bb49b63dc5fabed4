#include "tests/sim/tiny_transformer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "allocator/check.h"

namespace tidewheel {
namespace {

// Turns each head's pairs (d, d + kHeadDim / 2) by an angle that grows with the
// position. Sequences have some dozens of tokens, so the slowest pair turns
// once in 2 pi * 100^(3/4) = 200 of them.
void Rotate(std::span<double> heads, int32_t position) {
  constexpr int32_t kHalf = TinyTransformer::kHeadDim / 2;
  for (size_t head = 0; head < heads.size();
       head += TinyTransformer::kHeadDim) {
    for (int32_t d = 0; d < kHalf; ++d) {
      const double angle = position * std::pow(100.0, -double{1} * d / kHalf);
      double& a = heads[head + static_cast<size_t>(d)];
      double& b = heads[head + static_cast<size_t>(d + kHalf)];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }
}

}  // namespace

// Uniform weights of a variance that gives y `gain` times the size of x.
TinyTransformer::Matrix::Matrix(Draw& draw, int32_t num_rows,
                                int32_t num_columns, double gain)
    : rows(num_rows), columns(num_columns) {
  const double range = gain * std::sqrt(3.0 / num_columns);
  for (int32_t i = 0; i < rows * columns; ++i) {
    const double unit = static_cast<double>(draw.Bits() >> 40) * 0x1p-24;
    weights.push_back(static_cast<float>((2 * unit - 1) * range));
  }
}

void TinyTransformer::Matrix::Multiply(std::span<const double> x,
                                       std::span<double> y) const {
  TIDEWHEEL_CHECK_EQ(static_cast<int32_t>(x.size()), columns);
  TIDEWHEEL_CHECK_EQ(static_cast<int32_t>(y.size()), rows);
  const float* weight = weights.data();
  for (double& sum : y) {
    sum = 0;
    for (const double value : x) sum += *weight++ * value;
  }
}

// Large gains before and behind attention: logits of about +-2, and a residual
// stream that is mostly what attention brought, so that a wrong key shows.
TinyTransformer::Layer::Layer(Draw& draw)
    : attention_norm(draw, 1, kHidden, 2),
      qkv(draw, kQuerySize + 2 * kKvSize, kHidden, 1.5),
      output(draw, kHidden, kQuerySize, 1.5),
      mlp_norm(draw, 1, kHidden, 2),
      gate(draw, kMlp, kHidden, 1.5),
      up(draw, kMlp, kHidden, 1),
      down(draw, kHidden, kMlp, 1) {}

TinyTransformer::TinyTransformer(uint64_t seed, ScalarType kv_type)
    : TinyTransformer(Draw(seed), kv_type) {}

TinyTransformer::TinyTransformer(Draw draw, ScalarType kv_type)
    : kv_type_(kv_type),
      embedding_(draw, kVocabulary, kHidden, 2),
      layers_{Layer(draw), Layer(draw)},
      final_norm_(draw, 1, kHidden, 2),
      unembed_(draw, kVocabulary, kHidden, 3) {
  static_assert(kNumLayers == 2);
}

TinyTransformer::Hidden TinyTransformer::Embed(int32_t token) const {
  TIDEWHEEL_CHECK_GE(token, 0);
  TIDEWHEEL_CHECK_LT(token, kVocabulary);
  Hidden hidden;
  std::copy_n(embedding_.weights.begin() + ptrdiff_t{token} * kHidden, kHidden,
              hidden.begin());
  return hidden;
}

TinyTransformer::Hidden TinyTransformer::Normalize(const Hidden& hidden,
                                                   const Matrix& factors) {
  double squares = 0;
  for (const double value : hidden) squares += value * value;
  const double scale = 1 / std::sqrt(squares / kHidden + 1e-6);
  Hidden normalized;
  for (size_t i = 0; i < normalized.size(); ++i) {
    normalized[i] = hidden[i] * scale * (1 + factors.weights[i]);
  }
  return normalized;
}

TinyTransformer::Projected TinyTransformer::Project(int32_t layer,
                                                    const Hidden& hidden,
                                                    int32_t position) const {
  const Layer& weights = layers_[static_cast<size_t>(layer)];
  std::array<double, kQuerySize + 2 * kKvSize> qkv;
  weights.qkv.Multiply(Normalize(hidden, weights.attention_norm), qkv);
  Rotate(std::span(qkv).first(kQuerySize + kKvSize), position);

  Projected projected;
  for (size_t i = 0; i < kQuerySize; ++i) {
    projected.q[i] = static_cast<float>(qkv[i]);
  }
  for (size_t i = 0; i < kKvSize; ++i) {
    projected.k[i] = RoundTo(kv_type_, static_cast<float>(qkv[kQuerySize + i]));
    projected.v[i] =
        RoundTo(kv_type_, static_cast<float>(qkv[kQuerySize + kKvSize + i]));
  }
  return projected;
}

void TinyTransformer::Finish(int32_t layer, const Attention& attention,
                             Hidden& hidden) const {
  const Layer& weights = layers_[static_cast<size_t>(layer)];
  const std::vector<double> attended(attention.begin(), attention.end());
  Hidden added;
  weights.output.Multiply(attended, added);
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] += added[i];

  const Hidden normalized = Normalize(hidden, weights.mlp_norm);
  std::array<double, kMlp> gate;
  std::array<double, kMlp> up;
  weights.gate.Multiply(normalized, gate);
  weights.up.Multiply(normalized, up);
  for (size_t i = 0; i < up.size(); ++i) {
    up[i] *= gate[i] / (1 + std::exp(-gate[i]));
  }
  weights.down.Multiply(up, added);
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] += added[i];
}

TinyTransformer::Logits TinyTransformer::LogitsOf(const Hidden& hidden) const {
  Logits logits;
  unembed_.Multiply(Normalize(hidden, final_norm_), logits);
  return logits;
}

std::optional<int32_t> TinyTransformer::Greedy(const Hidden& hidden) const {
  const Logits logits = LogitsOf(hidden);
  for (const double logit : logits) {
    if (std::isnan(logit)) return std::nullopt;
  }
  return static_cast<int32_t>(std::ranges::max_element(logits) -
                              logits.begin());
}

// The last of `keys` over all of them.
TinyTransformer::Attention TinyTransformer::Attend(
    std::span<const Projected> keys) {
  Attention attention;
  std::vector<double> weights(keys.size());
  for (int32_t head = 0; head < kNumQHeads; ++head) {
    const size_t q_at = static_cast<size_t>(head * kHeadDim);
    const size_t kv_at =
        static_cast<size_t>(head / (kNumQHeads / kNumKvHeads) * kHeadDim);
    double total = 0;
    for (size_t key = 0; key < keys.size(); ++key) {
      double dot = 0;
      for (size_t d = 0; d < kHeadDim; ++d) {
        dot += double{keys.back().q[q_at + d]} * keys[key].k[kv_at + d];
      }
      // Logits are some tens at most, so that nothing overflows.
      total += weights[key] = std::exp(dot * kSmScale);
    }
    for (size_t d = 0; d < kHeadDim; ++d) {
      double sum = 0;
      for (size_t key = 0; key < keys.size(); ++key) {
        sum += weights[key] * keys[key].v[kv_at + d];
      }
      attention[q_at + d] = static_cast<float>(sum / total);
    }
  }
  return attention;
}

std::vector<TinyTransformer::Hidden> TinyTransformer::Run(
    std::span<const int32_t> tokens) const {
  std::vector<Hidden> hidden;
  for (const int32_t token : tokens) hidden.push_back(Embed(token));
  for (int32_t layer = 0; layer < kNumLayers; ++layer) {
    std::vector<Projected> projected;
    for (size_t i = 0; i < tokens.size(); ++i) {
      projected.push_back(Project(layer, hidden[i], static_cast<int32_t>(i)));
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      Finish(layer, Attend(std::span(projected).first(i + 1)), hidden[i]);
    }
  }
  return hidden;
}

std::vector<int32_t> TinyTransformer::GreedyNext(
    std::span<const int32_t> tokens) const {
  std::vector<int32_t> next;
  for (const Hidden& last : Run(tokens)) {
    const std::optional<int32_t> token = Greedy(last);
    TIDEWHEEL_CHECK(token.has_value());
    next.push_back(*token);
  }
  return next;
}

std::vector<double> TinyTransformer::Shortfalls(
    std::span<const int32_t> tokens) const {
  std::vector<double> shortfalls = {0};
  const std::vector<Hidden> hidden = Run(tokens);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const Logits logits = LogitsOf(hidden[i - 1]);
    shortfalls.push_back(*std::ranges::max_element(logits) -
                         logits[static_cast<size_t>(tokens[i])]);
  }
  return shortfalls;
}

}  // namespace tidewheel
