#!/usr/bin/env python3
"""Fits the weights of attention/vmem_rule.cc to dumps of the compiler.

usage: fit.py DUMPS.csv     (tests/data/tpu_vmem.csv; needs numpy and scipy)

Prints, for the narrow matrix unit (v5e, v5p) and the wide one (v6e, v7x), the
least weights for which no dump spills more than the law says, raised by 2 %,
and how close the predicted needs are; then the same for each shape of heads
with a law that was fitted without it. Then the same from below: the largest
weights for which no dump spills less, halved.

The upper weights in the source also bound the edges and refusals of a table of
compiler verdicts, so they are somewhat larger than what this prints.
"""

import csv
import sys

import numpy as np
from scipy.optimize import linprog

SLOT_BYTES = 4096
FREE_REGISTERS = 10
LEAST_FREE_REGISTERS = 40
FEW_ROWS = 128
MARGIN = 1.02
LEAST_MARGIN = 0.5
BYTES = {'f32': 4, 'bf16': 2, 'fp8': 1, 'i8': 1}
UNITS = {'narrow': ('v5e', 'v5p'), 'wide': ('v6e', 'v7x')}
NAMES = ('score_tile', 'row_state', 'more_rows', 'kv_of_heads', 'kv_of_a_head')


def ceil_div(a, b):
  return -(-a // b)


def live(row):
  """Registers of each kind that the inner step keeps alive, by NAMES."""
  q_heads, kv_heads = int(row['q_heads']), int(row['kv_heads'])
  tokens, bq = int(row['tokens_per_block']), int(row['bq'])
  group = q_heads // kv_heads
  full_tile = 4 * 4 // BYTES[row['kv_dtype']]
  heads = full_tile if kv_heads % full_tile == 0 else kv_heads
  rows = heads * ceil_div(bq * group, 8)
  few = min(rows, FEW_ROWS)
  kv = ceil_div(tokens * max(BYTES[row['kv_dtype']], 2), 32)
  return [rows * ceil_div(tokens, 128), few, rows - few, heads * kv, kv]


def arrays(rows):
  kinds = np.array([live(row) for row in rows], float)
  spills = np.array([float(row['spill_slots']) for row in rows])
  declared = np.array([float(row['declared_bytes']) for row in rows])
  return kinds, spills, declared / SLOT_BYTES


def fit(rows):
  kinds, spills, declared = arrays(rows)
  need = spills + declared
  count, width = kinds.shape
  # Minimise sum(t / need), t >= max(0, law), law >= spills where there are.
  cost = np.concatenate([np.zeros(width), 1 / need])
  some = spills > 0
  upper = np.vstack([
      np.hstack([kinds / need[:, None], -np.diag(1 / need)]),
      np.hstack([-kinds[some] / need[some, None],
                 np.zeros((some.sum(), count))]),
      # Rows beyond the first must not weigh more than those.
      np.concatenate([[0, -1, 1, 0, 0], np.zeros(count)])[None]])
  bound = np.concatenate([FREE_REGISTERS / need,
                          -(spills + FREE_REGISTERS)[some] / need[some], [0]])
  return MARGIN * linprog(cost, A_ub=upper, b_ub=bound).x[:width]


def fit_least(rows):
  kinds, spills, declared = arrays(rows)
  need = spills + declared
  shares = kinds / need[:, None]
  # Maximise sum(law / need) where there are spills, law <= spills everywhere.
  some = spills > LEAST_FREE_REGISTERS
  bound = (spills + LEAST_FREE_REGISTERS) / need
  return LEAST_MARGIN * linprog(-shares[some].sum(0), A_ub=shares, b_ub=bound).x


def ratios(rows, weights, free_registers=FREE_REGISTERS):
  kinds, spills, declared = arrays(rows)
  law = np.ceil(np.maximum(kinds @ weights - free_registers, 0))
  return (law + declared) / (spills + declared)


def report(rows, fit_law, free_registers, wrong):
  """How close a law is, and for which heads that it was not fitted to not."""
  weights = fit_law(rows)
  close = ratios(rows, weights, free_registers)
  print(' ', ', '.join(f'{name} {w:.2f}' for name, w in zip(NAMES, weights)))
  print(f'  need / need: min {close.min():.3f} median {np.median(close):.3f} '
        f'max {close.max():.3f}')
  missed = []
  for heads in sorted({(row['q_heads'], row['kv_heads']) for row in rows}):
    mine = [r for r in rows if (r['q_heads'], r['kv_heads']) == heads]
    rest = [r for r in rows if (r['q_heads'], r['kv_heads']) != heads]
    left_out = ratios(mine, fit_law(rest), free_registers)
    missed += [(ratio, heads) for ratio in left_out if wrong(ratio)]
  print(f'  without one shape of heads: {len(missed)} beyond the law',
        [(round(float(ratio), 3), heads) for ratio, heads in sorted(missed)])


def main():
  with open(sys.argv[1], newline='', encoding='utf-8') as dumps:
    table = list(csv.DictReader(dumps))
  for unit, chips in UNITS.items():
    rows = [row for row in table if row['chip'] in chips]
    print(f'{unit}, at most, {len(rows)} dumps:')
    report(rows, fit, FREE_REGISTERS, lambda ratio: ratio < 1)
    print(f'{unit}, at least, {len(rows)} dumps:')
    report(rows, fit_least, LEAST_FREE_REGISTERS, lambda ratio: ratio > 1)


main()
