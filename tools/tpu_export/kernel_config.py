"""What one ahead-of-time kernel is compiled for, read from flags and JSON.

A configuration is every number that the program depends on. Nothing here needs
JAX, so that mistakes in the input are told before it is loaded.
"""

import dataclasses
import math
import struct

GENERATIONS = ("v4", "v5e", "v5p", "v6e", "v7x")
Q_DTYPES = ("bfloat16", "float32")
KV_DTYPES = ("bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "int8")
# Lanes of a TPU vector. A row of the pool is always that wide.
POOL_HEAD_DIM = 128
LARGEST_F32 = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
MAX_INT32 = 2**31 - 1


class ConfigError(ValueError):
  """The input can not be exported; the text names value, limit and remedy."""


def round_to_f32(value):
  """The float32 next to `value`, which is what the backend compares with."""
  try:
    return struct.unpack("<f", struct.pack("<f", value))[0]
  except OverflowError:
    raise ConfigError(
        f"{value} is beyond float32; give a value of at most "
        f"{LARGEST_F32}") from None


@dataclasses.dataclass(frozen=True)
class KernelConfig:
  """One artifact. Sizes are of one chip."""

  generation: str
  num_tokens: int  # of a batch, with padding
  max_num_seqs: int
  pages_per_seq: int
  num_q_heads: int
  num_kv_heads: int
  page_size: int  # tokens
  total_num_pages: int
  head_dim: int = POOL_HEAD_DIM  # of q, k, v and out
  q_dtype: str = "bfloat16"
  # Of k and v; None: that of q.
  new_kv_dtype: str | None = None
  kv_dtype: str = "bfloat16"  # of the pool
  # None: 1 / sqrt(head_dim).
  sm_scale: float | None = None
  sliding_window: int | None = None
  soft_cap: float | None = None
  # JAX's default.
  mask_value: float = -0.7 * LARGEST_F32
  k_scale: float | None = None
  v_scale: float | None = None
  # None: chosen by the rule of attention/block_choice.h.
  num_kv_pages_per_block: int | None = None
  num_queries_per_block: int | None = None
  # None: the generation's default, 16 or 32 MiB.
  vmem_limit_bytes: int | None = None

  @property
  def name(self):
    """Which artifact a message is about."""
    blocks = ("" if self.num_kv_pages_per_block is None else
              f", blocks {self.num_kv_pages_per_block} x "
              f"{self.num_queries_per_block}")
    limit = ("" if self.vmem_limit_bytes is None else
             f", vmem_limit_bytes {self.vmem_limit_bytes}")
    return (f"{self.generation}: {self.num_tokens} tokens, "
            f"{self.max_num_seqs} sequences x {self.pages_per_seq} pages of "
            f"{self.page_size}, heads {self.num_q_heads},{self.num_kv_heads} x "
            f"{self.head_dim}, {self.q_dtype}/{self.kv_dtype}{blocks}{limit}")

  def arguments(self):
    """(name, dtype, shape) of each, in the order of the program."""
    heads = (self.num_tokens, self.num_kv_heads, self.head_dim)
    return (
        ("q", self.q_dtype, (self.num_tokens, self.num_q_heads, self.head_dim)),
        ("k", self.new_kv_dtype, heads),
        ("v", self.new_kv_dtype, heads),
        ("kv_pages", self.kv_dtype, (self.total_num_pages, self.page_size,
                                     2 * self.num_kv_heads, POOL_HEAD_DIM)),
        ("kv_lens", "int32", (self.max_num_seqs,)),
        ("page_indices", "int32", (self.max_num_seqs, self.pages_per_seq)),
        ("cu_q_lens", "int32", (self.max_num_seqs + 1,)),
        ("num_seqs", "int32", (1,)))

  def results(self):
    arguments = self.arguments()
    return (("out", *arguments[0][1:]), arguments[DONATED_ARGUMENT])


# kv_pages; its result takes its place.
DONATED_ARGUMENT = 3
DONATED_RESULT = 1

BUCKET_SIZES = ("num_tokens", "max_num_seqs", "pages_per_seq")
INTEGERS = BUCKET_SIZES + ("num_q_heads", "num_kv_heads", "page_size",
                           "total_num_pages", "head_dim")
OPTIONAL_INTEGERS = ("sliding_window", "num_kv_pages_per_block",
                     "num_queries_per_block", "vmem_limit_bytes")
FLOATS = ("sm_scale", "soft_cap", "mask_value", "k_scale", "v_scale")
FIELDS = tuple(field.name for field in dataclasses.fields(KernelConfig))


def check_types(values):
  for name in FIELDS:
    value = values.get(name)
    if name in INTEGERS and value is None:
      flag = "" if name in BUCKET_SIZES else (
          f"--{name.replace('_', '-')} or ")
      raise ConfigError(f"{name} is missing; give {flag}the bucket's field")
    if value is None:
      continue
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if name in INTEGERS + OPTIONAL_INTEGERS:
      limit = MAX_INT32 if name != "vmem_limit_bytes" else 2**63 - 1
      if not is_integer or not 1 <= value <= limit:
        raise ConfigError(f"{name} {value!r} is not a whole number in "
                          f"[1, {limit}]")
    elif name in FLOATS:
      if not (is_integer or isinstance(value, float)) or not math.isfinite(
          value):
        raise ConfigError(f"{name} {value!r} is not a finite number")
  for name, allowed in (("generation", GENERATIONS), ("q_dtype", Q_DTYPES),
                        ("new_kv_dtype", KV_DTYPES), ("kv_dtype", KV_DTYPES)):
    if values.get(name) is not None and values[name] not in allowed:
      raise ConfigError(f"{name} {values[name]!r} is unknown; it is one of "
                        + ", ".join(allowed))


def check_limits(config):
  if config.head_dim > POOL_HEAD_DIM:
    raise ConfigError(
        f"head_dim {config.head_dim} is above {POOL_HEAD_DIM}: the kernel "
        "reads one head out of a page with a stride, and the TPU compiler "
        "strides only over rows of 128; use the StableHLO form")
  if config.num_q_heads % config.num_kv_heads:
    raise ConfigError(
        f"num_q_heads {config.num_q_heads} is no multiple of num_kv_heads "
        f"{config.num_kv_heads}; give the heads of one chip")
  for tokens, what in ((config.pages_per_seq, "pages_per_seq"),
                       (config.total_num_pages, "total_num_pages")):
    if tokens * config.page_size > MAX_INT32:
      raise ConfigError(
          f"{what} {tokens} x page_size {config.page_size} is above "
          f"{MAX_INT32} tokens, which int32 can not count; lower one")
  # A lone scale makes K and V of different types, which the kernel refuses.
  if ((config.k_scale is None) != (config.v_scale is None)
      and config.kv_dtype != config.q_dtype):
    raise ConfigError(
        f"only one of k_scale {config.k_scale} and v_scale {config.v_scale} "
        f"is given, but pages of {config.kv_dtype} are not of q's type "
        f"{config.q_dtype}; give both (1.0 scales nothing) or neither")
  for name in ("k_scale", "v_scale", "soft_cap"):
    if getattr(config, name) == 0:
      raise ConfigError(f"{name} 0 divides by zero; leave it out or give "
                        "another value")
  if ((config.num_kv_pages_per_block is None)
      != (config.num_queries_per_block is None)):
    raise ConfigError(
        "num_kv_pages_per_block and num_queries_per_block belong together; "
        "give both, or neither to have them chosen")
  if (config.num_kv_pages_per_block or 1) > config.pages_per_seq:
    raise ConfigError(
        f"num_kv_pages_per_block {config.num_kv_pages_per_block} is above "
        f"pages_per_seq {config.pages_per_seq}; lower it")


def make_config(values):
  """The configuration of a dict of fields, with the defaults filled in."""
  unknown = sorted(set(values) - set(FIELDS))
  if unknown:
    raise ConfigError(f"unknown field {unknown[0]!r}; known are "
                      + ", ".join(FIELDS))
  given = {"head_dim": POOL_HEAD_DIM}
  given.update((name, value) for name, value in values.items()
               if value is not None)
  check_types(given)
  given.setdefault("new_kv_dtype", given.get("q_dtype", KernelConfig.q_dtype))
  given.setdefault("sm_scale", given["head_dim"]**-0.5)
  for name in FLOATS:
    if name in given:
      given[name] = round_to_f32(float(given[name]))
  config = KernelConfig(**given)
  check_limits(config)
  return config
