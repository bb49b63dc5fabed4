// TinyTransformer: a language model small enough to run millions of times in a
// test, and real enough that one wrong key of one head changes what it says.
//
// Two layers of grouped-query attention with rotary positions, RMS norms, a
// gated MLP and greedy sampling, with weights drawn from a seed. It is not a
// runner: it knows neither pages nor batches nor a cache of keys.
//
// What concerns one token alone (Embed, Project, Finish, Greedy) is computed in
// double, in one order, and is shared with whoever runs the network in another
// way. Keys and values are rounded to the type that pages hold them in, and the
// attention output to float32, as backends do; so two runs differ at most in
// the order in which attention sums up its keys, 1e-16 of a value.
//
// GreedyNext is the plain run that others are compared with: the whole
// sequence at once, layer by layer, each token over all keys up to its own.
//
// Thread-safety: const after construction.

#ifndef TIDEWHEEL_TESTS_SIM_TINY_TRANSFORMER_H_
#define TIDEWHEEL_TESTS_SIM_TINY_TRANSFORMER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attention/scalar_types.h"
#include "tests/sim/draw.h"

namespace tidewheel {

class TinyTransformer {
 public:
  static constexpr int32_t kNumLayers = 2;
  static constexpr int32_t kHidden = 16;
  static constexpr int32_t kNumQHeads = 4;
  static constexpr int32_t kNumKvHeads = 2;
  static constexpr int32_t kHeadDim = 8;
  static constexpr int32_t kMlp = 24;
  static constexpr int32_t kVocabulary = 64;
  static constexpr int32_t kQuerySize = kNumQHeads * kHeadDim;
  static constexpr int32_t kKvSize = kNumKvHeads * kHeadDim;
  // What attention multiplies q.k with: 1 / sqrt(kHeadDim).
  static constexpr float kSmScale = 0.35355339059327376f;

  using Hidden = std::array<double, kHidden>;
  using Attention = std::array<float, kQuerySize>;  // [kNumQHeads, kHeadDim]
  struct Projected {
    std::array<float, kQuerySize> q;  // [kNumQHeads, kHeadDim]
    std::array<float, kKvSize> k;     // [kNumKvHeads, kHeadDim]
    std::array<float, kKvSize> v;     // [kNumKvHeads, kHeadDim]
  };

  // `kv_type`: what K and V are rounded to.
  TinyTransformer(uint64_t seed, ScalarType kv_type);

  ScalarType kv_type() const { return kv_type_; }

  // The parts of the network that look at one token.
  // REQUIRES: token in [0, kVocabulary).
  Hidden Embed(int32_t token) const;
  Projected Project(int32_t layer, const Hidden& hidden,
                    int32_t position) const;
  void Finish(int32_t layer, const Attention& attention, Hidden& hidden) const;
  // The likeliest next token, the lowest of equals; nothing if a logit is NaN.
  std::optional<int32_t> Greedy(const Hidden& hidden) const;

  // For each prefix of `tokens` the token that follows it, [tokens.size()].
  // A sequence was generated greedily exactly if each of its generated tokens
  // is what follows those before it.
  std::vector<int32_t> GreedyNext(std::span<const int32_t> tokens) const;
  // For each token the logit that it lacks to the best one behind those before
  // it; 0 for the first. Where attention rounds otherwise than here, a token
  // may be second by a hair: this is the hair. [tokens.size()].
  std::vector<double> Shortfalls(std::span<const int32_t> tokens) const;

 private:
  // y = W x.
  struct Matrix {
    int32_t rows = 0;
    int32_t columns = 0;
    std::vector<float> weights;  // [rows, columns]

    Matrix(Draw& draw, int32_t num_rows, int32_t num_columns, double gain);
    void Multiply(std::span<const double> x, std::span<double> y) const;
  };
  struct Layer {
    explicit Layer(Draw& draw);

    Matrix attention_norm;  // [1, kHidden], factors
    Matrix qkv;             // [kQuerySize + 2 * kKvSize, kHidden]
    Matrix output;          // [kHidden, kQuerySize]
    Matrix mlp_norm;        // [1, kHidden], factors
    Matrix gate;            // [kMlp, kHidden]
    Matrix up;              // [kMlp, kHidden]
    Matrix down;            // [kHidden, kMlp]
  };

  // Runs the same network on a device.
  friend class DeviceTransformer;

  using Logits = std::array<double, kVocabulary>;

  static Hidden Normalize(const Hidden& hidden, const Matrix& factors);
  static Attention Attend(std::span<const Projected> keys);

  TinyTransformer(Draw draw, ScalarType kv_type);

  Logits LogitsOf(const Hidden& hidden) const;
  // Behind the last layer, for each token.
  std::vector<Hidden> Run(std::span<const int32_t> tokens) const;

  ScalarType kv_type_;
  Matrix embedding_;  // [kVocabulary, kHidden]
  std::vector<Layer> layers_;
  Matrix final_norm_;  // [1, kHidden], factors
  Matrix unembed_;     // [kVocabulary, kHidden]
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_TINY_TRANSFORMER_H_
