#!/usr/bin/env python3
"""What JAX in Python takes for what pjrt_step_bench does in C++.

usage: jax_step_bench.py FOLDER

pjrt_step_bench runs it at its end and writes FOLDER: for each program its
StableHLO text, and a JSON file with its arguments. Needs jax 0.10.2 on a CPU.
Each figure is that of the fastest of several rounds.

A step sends the batch's arrays with device_put, launches the same compiled
program with the KV pages donated, and reads the output.
"""

import json
import pathlib
import sys
import time

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np
from jax._src import compiler
from jax._src.lib import xla_client

ROUNDS = 7
STEPS_A_ROUND = 300
# The batch, which the host sends in each step.
SENT = ('kv_lens', 'page_indices', 'cu_q_lens', 'num_seqs')


def fastest_us(step):
  step()
  rounds = []
  for _ in range(ROUNDS):
    begin = time.perf_counter()
    for _ in range(STEPS_A_ROUND):
      step()
    rounds.append((time.perf_counter() - begin) / STEPS_A_ROUND * 1e6)
  return min(rounds)


def compile_text(text):
  """The program as JAX compiles any other, without tracing."""
  backend = jax.extend.backend.get_backend('cpu')
  devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))
  options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
  return backend.compile_and_load(text, devices, options)


def launch(executable, arguments):
  results = executable.execute_sharded(arguments)
  return [shards[0]
          for shards in results.disassemble_into_single_device_arrays()]


def bench_trivial():
  a = jax.device_put(np.ones(4, np.float32))
  b = jax.device_put(np.ones(4, np.float32))
  add = jax.jit(lambda x, y: x + y)
  print(f'JAX trivial launch (jit): {fastest_us(lambda: add(a, b)):.2f} us, '
        'awaited: '
        f'{fastest_us(lambda: add(a, b).block_until_ready()):.2f} us')


def array_of(argument):
  dtype = {'bf16': jnp.bfloat16, 'f32': np.float32,
           'i32': np.int32}[argument['dtype']]
  values = argument.get('values')
  if values is not None:
    return np.array(values, dtype).reshape(argument['shape'])
  return np.zeros(argument['shape'], dtype)


def bench_step(path):
  description = json.loads(path.read_text(encoding='utf-8'))
  executable = compile_text(path.with_suffix('.mlir').read_text('utf-8'))
  names = [argument['name'] for argument in description['arguments']]
  host = [array_of(argument) for argument in description['arguments']]
  device = [jax.device_put(array) for array in host]
  pool = names.index('kv_pages')

  def step():
    for i, name in enumerate(names):
      if name in SENT:
        device[i] = jax.device_put(host[i])
    out, device[pool] = launch(executable, device)
    return np.asarray(out)

  print(f"JAX step {description['name']}, whole table: "
        f'{fastest_us(step):.1f} us')


def main():
  if len(sys.argv) != 2:
    sys.exit(__doc__)
  bench_trivial()
  for path in sorted(pathlib.Path(sys.argv[1]).glob('*.json')):
    bench_step(path)


if __name__ == '__main__':
  main()
