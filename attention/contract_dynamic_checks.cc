#include "attention/contract_dynamic_checks.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "attention/contract_dtype.h"
#include "attention/python_value.h"

namespace tidewheel {
namespace {

// int32 sums and differences as XLA and numpy compute them.
int32_t WrappingAdd(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) +
                              static_cast<uint32_t>(b));
}
int32_t WrappingSubtract(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) -
                              static_cast<uint32_t>(b));
}

// (a + b - 1) // b of int32 arrays. XLA divides by zero without a fault: the
// quotient is -1 and the remainder is the dividend, and JAX's floor division
// takes one more off where the signs differ and the remainder is not 0.
int32_t WrappingCeilDivide(int32_t a, int32_t b) {
  const int32_t dividend = WrappingSubtract(WrappingAdd(a, b), 1);
  if (b == 0) return dividend == 0 ? -1 : -2;
  const int32_t quotient = dividend / b;
  return dividend % b < 0 ? quotient - 1 : quotient;
}

// `4` of dtype int32 as repr() prints it.
std::string Element(absl::string_view value, absl::string_view dtype,
                    ArraySpelling spelling) {
  return spelling == ArraySpelling::kJax
             ? absl::StrCat("Array(", value, ", dtype=", dtype, ")")
             : absl::StrCat("np.", dtype, "(", value, ")");
}
std::string Element(int32_t value, ArraySpelling spelling) {
  return Element(absl::StrCat(value), "int32", spelling);
}

// jnp.max makes a jax array of numpy ones too, so the two values of this check
// print alike in both spellings.
JaxVerdict CheckPagesPerSeq(const DynamicValues& values) {
  if (values.kv_lens.empty()) {
    return JaxError{
        "ValueError",
        "zero-size array to reduction operation max which has no identity"};
  }
  const int32_t max_kv_len = *std::ranges::max_element(values.kv_lens);
  const int32_t min_pages = WrappingCeilDivide(max_kv_len, values.page_size);
  if (values.pages_per_seq >= min_pages) return std::nullopt;
  return JaxError{
      "ValueError",
      absl::StrCat(
          "pages_per_seq=", values.pages_per_seq,
          " must be greater or equal to min_pages_per_seq=",
          Element(min_pages, ArraySpelling::kJax),
          " given max_kv_len=", Element(max_kv_len, ArraySpelling::kJax),
          " and page_size=", values.page_size, ".")};
}

double NumSeqs(const DynamicValues& values) {
  return values.real_num_seqs.value_or(static_cast<double>(values.num_seqs));
}

// num_seqs[0] as repr() prints it.
std::string NumSeqsRepr(const DynamicValues& values, ArraySpelling spelling) {
  const absl::string_view dtype = values.num_seqs_dtype;
  if (dtype == "bool") {
    const char* truth = NumSeqs(values) != 0 ? "True" : "False";
    return spelling == ArraySpelling::kJax
               ? absl::StrCat("Array(", truth, ", dtype=bool)")
               : absl::StrCat("np.", truth, "_");
  }
  std::string number =
      !values.real_num_seqs.has_value() ? absl::StrCat(values.num_seqs)
      : dtype == "float64"
          ? FloatRepr(*values.real_num_seqs)
          : FloatRepr(static_cast<float>(*values.real_num_seqs));
  // numpy prints its own scalars as np.T(4.0) and elements of arrays as `4.`
  // and `1.e+06`; scalars of ml_dtypes print bare, `4`.
  const bool is_numpys = DtypeRepr(dtype).find('\'') != std::string::npos;
  if (spelling == ArraySpelling::kNumpy && is_numpys) {
    return Element(number, dtype, spelling);
  }
  if (absl::EndsWith(number, ".0")) {
    number.resize(number.size() - (is_numpys ? 1 : 2));
  }
  const size_t exponent = number.find('e');
  if (is_numpys && exponent != std::string::npos &&
      number.find('.') == std::string::npos) {
    number =
        absl::StrCat(number.substr(0, exponent), ".", number.substr(exponent));
  }
  if (spelling == ArraySpelling::kNumpy) return number;
  return Element(number, dtype, spelling);
}

// What indexing with num_seqs[0] raises when its dtype is no integer of
// numpy's or JAX's. A bool selects all or nothing instead of one element, and
// the comparison that follows then has no truth value.
JaxVerdict CheckIndexer(const DynamicValues& values, ArraySpelling spelling) {
  const absl::string_view dtype = values.num_seqs_dtype;
  if (dtype == "bool") {
    return JaxError{
        "ValueError",
        NumSeqs(values) != 0
            ? "The truth value of an array with more than one element is "
              "ambiguous. Use a.any() or a.all()"
            : "The truth value of an empty array is ambiguous. Use "
              "`array.size > 0` to check that an array is not empty."};
  }
  const bool sub_byte = DtypeBits(dtype).value_or(32) < 8;
  if (!values.real_num_seqs.has_value() && !sub_byte) return std::nullopt;
  if (spelling == ArraySpelling::kNumpy) {
    return JaxError{"IndexError",
                    "only integers, slices (`:`), ellipsis (`...`), "
                    "numpy.newaxis (`None`) and integer or boolean arrays are "
                    "valid indices"};
  }
  if (!values.real_num_seqs.has_value()) {
    return JaxError{
        "TypeError",
        "only integer scalar arrays can be converted to a scalar index"};
  }
  return JaxError{"TypeError",
                  absl::StrCat("Indexer must have integer or boolean type, got "
                               "indexer with type ",
                               dtype)};
}

// cu_q_lens[num_seqs[0]]. A negative index counts from the end in both
// libraries; beyond that numpy raises, and JAX takes the nearest element.
JaxVerdict CheckTotalQueryTokens(const DynamicValues& values,
                                 ArraySpelling spelling) {
  if (JaxVerdict error = CheckIndexer(values, spelling)) return error;
  const auto size = static_cast<int64_t>(values.cu_q_lens.size());
  int64_t index = values.num_seqs;
  if (index < 0) index += size;
  if (index < 0 && spelling == ArraySpelling::kNumpy) {
    return JaxError{
        "IndexError",
        absl::StrCat("index ", values.num_seqs,
                     " is out of bounds for axis 0 with size ", size)};
  }
  index = std::clamp<int64_t>(index, 0, size - 1);
  const int32_t total = values.cu_q_lens[static_cast<size_t>(index)];
  if (total <= values.max_num_batched_tokens) return std::nullopt;
  return JaxError{
      "ValueError",
      absl::StrCat("Total q tokens ", total,
                   " must be less or equal to max_num_batched_tokens=",
                   values.max_num_batched_tokens, ".")};
}

}  // namespace

JaxVerdict CheckDynamicValues(const DynamicValues& values,
                              ArraySpelling spelling) {
  TIDEWHEEL_CHECK_GE(values.max_num_seqs, 0);
  TIDEWHEEL_CHECK_GE(values.page_size, 0);
  TIDEWHEEL_CHECK_EQ(std::ssize(values.kv_lens), values.max_num_seqs);
  TIDEWHEEL_CHECK_EQ(std::ssize(values.cu_q_lens),
                     int64_t{values.max_num_seqs} + 1);
  if (NumSeqs(values) > values.max_num_seqs) {
    return JaxError{"ValueError",
                    absl::StrCat("num_seqs[0]=", NumSeqsRepr(values, spelling),
                                 " must be less or equal to max_num_seqs=",
                                 values.max_num_seqs)};
  }
  if (JaxVerdict error = CheckPagesPerSeq(values)) return error;
  if (JaxVerdict error = CheckTotalQueryTokens(values, spelling)) return error;
  for (int64_t row = 0; row < values.num_seqs; ++row) {
    const auto i = static_cast<size_t>(row);
    const int32_t q_len =
        WrappingSubtract(values.cu_q_lens[i + 1], values.cu_q_lens[i]);
    const int32_t kv_len = values.kv_lens[i];
    if (q_len <= kv_len) continue;
    return JaxError{
        "ValueError",
        absl::StrCat("q_len=", Element(q_len, spelling),
                     " must be less or equal to kv_len=",
                     Element(kv_len, spelling), " at sequence ", row, ".")};
  }
  return std::nullopt;
}

}  // namespace tidewheel
