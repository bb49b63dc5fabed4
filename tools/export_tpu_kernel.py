#!/usr/bin/env python3
"""Compiles JAX's attention kernel ahead of time, for the pjrt backend.

Exports Pallas ragged_paged_attention with the write of the step's K and V in
front, once for each bucket of sizes and each TPU generation, as portable
StableHLO. The result is a folder that tidewheel loads without Python. No TPU
and no libtpu are needed here.

  pip install jax==0.10.2 xxhash        (Python 3.11 or newer)

Example: a model with 32 query and 8 KV heads of 128 on one v5e chip, decode
steps of 64 sequences and chunks of 512 tokens, contexts of 64 pages:

  tools/dev simulate --help             (builds build/release/tidewheel)
  python tools/export_tpu_kernel.py --out kernels --generation v5e \\
    --num-q-heads 32 --num-kv-heads 8 --page-size 16 --total-num-pages 8192 \\
    --bucket 64,64,64 --bucket 512,64,64
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from tpu_export.block_limits import BlockLimits  # noqa: E402
from tpu_export import kernel_config  # noqa: E402
from tpu_export.kernel_config import ConfigError  # noqa: E402

FORMAT = "tidewheel-tpu-kernels"
FORMAT_VERSION = 1
JAX_VERSION = "0.10.2"
BUCKET_FIELDS = ("num_tokens", "max_num_seqs", "pages_per_seq",
                 "num_kv_pages_per_block", "num_queries_per_block")
OPTION_FIELDS = ("sm_scale", "sliding_window", "soft_cap", "mask_value",
                 "k_scale", "v_scale")

EPILOG = """
buckets:
  A bucket is a program of its own: a batch of up to num_tokens tokens (padding
  included) of up to max_num_seqs sequences with page tables of pages_per_seq
  entries. `tidewheel check --model ... --json` lists sensible ones under
  needs.token_buckets and needs.sequence_buckets.

  --bucket is TOKENS,SEQS,PAGES or TOKENS,SEQS,PAGES,KV_PAGES,QUERIES, the last
  two being num_kv_pages_per_block and num_queries_per_block. --buckets FILE is
  a JSON list of objects with those fields by name, for example
    [{"num_tokens": 64, "max_num_seqs": 64, "pages_per_seq": 64},
     {"num_tokens": 512, "max_num_seqs": 8, "pages_per_seq": 64,
      "sliding_window": 1024, "generations": ["v5e", "v6e"],
      "num_kv_pages_per_block": 16, "num_queries_per_block": 32}]
  An object may name every field that a flag sets (with _ for -); the flags are
  the defaults of those that it leaves out.

blocks:
  Blocks that are left out are chosen by the rule that the backend uses, within
  the limit of vector memory; blocks that are given are checked by it: the
  script asks the tidewheel command (--tidewheel). Where given blocks need more
  than the generation's default and no --vmem-limit-bytes is given, the limit
  is what they need, if the chip has it. A configuration that the rule refuses
  is not exported, unless --force is given; the compile then fails on the TPU,
  often after minutes.

head_dim:
  q, k, v and out have head_dim numbers a head, at most 128. The pool always
  has 128: the program pads with zeros. --sm-scale defaults to the one of the
  head_dim that you give.

what the program expects besides the contract of attention_backend.h:
  The padding lanes of every key and value in use are zero (those written by
  the program are), and page 0 holds finite numbers.
"""


def parse_arguments(arguments):
  parser = argparse.ArgumentParser(
      description=__doc__, epilog=EPILOG,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  add = parser.add_argument
  add("--out", required=True, metavar="DIR",
      help="folder to make; must not exist or be empty")
  add("--generation", action="append", choices=kernel_config.GENERATIONS,
      help="TPU generation; repeat for several (default: all five)")
  add("--bucket", action="append", default=[], metavar="T,S,P[,KV,Q]",
      help="one bucket of sizes; repeat for several")
  add("--buckets", metavar="FILE", help="JSON list of buckets")
  sizes = parser.add_argument_group("sizes of one chip")
  for name, text in (
      ("num-q-heads", "query heads"), ("num-kv-heads", "KV heads"),
      ("head-dim", "numbers a head (128)"), ("page-size", "tokens a page"),
      ("total-num-pages", "pages of the pool, with the null page")):
    sizes.add_argument(f"--{name}", type=int, metavar="N", help=text)
  types = parser.add_argument_group("types")
  types.add_argument("--q-dtype", choices=kernel_config.Q_DTYPES,
                     help="of q and out (bfloat16)")
  types.add_argument("--kv-dtype", choices=kernel_config.KV_DTYPES,
                     help="of the pool (bfloat16)")
  types.add_argument("--new-kv-dtype", choices=kernel_config.KV_DTYPES,
                     help="of k and v (that of q); those of the pool's own "
                     "type are stored bit for bit")
  options = parser.add_argument_group("options of the kernel, compiled in")
  options.add_argument("--sm-scale", type=float, metavar="X",
                       help="factor of q.k (1 / sqrt(head_dim))")
  options.add_argument("--sliding-window", type=int, metavar="N",
                       help="keys that a query sees at most")
  options.add_argument("--soft-cap", type=float, metavar="X",
                       help="cap * tanh(logit / cap)")
  options.add_argument("--mask-value", type=float, metavar="X",
                       help="added to hidden logits (-0.7 x largest float32)")
  options.add_argument("--k-scale", type=float, metavar="X",
                       help="factor of the pool's keys")
  options.add_argument("--v-scale", type=float, metavar="X",
                       help="factor of the pool's values")
  options.add_argument("--vmem-limit-bytes", type=int, metavar="N",
                       help="vector memory (the generation's default, or "
                       "what given blocks need)")
  limits = parser.add_argument_group("limits")
  limits.add_argument("--tidewheel", metavar="FILE",
                      help="the tidewheel command (default: of "
                      "build/release, build/dev or the PATH)")
  limits.add_argument("--force", action="store_true",
                      help="export what the limits refuse, too; with all "
                      "blocks given it needs no tidewheel command")
  return parser.parse_args(arguments)


def find_tidewheel(flags):
  if flags.tidewheel:
    return flags.tidewheel
  for preset in ("release", "dev"):
    path = ROOT.parent / "build" / preset / "tidewheel"
    if path.is_file():
      return str(path)
  return shutil.which("tidewheel")


def parse_bucket(text):
  try:
    numbers = [int(number) for number in text.split(",")]
  except ValueError:
    numbers = []
  if len(numbers) not in (3, 5):
    raise ConfigError(f"--bucket {text!r} is not TOKENS,SEQS,PAGES or "
                      "TOKENS,SEQS,PAGES,KV_PAGES,QUERIES")
  return dict(zip(BUCKET_FIELDS, numbers))


def read_buckets(path):
  try:
    buckets = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
  except OSError as error:
    raise ConfigError(f"{path}: {error.strerror}") from error
  except ValueError as error:
    raise ConfigError(f"{path} is no JSON: {error}") from error
  if not isinstance(buckets, list) or not all(
      isinstance(bucket, dict) for bucket in buckets):
    raise ConfigError(f"{path} must be a list of objects, one a bucket")
  return buckets


def read_configs(flags):
  """Every configuration that the flags ask for, each once."""
  defaults = {name: getattr(flags, name) for name in kernel_config.FIELDS
              if getattr(flags, name, None) is not None
              and name != "generation"}
  buckets = [parse_bucket(text) for text in flags.bucket]
  places = [f"--bucket {text}" for text in flags.bucket]
  if flags.buckets:
    listed = read_buckets(flags.buckets)
    places += [f"{flags.buckets}[{index}]" for index in range(len(listed))]
    buckets += listed
  if not buckets:
    raise ConfigError("no bucket is given; use --bucket or --buckets")
  configs = {}
  for place, bucket in zip(places, buckets):
    fields = {**defaults, **bucket}
    generations = fields.pop("generations", flags.generation
                             or list(kernel_config.GENERATIONS))
    if not isinstance(generations, list) or not generations:
      raise ConfigError(f"{place}: generations must be a list of names")
    for generation in generations:
      try:
        config = kernel_config.make_config({"generation": generation, **fields})
      except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
      if config in configs:
        raise ConfigError(f"{place} and {configs[config]} are the same for "
                          f"{config.generation}; drop one")
      configs[config] = place
  return list(configs)


def settle_blocks(flags, configs):
  """The configurations with their blocks, none refused unless forced."""
  has_all_blocks = all(c.num_kv_pages_per_block for c in configs)
  tidewheel = find_tidewheel(flags)
  if flags.force and has_all_blocks:
    return configs
  if tidewheel is None:
    raise ConfigError(
        "the tidewheel command, which knows what fits a TPU, is not found; "
        "build it (tools/dev simulate --help does) or name it with "
        "--tidewheel. To export unchecked, give all blocks and --force")
  limits = BlockLimits(tidewheel)
  configs = limits.with_limits(limits.with_blocks(configs))
  refused = [f"  {config.name}: {refusal}" for config, refusal in
             zip(configs, limits.refusals(configs)) if refusal]
  if refused and not flags.force:
    raise ConfigError("\n".join([
        f"{len(refused)} of {len(configs)} configurations do not fit "
        "(--force exports them all the same):", *refused]))
  return configs


def import_libraries():
  """Loads JAX, set for a machine without accelerators."""
  # Settings of the caller would change the bytes.
  for name in list(os.environ):
    if name.startswith("JAX_") or name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"):
      del os.environ[name]
  os.environ["JAX_PLATFORMS"] = "cpu"
  remedy = f"pip install jax=={JAX_VERSION} xxhash (Python 3.11 or newer)"
  try:
    import jax
    import xxhash
  except ImportError as error:
    raise ConfigError(f"{error.name} is not installed; {remedy}") from error
  if jax.__version__ != JAX_VERSION:
    raise ConfigError(
        f"jax is {jax.__version__}, but the limits, the kernel and the "
        f"manifest are those of {JAX_VERSION}; {remedy}")
  if not hasattr(xxhash, "xxh3_128_hexdigest"):
    raise ConfigError(f"xxhash {xxhash.VERSION} has no XXH3; {remedy}")


def describe_types(entries):
  return [{"name": name, "dtype": dtype, "shape": list(shape)}
          for name, dtype, shape in entries]


def manifest_entry(config, file, data, digest, found):
  fields = dataclasses.asdict(config)
  options = {name: fields.pop(name) for name in OPTION_FIELDS}
  return {
      "file": file, "bytes": len(data), "xxh3_128": digest,
      "stablehlo_version": found["stablehlo_version"],
      "mosaic_version": found["mosaic_version"],
      **fields, "pool_head_dim": kernel_config.POOL_HEAD_DIM,
      "options": options,
      "arguments": describe_types(config.arguments()),
      "results": describe_types(config.results()),
      "donated_argument": kernel_config.DONATED_ARGUMENT,
      "donated_result": kernel_config.DONATED_RESULT,
  }


def to_json(manifest):
  """Indented, but for lists of numbers, which stay on one line."""
  text = json.dumps(manifest, indent=1)
  return re.sub(r"\[[\d,\s]+\]", lambda m: "".join(m[0].split()), text) + "\n"


def make_folder(path):
  folder = pathlib.Path(path)
  try:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
      raise ConfigError(f"{path} is not empty; name a new folder or empty it")
  except OSError as error:
    raise ConfigError(f"{path}: {error.strerror}; name a folder that can be "
                      "made") from error
  return folder


def export_all(configs, folder, report):
  import jax
  import xxhash
  from tpu_export import artifact  # needs JAX

  entries = []
  for number, config in enumerate(configs, 1):
    data = artifact.export_kernel(config)
    found = artifact.check_artifact(config, data)
    digest = xxhash.xxh3_128_hexdigest(data)
    # Generations that get the same program share one file.
    file = (f"{config.num_tokens}x{config.max_num_seqs}x"
            f"{config.pages_per_seq}-{digest}.mlirbc")
    (folder / file).write_bytes(data)
    entries.append(manifest_entry(config, file, data, digest, found))
    report(f"[{number}/{len(configs)}] {config.name}: {len(data)} bytes")
  manifest = {"format": FORMAT, "format_version": FORMAT_VERSION,
              "jax_version": jax.__version__,
              "jaxlib_version": jax.lib.__version__, "artifacts": entries}
  # Last, so that a folder with a manifest is whole.
  (folder / "manifest.json").write_text(to_json(manifest), encoding="utf-8")


def main(arguments):
  flags = parse_arguments(arguments)
  try:
    configs = settle_blocks(flags, read_configs(flags))
    import_libraries()
    export_all(configs, make_folder(flags.out),
               lambda text: print(text, flush=True))
  except (ConfigError, RuntimeError) as error:
    print(f"export_tpu_kernel: {error}", file=sys.stderr)
    return 1
  print(f"{len(configs)} kernels are in {flags.out}")
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
