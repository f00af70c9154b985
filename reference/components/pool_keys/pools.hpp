// The grid of pools: `pool` consecutive tokens of one document, counted from the document's first token; only complete pools exist.
// Tensors of pools have tokens/pool rows, and the pool whose first token is f lies in row f/pool. No two pools meet in a row: the next
// pool starts at least `pool` tokens later. Rows without a pool exist where a document ends inside a group of `pool` tokens.
// Shared by everything that reads or writes pooled keys, on host and device.
#pragma once
#include "reference/core/tensor.hpp"

namespace megatoken::pool_keys {

/// First token of the document that token i lies in, by bisection: the tokens of a document are consecutive.
MEGATOKEN_HD inline int64_t document_start(const Elements<const int32_t, 2>& document, int64_t b, int64_t i) {
  int64_t before = -1, inside = i;  // before: of another document (or none)
  while (inside - before > 1) {
    const int64_t middle = before + (inside - before) / 2;
    if (document(b, middle) == document(b, i)) inside = middle;
    else before = middle;
  }
  return inside;
}

/// First token of the pool that token i lies in; −1 when that pool is incomplete or i is padding.
MEGATOKEN_HD inline int64_t pool_of_token(const Elements<const int32_t, 2>& document, int64_t b, int64_t i, int64_t tokens, int64_t pool) {
  if (document(b, i) < 0) return -1;
  const int64_t first = i - (i - document_start(document, b, i)) % pool, last = first + pool - 1;
  return last < tokens && document(b, last) == document(b, i) ? first : -1;
}

/// First token of the pool in row r; −1 when the row holds none.
MEGATOKEN_HD inline int64_t pool_of_row(const Elements<const int32_t, 2>& document, int64_t b, int64_t r, int64_t tokens, int64_t pool) {
  for (int64_t i = r * pool; i < (r + 1) * pool; ++i)
    if (pool_of_token(document, b, i, tokens, pool) == i) return i;
  return -1;
}

}  // namespace megatoken::pool_keys
