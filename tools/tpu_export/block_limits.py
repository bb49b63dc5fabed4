"""Asks `tidewheel check` what a TPU accepts, and picks blocks that fit.

The rules are C++ (attention/tpu_limits.h) and are not repeated here: a list of
configurations goes to the command as a file of verdicts that all say "ok", and
what comes back are those that the rules refuse, with the reason.
"""

import csv
import dataclasses
import json
import pathlib
import subprocess
import tempfile

from tpu_export.kernel_config import ConfigError

# Names of the command's CSV.
DTYPE_NAMES = {"bfloat16": "bf16", "float32": "f32", "float8_e4m3fn": "fp8",
               "float8_e5m2": "e5m2", "int8": "i8"}
# Where attention/block_choice.h starts and between which bounds it descends.
PREFERRED_TOKENS, PREFERRED_QUERIES = 512, 32
VECTOR_TOKENS, VECTOR_QUERIES = 128, 8
# Above the kernel's limit, not above what the chip has.
SCOPED_VMEM = "oom_scoped_vmem"


class BlockLimits:
  """The rules, as the command at `tidewheel` knows them."""

  def __init__(self, tidewheel):
    self._tidewheel = tidewheel

  def refusals(self, configs):
    """The reason why the rules refuse a configuration, or None, of each.

    The blocks of every configuration must be given.
    """
    return [entry and entry["reason"] for entry in self.disagreements(configs)]

  def with_limits(self, configs):
    """The same, with a limit where blocks need more than the default.

    It is what they need at most, and is set only where the chip has it. The
    blocks of every configuration must be given; a limit that is given stays.
    """
    result = list(configs)
    for index, entry in enumerate(self.disagreements(configs)):
      if (entry and entry["predicted"] == SCOPED_VMEM
          and configs[index].vmem_limit_bytes is None):
        result[index] = dataclasses.replace(
            configs[index], vmem_limit_bytes=entry["needed_bytes"])
    return [config if refusal else raised for config, raised, refusal in
            zip(configs, result, self.refusals(result))]

  def disagreements(self, configs):
    """What `check --against` says of each that is refused, else None.

    An object with predicted (the class), reason, may_compile and needed_bytes.
    The blocks of every configuration must be given.
    """
    columns = ("chip", "libtpu", "sweep", "q_heads", "kv_heads", "head_dim",
               "page_size", "q_dtype", "kv_dtype", "max_num_seqs",
               "pages_per_seq", "max_num_batched_tokens", "bkv_pages", "bq",
               "vmem_limit", "kv_scales", "verdict", "error_class")
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder) / "shapes.csv"
      with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for c in configs:
          has_scales = c.k_scale is not None and c.v_scale is not None
          writer.writerow((
              c.generation, "-", "export", c.num_q_heads, c.num_kv_heads, 128,
              c.page_size, DTYPE_NAMES[c.q_dtype], DTYPE_NAMES[c.kv_dtype],
              c.max_num_seqs, c.pages_per_seq, c.num_tokens,
              c.num_kv_pages_per_block, c.num_queries_per_block,
              c.vmem_limit_bytes or "", "both" if has_scales else "none",
              "ok", ""))
      report = self._run("check", "--against", str(path), "--json")
    refused = {entry["line"]: entry
               for entry in report["export"]["disagreements"]}
    # Line 1 is the header.
    return [refused.get(line) for line in range(2, len(configs) + 2)]

  def with_blocks(self, configs):
    """The same configurations with blocks where none were given."""
    result = list(configs)
    for index, config in enumerate(configs):
      if config.num_kv_pages_per_block is None:
        result[index] = self._choose(config)
    return result

  def _choose(self, config):
    candidates = [
        dataclasses.replace(config, num_kv_pages_per_block=pages,
                            num_queries_per_block=queries)
        for pages, queries in block_ladder(config)]
    refusals = self.refusals(candidates)
    for candidate, refusal in zip(candidates, refusals):
      if refusal is None:
        return candidate
    raise ConfigError(f"{config.name}: does not fit with any blocks; with the "
                      f"smallest: {refusals[-1]}")

  def _run(self, *arguments):
    command = [self._tidewheel, *arguments]
    try:
      done = subprocess.run(command, capture_output=True, text=True,
                            check=False)
    except OSError as error:
      raise ConfigError(f"{self._tidewheel} can not be run: {error.strerror}; "
                        "--tidewheel must name the built command") from error
    if done.returncode:
      raise ConfigError(f"{' '.join(command)} failed: {done.stderr.strip()}; "
                        "--tidewheel must be built from this version")
    return json.loads(done.stdout)


def power_of_two_at_most(value):
  return 1 << (value.bit_length() - 1)


def block_ladder(config):
  """Pairs (pages, queries) in the order of attention/block_choice.h."""
  # A block of one token does not compile.
  least_pages = 2 if config.page_size == 1 and config.pages_per_seq > 1 else 1
  pages = power_of_two_at_most(
      max(least_pages, min(PREFERRED_TOKENS // config.page_size,
                           config.pages_per_seq)))
  queries = power_of_two_at_most(min(PREFERRED_QUERIES, config.num_tokens))
  yield pages, queries
  for least_tokens, least_queries in ((VECTOR_TOKENS, VECTOR_QUERIES), (1, 1)):
    while (pages // 2 >= least_pages
           and pages // 2 * config.page_size >= least_tokens):
      pages //= 2
      yield pages, queries
    while queries // 2 >= least_queries:
      queries //= 2
      yield pages, queries
