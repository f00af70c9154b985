#include "reference/schemes/layout.hpp"

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

/// Every rank's rows, from token_at(rank, row); tokens past t are padding.
template <class F>
Layout make_layout(int64_t t, int ranks, int64_t rows, F token_at) {
  Layout layout;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& tokens = layout.tokens.emplace_back(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t token = token_at(rank, row);
      tokens[static_cast<size_t>(row)] = token < t ? token : -1;
    }
  }
  return layout;
}

int64_t divide_up(int64_t t, int64_t parts) {
  MEGATOKEN_CHECK(t >= 0 && parts > 0, "a layout of {} tokens in {} parts: neither can be negative, and there is at least one part", t, parts);
  return (t + parts - 1) / parts;
}

}  // namespace

Layout contiguous_layout(int64_t t, int ranks) {
  const int64_t n = divide_up(t, ranks);
  return make_layout(t, ranks, n, [n](int64_t rank, int64_t row) { return rank * n + row; });
}

Layout zigzag_layout(int64_t t, int ranks) {
  const int64_t chunks = 2 * int64_t{ranks}, a = divide_up(t, chunks);
  return make_layout(t, ranks, 2 * a, [=](int64_t rank, int64_t row) { return row < a ? rank * a + row : (chunks - 1 - rank) * a + row - a; });
}

Layout striped_layout(int64_t t, int ranks) {
  return make_layout(t, ranks, divide_up(t, ranks), [ranks](int64_t rank, int64_t row) { return row * ranks + rank; });
}

}  // namespace megatoken
