#!/usr/bin/env python3
"""Measures the vector memory that JAX's attention kernel is given by libtpu.

usage: measure.py OUT.csv SEED CASES CHIP [CHIP ...]   (v4 v5e v5p v6e v7x)

Compiles random shapes ahead of time, on a host without a TPU, and reads the
allocations out of the compiler's own dump: what the kernel declares, and the
slots of spilled registers. Appends rows in the form of
tests/data/tpu_vmem.csv. Needs jax==0.10.2 and one libtpu (0.0.42.1 or 0.0.52).
A shape takes 0.2 to 100 s; give it a time limit from outside.
"""

import csv
import glob
import importlib.metadata
import os
import random
import re
import sys
import tempfile

OUT, SEED, CASES, CHIPS = (sys.argv[1], int(sys.argv[2]), int(sys.argv[3]),
                           sys.argv[4:])
DUMPS = tempfile.mkdtemp()
os.environ.update(
    TPU_SKIP_MDS_QUERY='1', ALLOW_MULTIPLE_LIBTPU_LOAD='1',
    TPU_LOG_DIR='disabled', TPU_ACCELERATOR_TYPE='v5litepod-1',
    TPU_WORKER_HOSTNAMES='localhost', TPU_WORKER_ID='0', JAX_PLATFORMS='cpu',
    LIBTPU_INIT_ARGS=f'--xla_jf_dump_to={DUMPS} --xla_jf_dump_llo_text=true '
                     '--xla_jf_dump_llo_pass_label_regex=^post-ra$')

import jax  # noqa: E402  (reads the environment)
import jax.numpy as jnp  # noqa: E402
from jax._src.pallas.mosaic import tpu_info  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import (  # noqa: E402
    ragged_paged_attention)

TOPOLOGIES = {'v5e': ('v5e:1x1', {}), 'v6e': ('v6e:1x1', {}),
              'v5p': ('v5p:1x1x1', {}), 'v7x': ('tpu7x:1x1x1', {}),
              'v4': ('v4:1x1x1', {'chip_config_name': 'megacore'})}
# Above any need here, below the chip.
LIMITS = {'v5e': 120 << 20, 'v6e': 120 << 20, 'v5p': 60 << 20,
          'v7x': 60 << 20, 'v4': None}
DTYPES = {'bf16': jnp.bfloat16, 'f32': jnp.float32, 'i8': jnp.int8,
          'fp8': jnp.float8_e4m3fn}
HEADS = [(2, 1), (4, 1), (8, 1), (16, 1), (4, 2), (8, 2), (16, 2), (32, 2),
         (4, 4), (8, 4), (16, 4), (32, 4), (8, 8), (16, 8), (32, 8), (64, 8),
         (48, 4), (40, 8), (5, 1), (7, 1), (12, 2), (28, 4), (3, 1), (6, 1), (10, 2),
         (14, 2), (20, 4), (24, 4), (24, 8)]
TYPES = 3 * [('bf16', 'bf16')] + [('bf16', 'fp8'), ('bf16', 'i8'),
                                  ('bf16', 'f32'), ('f32', 'f32')]
MAX_TOKENS, MAX_SEQS, PAGE_SIZE = 256, 8, 16
ALLOCATION = re.compile(
    r"(allocation[0-9]+(?:_spill)?) \[shape = '[^']*', space=vmem, "
    r'size = 0x([0-9a-f]+), scoped')


def compile_kernel(chip, heads, types, tokens, bq):
  name, options = TOPOLOGIES[chip]
  device = topologies.get_topology_desc(
      name, platform='tpu', chips_per_host_bounds=[1, 1, 1],
      **options).devices[0]
  # The kernel asks which TPU it is lowered for; there is none.
  tpu_info.get_device_kind = lambda: device.device_kind
  tpu_info.get_num_device_cores = lambda: getattr(device, 'num_cores', 1)
  place = jax.sharding.SingleDeviceSharding(device)
  columns = max(128, tokens // PAGE_SIZE)

  def operand(shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=place)

  def kernel(*operands):
    return ragged_paged_attention(
        *operands, sm_scale=0.088, vmem_limit_bytes=LIMITS[chip],
        num_kv_pages_per_block=tokens // PAGE_SIZE, num_queries_per_block=bq)

  jax.jit(kernel).lower(
      operand((MAX_TOKENS, heads[0], 128), DTYPES[types[0]]),
      operand((64, PAGE_SIZE, 2 * heads[1], 128), DTYPES[types[1]]),
      operand((MAX_SEQS,), jnp.int32), operand((MAX_SEQS, columns), jnp.int32),
      operand((MAX_SEQS + 1,), jnp.int32), operand((1,), jnp.int32)).compile()


def read_dump():
  sizes = {}
  for path in glob.glob(os.path.join(DUMPS, '*ragged*')):
    with open(path, encoding='utf-8') as dump:
      for line in dump:
        for name, size in ALLOCATION.findall(line):
          sizes[name] = int(size, 16)
  spills = sum(1 for name in sizes if name.endswith('_spill'))
  declared = sum(size for name, size in sizes.items()
                 if not name.endswith('_spill'))
  return declared, spills


def main():
  shapes = [(heads, types, tokens, bq) for heads in HEADS for types in TYPES
            for tokens in (16, 64, 128, 256, 512, 1024, 2048)
            for bq in (8, 16, 32, 64, 128, 256)
            if heads[0] * tokens * bq <= 1 << 20]
  random.Random(SEED).shuffle(shapes)
  libtpu = importlib.metadata.version('libtpu')
  with open(OUT, 'a', newline='', encoding='utf-8') as out:
    writer = csv.writer(out, lineterminator='\n')
    for heads, types, tokens, bq in shapes[:CASES]:
      for chip in CHIPS:
        for path in glob.glob(os.path.join(DUMPS, '*')):
          if os.path.isfile(path):
            os.remove(path)
        try:
          compile_kernel(chip, heads, types, tokens, bq)
        except Exception as error:  # a refusal is an answer, too
          print(chip, heads, types, tokens, bq, str(error)[:200],
                file=sys.stderr)
          continue
        writer.writerow([chip, libtpu, *heads, *types, MAX_TOKENS, tokens, bq,
                         *read_dump()])
        out.flush()


main()
