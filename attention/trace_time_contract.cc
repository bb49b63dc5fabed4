#include "attention/trace_time_contract.h"

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "attention/contract_dtype.h"

namespace tidewheel {
namespace {

JaxError AssertionError() { return {"AssertionError", ""}; }
JaxError ModuloError() {
  return {"ZeroDivisionError", "integer modulo by zero"};
}

// Elements of a 32-bit word.
int64_t Packing(absl::string_view dtype) {
  const std::optional<int> bits = DtypeBits(dtype);
  TIDEWHEEL_CHECK(bits.has_value());
  TIDEWHEEL_CHECK_LE(*bits, 32);
  return 32 / *bits;
}

// Whether `rows` rows of `packing` elements a word fill tiles of XLA's layout.
bool CanBeFullyTiled(int64_t rows, int64_t packing) {
  if (rows % packing != 0) return false;
  const int64_t sublanes = rows / packing;
  return sublanes == 1 || sublanes == 2 || sublanes == 4 || sublanes % 8 == 0;
}

// One launch after the static checks, with the dtypes that jit leaves.
struct Launch {
  int64_t num_tokens = 0;
  int64_t num_q_heads = 0;
  int64_t head_dim = 0;
  int64_t page_size = 0;
  int64_t num_combined_kv_heads = 0;
  std::string q_dtype;
  std::string kv_dtype;
  HeadsPerBlock heads;
  BlockSizes blocks;

  int64_t group() const { return num_q_heads / (num_combined_kv_heads / 2); }
  // Rows of the matrix that meets one KV head.
  int64_t rows_per_block() const {
    return blocks.num_queries_per_block * group();
  }
  int64_t keys_per_block() const {
    return blocks.num_kv_pages_per_block * page_size;
  }
};

// Widths that the kernel can compute with at all; JAX's own words for the
// others differ by dtype and end in the same place.
JaxVerdict CheckWidths(const Launch& launch) {
  for (const std::string* dtype : {&launch.q_dtype, &launch.kv_dtype}) {
    const std::optional<int> bits = DtypeBits(*dtype);
    if (!bits.has_value()) {
      return JaxError{"TypeError",
                      absl::StrCat("data type '", *dtype, "' not understood")};
    }
    // 32 // 64 elements a word.
    if (*bits > 32) return ModuloError();
  }
  return std::nullopt;
}

// A block size that is a whole number; the static checks passed.
std::optional<int64_t> BlockOption(const PythonValue& value) {
  if (value.is_none()) return std::nullopt;
  return value.ClampedInt(1, std::numeric_limits<int32_t>::max());
}

JaxVerdict ChooseBlocks(const ContractInputs& inputs,
                        const ContractOptions& options,
                        absl::string_view device_kind, Launch& launch) {
  const std::optional<int64_t> pages =
      BlockOption(options.num_kv_pages_per_block);
  const std::optional<int64_t> queries =
      BlockOption(options.num_queries_per_block);
  if (pages.has_value() && queries.has_value()) {
    launch.blocks = {*pages, *queries};
    return std::nullopt;
  }
  // One of the two alone is dropped.
  const JaxResult<BlockSizes> tuned = TunedBlockSizes(
      {.q_dtype = launch.q_dtype,
       .kv_dtype = launch.kv_dtype,
       .num_q_heads_per_block = launch.heads.num_q_heads,
       .num_kv_heads_per_block = launch.heads.num_combined_kv_heads / 2,
       .head_dim = launch.head_dim,
       .page_size = launch.page_size,
       .max_num_batched_tokens = launch.num_tokens,
       .pages_per_seq = inputs.page_indices.shape[1]},
      device_kind);
  launch.blocks = tuned.value;
  return tuned.error;
}

JaxVerdict DescribeLaunch(const ContractInputs& inputs,
                          const ContractOptions& options,
                          absl::string_view device_kind, Launch& launch) {
  launch = {.num_tokens = inputs.q.shape[0],
            .num_q_heads = inputs.q.shape[1],
            .head_dim = inputs.q.shape[2],
            .page_size = inputs.kv_pages.shape[1],
            .num_combined_kv_heads = inputs.kv_pages.shape[2],
            .q_dtype = std::string(NarrowedDtype(inputs.q.dtype)),
            .kv_dtype = std::string(NarrowedDtype(inputs.kv_pages.dtype)),
            .heads = {},
            .blocks = {}};
  if (JaxVerdict error = CheckWidths(launch)) return error;
  const JaxResult<HeadsPerBlock> heads =
      MinHeadsPerBlock(launch.num_q_heads, launch.num_combined_kv_heads,
                       launch.q_dtype, launch.kv_dtype);
  if (heads.error.has_value()) return heads.error;
  launch.heads = heads.value;
  if (JaxVerdict error = ChooseBlocks(inputs, options, device_kind, launch)) {
    return error;
  }
  // `num_q_heads_per_blk % num_q_heads_per_kv_head` of no query heads.
  if (launch.group() == 0) return ModuloError();
  return std::nullopt;
}

// The assertions of the kernel's body, in the order in which tracing meets
// them: loading K and V, folding Q, then the inner products. None has a text.
JaxVerdict CheckKernelBody(const Launch& launch,
                           const ContractOptions& options) {
  if (launch.kv_dtype == "bool") {
    return JaxError{
        "TypeError",
        "lax.bitcast_convert_type does not support bool or complex values "
        "unless the operand and destination types match. Got operand "
        "dtype=bool, new_dtype=dtype('uint32'). Consider using the arr.view() "
        "method instead."};
  }
  // K and V are pulled apart word by word for 2, 4 or 8 elements a word.
  if (Packing(launch.kv_dtype) > 8) return AssertionError();
  if (launch.q_dtype != "bfloat16" && launch.q_dtype != "float32") {
    return AssertionError();
  }
  // A scale makes its side q's dtype, and both sides must end in one.
  const bool k_scaled = !options.k_scale.is_none();
  const bool v_scaled = !options.v_scale.is_none();
  if (k_scaled != v_scaled && launch.kv_dtype != launch.q_dtype) {
    return AssertionError();
  }
  // The running maxima and sums have 128 lanes and are repeated to head_dim.
  if (launch.head_dim % 128 != 0) return AssertionError();
  return std::nullopt;
}

// Whether Q is widened to f32 before the inner product: its rows a KV head
// must fill whole words, or they cannot be folded into one matrix.
bool QueriesAreWidened(const Launch& launch) {
  return launch.group() % Packing(launch.q_dtype) != 0;
}

JaxVerdict CheckLaunchLowers(const Launch& launch,
                             const ContractOptions& options) {
  if (launch.heads.num_q_heads % 8 != 0 &&
      launch.heads.num_q_heads != launch.num_q_heads) {
    return JaxError{
        "ValueError",
        "The Pallas TPU lowering currently requires that the last two "
        "dimensions of your block shape are divisible by 8 and 128 "
        "respectively, or be equal to the respective dimensions of the overall "
        "array."};
  }
  const bool scaled = !options.k_scale.is_none();
  const std::string& kv_dtype = scaled ? launch.q_dtype : launch.kv_dtype;
  if (kv_dtype == "uint8" || kv_dtype == "uint16" || kv_dtype == "uint32" ||
      kv_dtype == "uint4") {
    return JaxError{
        "NotImplementedError",
        absl::StrCat("Unsigned integer dtype ", kv_dtype,
                     " is not supported for dot_general (matmul) on the Pallas "
                     "Mosaic TPU backend because dot_general interprets all "
                     "integer inputs as signed. Consider casting to a signed "
                     "type before the dot operation.")};
  }
  // A product with a single key is lowered to a broadcast and a sum, which
  // take no element but f32. With a single query row too nothing is broadcast,
  // and every floating element does.
  const bool all_f32 =
      (launch.q_dtype == "float32" || QueriesAreWidened(launch)) &&
      kv_dtype == "float32";
  const bool is_dot = launch.rows_per_block() == 1 && IsFloatingDtype(kv_dtype);
  if (launch.keys_per_block() == 1 && !all_f32 && !is_dot) {
    return JaxError{
        "VerificationError",
        "Pallas encountered an internal verification error. Please file a bug "
        "at https://github.com/jax-ml/jax/issues/new/choose. Error details: "
        "'vector.broadcast' op failed to verify that source operand and result "
        "have same element type"};
  }
  return std::nullopt;
}

}  // namespace

JaxResult<HeadsPerBlock> MinHeadsPerBlock(int64_t num_q_heads,
                                          int64_t num_combined_kv_heads,
                                          absl::string_view q_dtype,
                                          absl::string_view kv_dtype) {
  const int64_t q_packing = Packing(q_dtype);
  const int64_t kv_packing = Packing(kv_dtype);
  if (!CanBeFullyTiled(num_combined_kv_heads, kv_packing)) {
    return {.error =
                JaxError{"ValueError",
                         absl::StrCat("Not implemented: num_combined_kv_heads=",
                                      num_combined_kv_heads,
                                      " can not be XLA fully tiled.")}};
  }
  if (num_combined_kv_heads % 2 != 0) return {.error = AssertionError()};
  const int64_t num_kv_heads = num_combined_kv_heads / 2;
  if (num_kv_heads == 0) return {.error = ModuloError()};
  if (num_q_heads % num_kv_heads != 0) return {.error = AssertionError()};
  const int64_t group = num_q_heads / num_kv_heads;
  const int64_t full_tiling = 8 * kv_packing;
  const int64_t min_combined = num_combined_kv_heads % full_tiling == 0
                                   ? full_tiling
                                   : num_combined_kv_heads;
  const int64_t min_q_heads = min_combined / 2 * group;
  if (CanBeFullyTiled(min_q_heads, q_packing)) {
    return {.value = {min_q_heads, min_combined}};
  }
  return {.value = {num_q_heads, num_combined_kv_heads}};
}

JaxVerdict CheckTrace(const ContractInputs& inputs,
                      const ContractOptions& options,
                      absl::string_view device_kind) {
  if (JaxVerdict error = ValidateStatic(inputs, options, ArraySpelling::kJax)) {
    return error;
  }
  Launch launch;
  if (JaxVerdict error = DescribeLaunch(inputs, options, device_kind, launch)) {
    return error;
  }
  return CheckKernelBody(launch, options);
}

JaxVerdict CheckLowering(const ContractInputs& inputs,
                         const ContractOptions& options,
                         absl::string_view device_kind) {
  if (JaxVerdict error = CheckTrace(inputs, options, device_kind)) {
    return error;
  }
  Launch launch;
  if (JaxVerdict error = DescribeLaunch(inputs, options, device_kind, launch)) {
    return error;
  }
  return CheckLaunchLowers(launch, options);
}

JaxVerdict CheckReference(const ContractInputs& inputs,
                          const ContractOptions& options) {
  ContractOptions known = options;
  known.num_kv_pages_per_block = PythonValue();
  known.num_queries_per_block = PythonValue();
  known.vmem_limit_bytes = PythonValue();
  if (JaxVerdict error = ValidateStatic(inputs, known, ArraySpelling::kJax)) {
    return error;
  }
  const std::optional<std::vector<int64_t>>& num_seqs = inputs.num_seqs.values;
  if (num_seqs.has_value() && num_seqs->size() == 1 && num_seqs->front() <= 0) {
    return JaxError{"ValueError", "Need at least one array to concatenate."};
  }
  return std::nullopt;
}

}  // namespace tidewheel
