"""The exported program: writes this step's K and V, then attends.

The attention function is a parameter, so that a test can run everything around
the kernel on a CPU, where the kernel itself does not run.
"""

import jax.numpy as jnp

from tpu_export.kernel_config import POOL_HEAD_DIM


def to_pool_type(values, scale, dtype):
  """As attention_backend.h says: bits of the pool's own type are kept; others
  are divided by their scale, clamped if the pool has 8 bits, and rounded."""
  if values.dtype == dtype:
    return values
  values = values.astype(jnp.float32)
  if scale is not None:
    # XLA multiplies with the reciprocal instead, and a barrier does not keep it
    # from that: the last bit of the quotient may differ from a division's.
    values /= jnp.float32(scale)
  if dtype == jnp.int8:
    values = jnp.round(jnp.clip(values, -128, 127))
    return jnp.where(jnp.isnan(values), 0, values).astype(dtype)
  if jnp.dtype(dtype).itemsize == 1:
    largest = float(jnp.finfo(dtype).max)
    values = jnp.clip(values, -largest, largest)
  return values.astype(dtype)


def token_slots(num_tokens, page_size, total_num_pages, kv_lens, page_indices,
                cu_q_lens, num_seqs):
  """(page, slot) of each token; a page out of range for those that belong to
  no sequence, each another, so that no two tokens share one."""
  max_num_seqs, pages_per_seq = page_indices.shape
  token = jnp.arange(num_tokens, dtype=jnp.int32)
  # Entries behind num_seqs may hold anything.
  in_use = jnp.arange(max_num_seqs, dtype=jnp.int32) < num_seqs[0]
  ends = jnp.where(in_use, cu_q_lens[1:], jnp.iinfo(jnp.int32).max)
  row = jnp.sum(ends[None, :] <= token[:, None], axis=1, dtype=jnp.int32)
  has_row = row < max_num_seqs
  row = jnp.minimum(row, max_num_seqs - 1)
  has_row &= in_use[row]
  # The row's last token has position kv_len - 1.
  position = kv_lens[row] - (cu_q_lens[row + 1] - token)
  column = position // page_size
  has_row &= (position >= 0) & (column < pages_per_seq)
  page = page_indices[row, jnp.clip(column, 0, pages_per_seq - 1)]
  has_row &= (page >= 0) & (page < total_num_pages)
  page = jnp.where(has_row, page, total_num_pages + token)
  return page, position % page_size


def pad_head_dim(values):
  """[.., head_dim] with zeros up to the pool's width."""
  missing = POOL_HEAD_DIM - values.shape[-1]
  return jnp.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])


def build(attend, *, k_scale=None, v_scale=None):
  """A function of (q, k, v, kv_pages, kv_lens, page_indices, cu_q_lens,
  num_seqs) that returns (out, kv_pages).

  `attend` takes (q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs) and
  returns an array of q's shape, whose padding rows may hold anything; those of
  `out` are zero. Tokens that belong to no sequence write nothing.
  """

  def ragged_paged_attention_with_kv_write(q, k, v, kv_pages, kv_lens,
                                           page_indices, cu_q_lens, num_seqs):
    num_tokens, _, head_dim = q.shape
    total_num_pages, page_size, num_combined_heads, _ = kv_pages.shape
    # Heads are interleaved: K of head h is combined head 2h, V is 2h + 1.
    new = jnp.stack([to_pool_type(k, k_scale, kv_pages.dtype),
                     to_pool_type(v, v_scale, kv_pages.dtype)], axis=2)
    new = pad_head_dim(new.reshape(num_tokens, num_combined_heads, head_dim))
    page, slot = token_slots(num_tokens, page_size, total_num_pages, kv_lens,
                             page_indices, cu_q_lens, num_seqs)
    # The strict checks of a batch forbid two rows that write one slot.
    kv_pages = kv_pages.at[page, slot].set(new, mode="drop",
                                           unique_indices=True)
    out = attend(pad_head_dim(q), kv_pages, kv_lens, page_indices, cu_q_lens,
                 num_seqs)[..., :head_dim]
    is_query = jnp.arange(num_tokens) < cu_q_lens[num_seqs[0]]
    return jnp.where(is_query[:, None, None], out, 0), kv_pages

  return ragged_paged_attention_with_kv_write
