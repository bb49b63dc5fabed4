"""Makes golden vectors of ragged paged attention by calling JAX itself.

  pip install jax==0.10.2 ml_dtypes==0.6.0 numpy==2.4.6      (Python 3.11)
  python make_golden.py --list
  python make_golden.py --out DIR [NAME ...]     write cases, all by default
  python make_golden.py --verify DIR             recompute what DIR holds

A case is a NAME.json and a NAME.bin as tests/data/golden/README.md describes
them; `index.txt` lists the names. To extend the set, add a line to CASES.

Data come from numpy's generator, seeded with the CRC-32 of the name, so a new
case changes no other. `expected` is JAX's reference on the CPU, whose last bits
depend on the machine; `expected_f64` is computed here without JAX. Whatever no
result may depend on is poison: NaN (-128 in int8) and ids out of range.
"""

import argparse
import json
import os
import pathlib
import zlib

import ml_dtypes
import numpy as np

os.environ.setdefault("JAX_PLATFORMS", "cpu")

DTYPES = {name: np.dtype(getattr(ml_dtypes, name, None) or name) for name in (
    "float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")}
MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)
OPTIONS = ("sm_scale", "sliding_window", "soft_cap", "mask_value", "k_scale",
           "v_scale")
WILD_IDS = np.array([-1, 2**31 - 1, -2**31, 10**6], np.int32)
INPUTS = ("q", "kv_pages", "kv_lens", "page_indices", "cu_q_lens", "num_seqs")
# What JAX's result may differ from the mathematics by, of the largest value:
# it rounds the probabilities and the output to the type of V.
JAX_TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-2, "float8_e4m3fn": 0.1,
                 "float8_e5m2": 0.2, "int8": None}
F64_TOLERANCE = 1e-12


def case(rows, q="float32", kv="float32", heads=(4, 2), head_dim=64,
         page_size=4, spare_rows=1, spare_queries=2, **options):
  """rows: (q_len, kv_len) of each; options as JAX's function takes them."""
  assert not set(options) - set(OPTIONS), options
  options.setdefault("sm_scale", head_dim**-0.5)
  rounded = {name: value if value is None or name == "sliding_window"
             else float(np.float32(value)) for name, value in options.items()}
  return dict(rows=rows, q=q, kv=kv, heads=heads, head_dim=head_dim,
              page_size=page_size, spare_rows=spare_rows,
              spare_queries=spare_queries, options=rounded)


CASES = {
    "decode_f32": case([(1, 9), (1, 1), (1, 16)]),
    "decode_bf16": case([(1, 9), (1, 1), (1, 16)], "bfloat16", "bfloat16"),
    "mixed_f32": case([(1, 9), (6, 6), (3, 13)]),
    "window_f32": case([(1, 21), (6, 14)], sliding_window=5),
    "window_of_one_bf16": case([(2, 9)], "bfloat16", "bfloat16",
                               sliding_window=1),
    "soft_cap_f32": case([(1, 9), (3, 7)], sm_scale=1.0, soft_cap=2.0),
    "leaking_mask_f32": case([(1, 9), (3, 7)], mask_value=-2.0,
                             sliding_window=3),
    "e4m3_scaled": case([(1, 9), (3, 7)], "bfloat16", "float8_e4m3fn",
                        k_scale=0.3, v_scale=0.6),
    "e5m2_unscaled": case([(1, 9), (3, 7)], "bfloat16", "float8_e5m2"),
    "int8_scaled": case([(1, 9), (3, 7)], "float32", "int8", k_scale=0.013,
                        v_scale=0.021),
    "heads_12x2_f32": case([(2, 5)], heads=(12, 2)),
    "pages_of_one_f32": case([(2, 5), (1, 3)], page_size=1),
}


def make_inputs(name, spec):
  rng = np.random.default_rng(zlib.crc32(name.encode()))
  q_heads, kv_heads = spec["heads"]
  q_lens, kv_lens = np.array(spec["rows"], np.int32).T
  used = -(-kv_lens // spec["page_size"])
  max_rows = len(q_lens) + spec["spare_rows"]
  total_pages = int(used.sum()) + 2  # Page 0 and the last belong to no row.

  table = np.resize(WILD_IDS, (max_rows, int(used.max()) + 1))
  ids = rng.permutation(np.arange(1, total_pages - 1, dtype=np.int32))
  shape = (total_pages, spec["page_size"], 2 * kv_heads, spec["head_dim"])
  is_live = np.zeros(shape[:2], bool)
  for row, count in enumerate(used):
    table[row, :count], ids = ids[:count], ids[count:]
    flat = is_live[table[row, :count]].reshape(-1)
    flat[:kv_lens[row]] = True
    is_live[table[row, :count]] = flat.reshape(count, -1)

  if spec["kv"] == "int8":
    pages = rng.integers(-127, 128, shape, np.int8)
    pages[~is_live] = -128
  else:
    pages = rng.standard_normal(shape, np.float32)
    pages[~is_live] = np.nan
    pages = pages.astype(DTYPES[spec["kv"]])

  tokens = int(q_lens.sum())
  q = rng.standard_normal(
      (tokens + spec["spare_queries"], q_heads, spec["head_dim"]), np.float32)
  q[tokens:] = np.nan
  cu_q_lens = np.full(max_rows + 1, -7, np.int32)
  cu_q_lens[:len(q_lens) + 1] = np.concatenate([[0], np.cumsum(q_lens)])
  padded = np.zeros(max_rows, np.int32)
  padded[:len(kv_lens)] = kv_lens
  return dict(zip(INPUTS, (q.astype(DTYPES[spec["q"]]), pages, padded, table,
                           cu_q_lens, np.array([len(q_lens)], np.int32))))


def attend_in_f64(inputs, options):
  """The contract's mathematics, one row and query head at a time."""
  get = {name: options.get(name) for name in OPTIONS}
  q, pages = inputs["q"], inputs["kv_pages"]
  group = q.shape[1] // (pages.shape[2] // 2)
  starts, num_rows = inputs["cu_q_lens"], int(inputs["num_seqs"][0])
  out = np.zeros((starts[num_rows], *q.shape[1:]))
  for row in range(num_rows):
    length, begin, end = inputs["kv_lens"][row], starts[row], starts[row + 1]
    if begin == end:
      continue
    ids = inputs["page_indices"][row, :-(-length // pages.shape[1])]
    stored = pages[ids].reshape(-1, *pages.shape[2:])[:length]
    key = np.arange(length)
    position = (length - (end - begin) + np.arange(end - begin))[:, None]
    hidden = key > position
    if get["sliding_window"] is not None:
      hidden |= key <= position - get["sliding_window"]
    mask = MASK_VALUE if get["mask_value"] is None else get["mask_value"]
    for head in range(q.shape[1]):
      k, v = stored[:, head // group * 2], stored[:, head // group * 2 + 1]
      if get["k_scale"] is not None:
        k = (k.astype(np.float32) * np.float32(get["k_scale"])).astype(q.dtype)
      if get["v_scale"] is not None:
        v = (v.astype(np.float32) * np.float32(get["v_scale"])).astype(q.dtype)
      logits = q[begin:end, head].astype(np.float64) @ k.astype(np.float64).T
      logits *= get["sm_scale"]
      if get["soft_cap"] is not None:
        logits = get["soft_cap"] * np.tanh(logits / get["soft_cap"])
      logits += np.where(hidden, mask, 0.0)
      weights = np.exp(logits - logits.max(axis=1, keepdims=True))
      weights /= weights.sum(axis=1, keepdims=True)
      out[begin:end, head] = weights @ v.astype(np.float64)
  return out


def attend_in_jax(inputs, options):
  import jax.numpy as jnp
  from jax.experimental.pallas.ops.tpu.ragged_paged_attention import kernel
  arrays = [jnp.asarray(inputs[name]) for name in INPUTS]
  kernel.dynamic_validate_inputs(*arrays, **options)
  return np.asarray(kernel.ref_ragged_paged_attention(*arrays, **options))


def write_case(name, spec, folder):
  import jax
  inputs, options = make_inputs(name, spec), spec["options"]
  expected = attend_in_jax(inputs, options)
  ideal = attend_in_f64(inputs, options)
  size = float(np.abs(ideal).max())
  v_dtype = spec["kv"] if options.get("v_scale") is None else spec["q"]
  tolerance = max((JAX_TOLERANCE[v_dtype], JAX_TOLERANCE[spec["q"]]),
                  key=lambda t: np.inf if t is None else t)
  error = float(np.abs(expected.astype(np.float64) - ideal).max())
  assert tolerance is None or error <= tolerance * size, (name, error, size)

  blob, tensors = bytearray(), []
  for key, array in (inputs | dict(expected=expected,
                                   expected_f64=ideal)).items():
    blob += bytes(-len(blob) % 64)
    tensors.append(dict(name=key, dtype=array.dtype.name,
                        shape=list(array.shape), offset=len(blob),
                        bytes=array.nbytes))
    blob += np.ascontiguousarray(array).tobytes()
  description = dict(
      name=name, jax_version=jax.__version__, strict_valid=True,
      options={key: options.get(key) for key in OPTIONS},
      tolerance=dict(f64_atol=F64_TOLERANCE * size, f64_rtol=F64_TOLERANCE,
                     jax_atol=tolerance and tolerance * size,
                     jax_rtol=tolerance),
      jax_max_abs_error=error, tensors=tensors)
  (folder / f"{name}.json").write_text(json.dumps(description, indent=1) + "\n")
  (folder / f"{name}.bin").write_bytes(blob)


def read_case(path):
  description = json.loads(path.read_text())
  blob = path.with_suffix(".bin").read_bytes()
  dtypes = DTYPES | {d: np.dtype(d) for d in ("float64", "int32")}
  tensors = {}
  for t in description["tensors"]:
    raw = blob[t["offset"]:t["offset"] + t["bytes"]]
    tensors[t["name"]] = np.frombuffer(raw, dtypes[t["dtype"]]).reshape(
        t["shape"])
  return description, tensors


def verify(folder):
  """Recomputes both results of every case in a folder, whoever wrote it."""
  names = (folder / "index.txt").read_text().split()
  identical = 0
  for name in names:
    description, tensors = read_case(folder / f"{name}.json")
    options = {key: value for key, value in description["options"].items()
               if value is not None}
    inputs = {key: tensors[key] for key in INPUTS}
    tolerance = description["tolerance"]
    np.testing.assert_allclose(
        attend_in_f64(inputs, options), tensors["expected_f64"],
        tolerance["f64_rtol"], tolerance["f64_atol"], err_msg=name)
    got = attend_in_jax(inputs, options)
    assert got.dtype == tensors["expected"].dtype, name
    same = got.tobytes() == tensors["expected"].tobytes()
    identical += same
    if not same and tolerance["jax_atol"] is not None:
      np.testing.assert_allclose(
          got.astype(np.float64), tensors["expected"].astype(np.float64),
          tolerance["jax_rtol"], tolerance["jax_atol"], err_msg=name)
  print(f"{len(names)} cases agree; JAX's results are the same bytes in "
        f"{identical}")


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  action = parser.add_mutually_exclusive_group(required=True)
  action.add_argument("--list", action="store_true")
  action.add_argument("--out", type=pathlib.Path, metavar="DIR")
  action.add_argument("--verify", type=pathlib.Path, metavar="DIR")
  parser.add_argument("names", nargs="*", metavar="NAME")
  args = parser.parse_args()
  if args.list:
    print("\n".join(CASES))
  elif args.verify:
    verify(args.verify)
  else:
    args.out.mkdir(parents=True, exist_ok=True)
    names = args.names or list(CASES)
    for name in names:
      write_case(name, CASES[name], args.out)
    (args.out / "index.txt").write_text("".join(f"{n}\n" for n in names))
    print(f"wrote {len(names)} cases to {args.out}")


if __name__ == "__main__":
  main()
