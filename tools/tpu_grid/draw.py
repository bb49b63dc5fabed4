"""Draws shapes of JAX's attention kernel, as users ask for them or at an edge.

Four in five have blocks: any, with the limit of vector memory that the exporter
gives them, or, at the edge, such that the predicted need is 0.5 to 1.5 times a
limit. The others have page tables within 2 % of scalar memory, or heads and
types at the edge of the rules. A draw is a dict of fields of
tools/export_tpu_kernel.py.
"""

import csv
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from tpu_export.block_limits import (  # noqa: E402
    DTYPE_NAMES, SCOPED_VMEM, BlockLimits)
from tpu_export.kernel_config import make_config  # noqa: E402

GENERATIONS = ("v4", "v5e", "v5p", "v6e", "v7x")
MIB = 1 << 20
# The kernel's limit where none is given (attention/tpu_generation.h).
DEFAULT_LIMITS = {"v4": 16 * MIB, "v5e": 16 * MIB, "v5p": 16 * MIB,
                  "v6e": 32 * MIB, "v7x": 32 * MIB}
DTYPE_BYTES = {"bfloat16": 2, "float32": 4, "float8_e4m3fn": 1,
               "float8_e5m2": 1, "int8": 1}
HEADS = ((8, 1), (16, 1), (7, 1), (8, 2), (14, 2), (16, 2), (32, 2), (16, 4),
         (20, 4), (24, 4), (28, 4), (32, 4), (48, 4), (8, 8), (16, 8), (24, 8),
         (32, 8), (40, 8), (48, 8), (64, 8), (16, 16), (32, 16), (64, 16))
TYPES = (4 * (("bfloat16", "bfloat16"),) + 2 * (("bfloat16", "float8_e4m3fn"),)
         + (("bfloat16", "float8_e5m2"), ("bfloat16", "int8"),
            ("bfloat16", "float32"), ("float32", "float32"),
            ("float32", "bfloat16")))
# Tidewheel's programs take any number of KV heads; the kernel does not.
ODD_HEADS = ((1, 1), (2, 2), (3, 3), (5, 5), (6, 6), (7, 7), (9, 3), (10, 5),
             (12, 6), (14, 7), (10, 10), (20, 10), (12, 12), (71, 1))
PROGRAM_TYPES = (("bfloat16", "bfloat16"), ("bfloat16", "float8_e4m3fn"),
                 ("float32", "float32"), ("bfloat16", "int8"),
                 ("bfloat16", "float8_e5m2"), ("bfloat16", "float32"))
POOL_BYTES = 128 * MIB


def configs_of(shapes):
  """What the exporter makes of the shapes."""
  configs = []
  for shape in shapes:
    fields = dict(shape)
    generation, = fields.pop("generations")
    configs.append(make_config({"generation": generation, **fields}))
  return configs


def predict(tidewheel, shapes):
  """(class or None, reason, need or None) of each, by tidewheel's rules."""
  return [(entry["predicted"], entry["reason"], entry["needed_bytes"])
          if entry else (None, "", None)
          for entry in BlockLimits(tidewheel).disagreements(configs_of(shapes))]


def predicted_need(tidewheel, shapes):
  """Bytes of vector memory that the rule allows for each shape, or None."""
  # With one byte of memory every need is refused, and told.
  tiny = [{**shape, "vmem_limit_bytes": 1} for shape in shapes]
  return [need if failure == SCOPED_VMEM else None
          for failure, _, need in predict(tidewheel, tiny)]


def with_limits(tidewheel, shapes):
  """The shapes with the limits that the exporter gives them."""
  settled = BlockLimits(tidewheel).with_limits(configs_of(shapes))
  return [shape if config.vmem_limit_bytes is None
          else {**shape, "vmem_limit_bytes": config.vmem_limit_bytes}
          for shape, config in zip(shapes, settled)]


def random_shape(rng, generation):
  q_heads, kv_heads = rng.choice(HEADS)
  q_dtype, kv_dtype = rng.choice(TYPES)
  page_size = rng.choice((8, 16, 16, 32, 64, 128))
  tokens = rng.choice((64, 128, 128, 256, 256, 384, 512, 640, 768, 1024, 1536))
  pages = max(1, tokens // page_size)
  shape = {
      "generations": [generation], "num_q_heads": q_heads,
      "num_kv_heads": kv_heads, "page_size": page_size, "q_dtype": q_dtype,
      "kv_dtype": kv_dtype, "num_kv_pages_per_block": pages,
      "num_queries_per_block": rng.choice((8, 16, 24, 32, 48, 64, 96)),
      "num_tokens": rng.choice((64, 128, 256, 512, 1024, 2048)),
      "max_num_seqs": rng.choice((8, 24, 64, 96, 200)),
      "pages_per_seq": pages * rng.choice((1, 2, 3, 4))}
  if rng.random() < 0.15:
    shape.update(k_scale=0.5, v_scale=0.25)
  if rng.random() < 0.15:
    shape["sliding_window"] = rng.choice((128, 1000, 4096))
  if rng.random() < 0.1:
    shape["soft_cap"] = 30.0
  return shape


def limited_shape(rng, generation):
  shape = random_shape(rng, generation)
  # Smaller limits have smaller blocks, whose compiles take a second, not ten.
  share = rng.choice((1, 1, 1 / 16, 1 / 16, 1 / 8, 1 / 8, 1 / 8, 1 / 4, 1 / 4,
                      1 / 2, 3 / 2))
  # v4 has no more than its default.
  if share != 1 and (generation != "v4" or share < 1):
    shape["vmem_limit_bytes"] = int(DEFAULT_LIMITS[generation] * share)
  return shape


def smem_shape(rng, generation):
  """A page table just below or above scalar memory."""
  shape = random_shape(rng, generation)
  columns = rng.choice((32, 128, 200, 300, 512, 700, 1000, 1500, 2048, 4000))
  padded = (columns + 127) // 128 * 128
  rows = MIB // (4 * (padded + 2))
  rows = max(8, int(rows * rng.uniform(0.98, 1.02)) + rng.randint(-9, 9))
  shape.update(max_num_seqs=rows, pages_per_seq=columns,
               num_kv_pages_per_block=rng.choice((1, 2, 8)),
               num_queries_per_block=rng.choice((8, 16)),
               page_size=rng.choice((8, 16, 32)))
  return shape


def rule_shape(rng, generation):
  """Heads and types at the edge of what the kernel takes, blocks that fit."""
  shape = random_shape(rng, generation)
  q_heads, kv_heads = rng.choice((
      (3, 3), (6, 6), (12, 12), (10, 5), (12, 6), (24, 3), (24, 24), (48, 24),
      (32, 32), (1, 1), (2, 2), (71, 1), (9, 3), (20, 10), (48, 12)))
  pages = max(1, 128 // shape["page_size"])
  if rng.random() < 0.2:
    shape["page_size"] = pages = 1
  shape.update(num_q_heads=q_heads, num_kv_heads=kv_heads,
               num_kv_pages_per_block=pages, num_queries_per_block=8,
               pages_per_seq=4 * pages)
  return shape


def key_of(chip, q_heads, kv_heads, q_dtype, kv_dtype, num_tokens,
           tokens_per_block, queries):
  return (chip, int(q_heads), int(kv_heads), q_dtype, kv_dtype,
          int(num_tokens), int(tokens_per_block), int(queries))


def key_of_shape(s):
  return key_of(s["generations"][0], s["num_q_heads"], s["num_kv_heads"],
                DTYPE_NAMES[s["q_dtype"]], DTYPE_NAMES[s["kv_dtype"]], s["num_tokens"],
                s["page_size"] * s["num_kv_pages_per_block"],
                s["num_queries_per_block"])


def measured_keys(paths):
  """What was measured before, to be left out."""
  keys = set()
  for path in paths:
    with open(path, newline="", encoding="utf-8") as file:
      for row in csv.DictReader(file):
        tokens = row.get("tokens_per_block") or (
            int(row["page_size"]) * int(row["bkv_pages"]))
        keys.add(key_of(row["chip"], row["q_heads"], row["kv_heads"],
                        row["q_dtype"], row["kv_dtype"],
                        row["max_num_batched_tokens"], tokens, row["bq"]))
  return keys


def finish(shape):
  """Fills in a pool that a copy of would show."""
  page_bytes = (shape["page_size"] * 2 * shape["num_kv_heads"] * 128
                * DTYPE_BYTES[shape["kv_dtype"]])
  shape["total_num_pages"] = max(POOL_BYTES // page_bytes,
                                 shape["pages_per_seq"] + 1)
  return shape


def draw(tidewheel, seed, count, measured, edges):
  """`count` different shapes, spread over generations and kinds."""
  make_blocks = limited_shape if edges else random_shape
  rng = random.Random(seed)
  seen = set(measured)
  drawn = []
  while len(drawn) < count:
    generation = GENERATIONS[len(drawn) % len(GENERATIONS)]
    kind = (len(drawn) // len(GENERATIONS)) % 10
    make = {8: smem_shape, 9: rule_shape}.get(kind, make_blocks)
    # One question to the rules for many candidates.
    candidates = [finish(make(rng, generation)) for _ in range(40)]
    needs = (predicted_need(tidewheel, candidates)
             if make is limited_shape else [None] * len(candidates))
    for shape, need in zip(candidates, needs):
      if key_of_shape(shape) in seen:
        continue
      if make is limited_shape:
        limit = shape.get("vmem_limit_bytes", DEFAULT_LIMITS[generation])
        if need is None or not 0.5 * limit <= need <= 1.5 * limit:
          continue
      seen.add(key_of_shape(shape))
      drawn.append(shape)
      break
  return drawn if edges else with_limits(tidewheel, drawn)


def draw_programs(seed, count):
  """Shapes of tidewheel's own programs: each chip, form and type of pool."""
  rng = random.Random(seed)
  # So that every chip meets every form with every pair of types.
  kinds = [(generation, form, types) for types in PROGRAM_TYPES
           for form in ("decode", "prefill") for generation in GENERATIONS]
  shapes = []
  for number in range(count):
    generation, form, (q_dtype, kv_dtype) = kinds[number % len(kinds)]
    q_heads, kv_heads = rng.choice(HEADS + ODD_HEADS)
    shape = {
        "generations": [generation], "form": form, "q_dtype": q_dtype,
        "kv_dtype": kv_dtype, "num_q_heads": q_heads,
        "num_kv_heads": kv_heads, "head_dim": rng.choice((64, 80, 128, 256)),
        "page_size": rng.choice((8, 16, 32, 64, 128)),
        "num_tokens": rng.choice((1, 4, 16, 64, 128, 256, 512)),
        "max_num_seqs": rng.choice((1, 8, 16, 64, 256)),
        "pages_per_seq": rng.choice((1, 16, 64, 200, 1024))}
    if rng.random() < 0.3:
      shape["sliding_window"] = rng.choice((128, 1000, 4096))
    if rng.random() < 0.2:
      shape["soft_cap"] = 30.0
    if DTYPE_BYTES[kv_dtype] == 1 and rng.random() < 0.5:
      shape.update(k_scale=0.5, v_scale=0.25)
    shapes.append(shape)
  return shapes
