"""The exported program around the kernel: writes, padding, dropped tokens."""

import os
import pathlib
import sys
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "golden")]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import (  # noqa: E402
    kernel)
import make_golden  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

from tpu_export import program  # noqa: E402

LANES = 128
BATCH = ("kv_lens", "page_indices", "cu_q_lens", "num_seqs")
OPTIONS = ("sm_scale", "sliding_window", "soft_cap", "mask_value", "k_scale",
           "v_scale")


def reference_attend(call):
  """JAX's reference in the kernel's place. As the kernel's, its padding rows
  are no numbers to rely on."""
  # Its loop over the rows needs their values while it is traced.
  batch = [call.inputs[name] for name in BATCH]

  def attend(q, kv_pages, *traced):
    assert [a.shape for a in traced] == [a.shape for a in batch], traced
    rows = kernel.ref_ragged_paged_attention(q, kv_pages, *batch,
                                             **call.options)
    poison = jnp.full((q.shape[0] - rows.shape[0], *q.shape[1:]), jnp.nan,
                      q.dtype)
    return jnp.concatenate([rows, poison])

  return attend


def poison_attend(q, *arrays):
  del arrays
  return jnp.full_like(q, jnp.nan)


def bits(array):
  """Comparable also where it holds NaN."""
  array = np.ascontiguousarray(array)
  found = array.view(f"u{array.dtype.itemsize}")
  if array.dtype.name.startswith("float8"):
    # XLA's CPU takes 8-bit floats through 16 bits, which turns a NaN into
    # another; a TPU does not.
    found = np.where(np.isnan(array.astype(np.float32)), 0x7F, found)
  return found


def poison(dtype):
  return -128 if dtype == np.int8 else np.nan


def store(values, scale, dtype):
  """attention_backend.h's rule of a write, in numpy."""
  if values.dtype == dtype:
    return values
  wide = values.astype(np.float32)
  if scale is not None:
    wide = wide / np.float32(scale)
  if dtype == np.int8:
    return np.nan_to_num(np.rint(np.clip(wide, -128, 127))).astype(np.int8)
  if dtype.itemsize == 1:
    largest = np.float32(ml_dtypes.finfo(dtype).max)
    wide = np.clip(wide, -largest, largest)
  return wide.astype(dtype)


class Call:
  """Arguments of one call, and the pool that it must leave behind."""

  def __init__(self, name, new_dtype=None, size=1.0, **spec):
    self.spec = make_golden.case(**spec)
    self.options = {key: self.spec["options"].get(key) for key in OPTIONS
                    if key in self.spec["options"]}
    inputs = make_golden.make_inputs(name, self.spec)
    rng = np.random.default_rng(len(name))
    self.inputs = inputs
    pages = inputs["kv_pages"]
    dtype = pages.dtype
    self.head_dim = self.spec["head_dim"]
    num_tokens = inputs["q"].shape[0]
    num_kv_heads = self.spec["heads"][1]
    shape = (2, num_tokens, num_kv_heads, self.head_dim)
    values = size * rng.standard_normal(shape, np.float32)
    tokens = inputs["cu_q_lens"][inputs["num_seqs"][0]]
    values[:, tokens:] = np.nan  # padding
    new_dtype = np.dtype(make_golden.DTYPES[new_dtype or self.spec["q"]])
    self.k, self.v = values.astype(new_dtype)
    # The pool's rows have 128 lanes; those past head_dim are zero.
    wide = np.zeros((*pages.shape[:3], LANES), dtype)
    wide[..., :self.head_dim] = pages
    self.expected_pages = wide
    self.pool = wide.copy()
    for page, slot, token in self.slots():
      self.pool[page, slot] = poison(dtype)
      row = np.zeros((2 * num_kv_heads, LANES), dtype)
      row[0::2, :self.head_dim] = store(self.k[token],
                                        self.options.get("k_scale"), dtype)
      row[1::2, :self.head_dim] = store(self.v[token],
                                        self.options.get("v_scale"), dtype)
      self.expected_pages[page, slot] = row

  def slots(self):
    """(page, slot, token) of each token that belongs to a sequence."""
    page_size = self.spec["page_size"]
    for row, (q_len, kv_len) in enumerate(self.spec["rows"]):
      for i in range(q_len):
        position = kv_len - q_len + i
        yield (self.inputs["page_indices"][row, position // page_size],
               position % page_size, self.inputs["cu_q_lens"][row] + i)

  def arguments(self):
    return [jnp.asarray(array) for array in (
        self.inputs["q"], self.k, self.v, self.pool,
        *(self.inputs[name] for name in BATCH))]

  def run(self, attend):
    function = program.build(attend, k_scale=self.options.get("k_scale"),
                             v_scale=self.options.get("v_scale"))
    return function, self.arguments()


CASES = {
    "f32": dict(rows=[(1, 9), (6, 6), (3, 13)], head_dim=128),
    "bf16": dict(rows=[(1, 9), (4, 16)], q="bfloat16", kv="bfloat16",
                 head_dim=128),
    "head_dim_64": dict(rows=[(2, 9), (1, 1)], head_dim=64),
    "head_dim_80_window": dict(rows=[(2, 21), (6, 14)], head_dim=80,
                               sliding_window=5),
    "full_bucket": dict(rows=[(3, 7), (4, 4)], head_dim=128, spare_rows=0,
                        spare_queries=0),
    "one_row": dict(rows=[(1, 1)], head_dim=128, soft_cap=2.0, spare_rows=5),
    "pages_of_one": dict(rows=[(2, 5), (1, 3)], head_dim=128, page_size=1),
    "f32_into_bf16": dict(rows=[(3, 7)], kv="bfloat16", head_dim=128),
    "e4m3_scaled": dict(rows=[(1, 9), (3, 7)], q="bfloat16",
                        kv="float8_e4m3fn", k_scale=0.3, v_scale=0.6,
                        head_dim=128),
    "e4m3_clamped": dict(rows=[(5, 9)], kv="float8_e4m3fn", k_scale=0.013,
                         v_scale=0.017, head_dim=128, size=9.0),
    "e5m2_unscaled": dict(rows=[(4, 9)], q="bfloat16", kv="float8_e5m2",
                          head_dim=128),
    "int8_scaled": dict(rows=[(1, 9), (3, 7)], kv="int8", k_scale=0.013,
                        v_scale=0.021, head_dim=128, size=2.0),
    # Of the pool's type: bit for bit, whatever the scale.
    "e5m2_given": dict(rows=[(4, 9)], q="bfloat16", kv="float8_e5m2",
                       new_dtype="float8_e5m2", k_scale=0.5, v_scale=0.25,
                       head_dim=128),
}
# Enough for what is around the attention; each costs seconds of compiles.
ATTENDED = ("f32", "head_dim_80_window", "e4m3_scaled", "full_bucket")


class ProgramTest(unittest.TestCase):

  def test_attends_to_what_it_wrote_and_zeroes_padding_rows(self):
    for name in ATTENDED:
      with self.subTest(name):
        call = Call(name, **CASES[name])
        function, arguments = call.run(reference_attend(call))
        out, pages = map(np.asarray, jax.jit(function)(*arguments))
        # The mathematics reads the pool as it must be by now.
        ideal = make_golden.attend_in_f64(
            call.inputs | {"kv_pages":
                           call.expected_pages[..., :call.head_dim]},
            call.options)
        tokens = len(ideal)
        self.assertEqual(out.dtype, call.inputs["q"].dtype)
        # The reference rounds its probabilities to the type of V.
        v_dtype = (call.spec["q"] if "v_scale" in call.options
                   else call.spec["kv"])
        tolerance = max(make_golden.JAX_TOLERANCE[v_dtype],
                        make_golden.JAX_TOLERANCE[call.spec["q"]])
        np.testing.assert_allclose(
            out[:tokens].astype(np.float64), ideal, rtol=0,
            atol=tolerance * np.abs(ideal).max())
        np.testing.assert_array_equal(bits(out[tokens:]), 0)
        np.testing.assert_array_equal(bits(pages), bits(call.expected_pages))

  # XLA may multiply with the reciprocal of a scale. None of these values is so
  # near the middle of two 8-bit numbers that it shows.
  def test_compiled_writes_are_exact_and_padding_rows_are_zero(self):
    for name, spec in CASES.items():
      with self.subTest(name):
        call = Call(name, **spec)
        function, arguments = call.run(poison_attend)
        out, pages = map(np.asarray, jax.jit(function)(*arguments))
        tokens = call.inputs["cu_q_lens"][call.inputs["num_seqs"][0]]
        self.assertTrue(np.isnan(out[:tokens].astype(np.float32)).all())
        np.testing.assert_array_equal(bits(out[tokens:]), 0)
        np.testing.assert_array_equal(bits(pages), bits(call.expected_pages))

  def test_tokens_without_a_page_write_nothing(self):
    """A batch that breaks the contract harms no page of another."""
    call = Call("one_row", **CASES["one_row"])
    before = call.pool
    # Every entry is a page that a write could harm.
    call.inputs["page_indices"] = np.zeros_like(call.inputs["page_indices"])
    kv_lens, table = call.inputs["kv_lens"], call.inputs["page_indices"]
    wild = []
    for page in (-1, len(before), 2**31 - 1, -2**31):
      table = table.copy()
      table[0, 0] = page
      wild.append((kv_lens, table))
    for kv_len in (0, -3, table.shape[1] * call.spec["page_size"] + 1):
      lens = kv_lens.copy()
      lens[0] = kv_len
      wild.append((lens, call.inputs["page_indices"]))
    for lens, table in wild:
      with self.subTest(kv_len=lens[0], page=table[0, 0]):
        call.inputs["kv_lens"], call.inputs["page_indices"] = lens, table
        function, arguments = call.run(poison_attend)
        pages = np.asarray(jax.jit(function)(*arguments)[1])
        np.testing.assert_array_equal(bits(pages), bits(before))

  def test_no_sequence_writes_nothing_and_returns_zeros(self):
    call = Call("f32", **CASES["f32"])
    call.inputs["num_seqs"] = np.zeros(1, np.int32)
    call.inputs["cu_q_lens"][0] = 0
    function, arguments = call.run(poison_attend)
    out, pages = map(np.asarray, jax.jit(function)(*arguments))
    np.testing.assert_array_equal(bits(out), 0)
    np.testing.assert_array_equal(bits(pages), bits(call.pool))


if __name__ == "__main__":
  unittest.main()
