"""Prints the rows of attention/tuned_block_sizes.cc from an installed JAX.

  pip install jax==0.10.2
  python print_tuned_blocks.py

JAX rounds a lookup's heads, page size, tokens and length up to powers of two,
so a table entry whose own key is not made of powers of two is never found.
Those are left out. What remains is a grid per device and pair of heads: page
sizes, then max_num_batched_tokens, then pages_per_seq. Each cell is one
letter: 'a' + 4 * log2(pages / 4) + log2(queries / 32), or '.' for no entry.
"""

import itertools
import os

os.environ["JAX_PLATFORMS"] = "cpu"

from jax.experimental.pallas.ops.tpu.ragged_paged_attention import (  # noqa: E402
    tuned_block_sizes)

PAGE_SIZES = (16, 32, 64, 128, 256)
TOKENS = (512, 1024, 2048, 4096)
PAGES_PER_SEQ = (4, 8, 16)


def is_power_of_two(x: int) -> bool:
  return x & (x - 1) == 0


def letter(choice: tuple[int, int]) -> str:
  pages = (4, 8, 16).index(choice[0])
  queries = (32, 64, 128, 256).index(choice[1])
  return chr(ord("a") + 4 * pages + queries)


def main() -> None:
  for device, table in sorted(tuned_block_sizes.TUNED_BLOCK_SIZES.items()):
    found = {key: value for key, value in table.items()
             if all(map(is_power_of_two, key[2:4] + key[5:]))}
    seen = 0
    print(f"// {device}: {len(table)} entries, {len(found)} can be found.")
    for heads in sorted({key[2:4] for key in found}):
      for page_size in PAGE_SIZES:
        cells = ""
        for tokens, pages in itertools.product(TOKENS, PAGES_PER_SEQ):
          key = ("bfloat16", "bfloat16", *heads, 128, page_size, tokens,
                 page_size * pages)
          cells += letter(found[key]) if key in found else "."
          seen += key in found
        if cells.strip("."):
          print(f'{{"{device}", {heads[0]}, {heads[1]}, {page_size}, '
                f'"{cells}"}},')
    assert seen == len(found), "an entry lies outside the grid"


if __name__ == "__main__":
  main()
