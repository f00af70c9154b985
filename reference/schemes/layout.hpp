// Layouts: which global token lies where. Pure index mathematics, no data.
#pragma once
#include <cstdint>
#include <vector>

namespace megatoken {

/// tokens[r][i] = global token at local row i of rank r; −1 is padding. Every rank holds equally many rows.
struct Layout {
  std::vector<std::vector<int64_t>> tokens;
  int ranks() const { return static_cast<int>(tokens.size()); }
  int64_t local_rows() const { return tokens.empty() ? 0 : static_cast<int64_t>(tokens[0].size()); }
};

/// Rank r holds [r·n, (r+1)·n), n = ⌈t/ranks⌉; rows past t are padding.
Layout contiguous_layout(int64_t t, int ranks);
/// 2·ranks chunks of a = ⌈t/(2·ranks)⌉; rank r holds chunk r and chunk 2·ranks−1−r: every rank sees equally many causal pairs.
Layout zigzag_layout(int64_t t, int ranks);
/// Token i on rank i mod ranks.
Layout striped_layout(int64_t t, int ranks);

}  // namespace megatoken
