// hyper_connection: what happens to the streams of one token, in vectors of channels. A vector of every stream is loaded once and stays in
// registers for everything that reads it. Rows of streams are padded with zeros to whole vectors.
#pragma once
#include <utility>

#include "optimized/cpu/vector.hpp"
#include "reference/components/hyper_connection/hyper_connection.hpp"

namespace megatoken::hyper_connection {

/// The mapping of one token, or a gradient of it.
template <class Acc>
struct TokenMapping {
  Acc pre[kMaxStreams], post[kMaxStreams], comb[kMaxStreams][kMaxStreams];  // comb: source, destination
};

/// Calls body with the number of streams as a constant.
template <class Body>
void with_streams(int64_t n, const Body& body) {
  switch (n) {
    case 1: return body(std::integral_constant<int, 1>());
    case 2: return body(std::integral_constant<int, 2>());
    case 3: return body(std::integral_constant<int, 3>());
    default: return body(std::integral_constant<int, 4>());
  }
}

/// y = Σ pre_i X_i;  X'_j = post_j u + Σ_i comb_ij X_i;  mean = mean_j X'_j unless null. X: streams × row.
template <int kStreams, class Acc>
void mix(const TokenMapping<Acc>& map, const Acc* x, int64_t row, const Acc* u, Acc* y, Acc* const* x_out, Acc* mean) {
  using V = cpu::Vector<Acc>;
  for (int64_t c = 0; c < row; c += cpu::kLanes<Acc>) {
    V in[kStreams], sum{}, total{};
    const V own = cpu::load(u + c);
#pragma GCC unroll 4
    for (int i = 0; i < kStreams; ++i) {
      in[i] = cpu::load(x + i * row + c);
      sum += map.pre[i] * in[i];
    }
    cpu::store<Acc>(y + c, sum);
#pragma GCC unroll 4
    for (int j = 0; j < kStreams; ++j) {
      V out = map.post[j] * own;
#pragma GCC unroll 4
      for (int i = 0; i < kStreams; ++i) out += map.comb[i][j] * in[i];
      cpu::store<Acc>(x_out[j] + c, out);
      total += out;
    }
    if (mean) cpu::store<Acc>(mean + c, total / Acc{kStreams});
  }
}

/// What reaches the mapping: dpre_i = dy · X_i;  dpost_j = dX'_j · u;  dcomb_ij = X_i · dX'_j.
template <int kStreams, class Acc>
TokenMapping<Acc> reverse_map(const Acc* x, int64_t row, const Acc* u, const Acc* d_y, const Acc* const* d_x_out) {
  using V = cpu::Vector<Acc>;
  V pre[kStreams] = {}, post[kStreams] = {}, comb[kStreams][kStreams] = {};
  for (int64_t c = 0; c < row; c += cpu::kLanes<Acc>) {
    V upstream[kStreams];
#pragma GCC unroll 4
    for (int j = 0; j < kStreams; ++j) {
      upstream[j] = cpu::load(d_x_out[j] + c);
      post[j] += upstream[j] * cpu::load(u + c);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kStreams; ++i) {
      const V in = cpu::load(x + i * row + c);
      pre[i] += in * cpu::load(d_y + c);
#pragma GCC unroll 4
      for (int j = 0; j < kStreams; ++j) comb[i][j] += in * upstream[j];
    }
  }
  TokenMapping<Acc> sums{};
  for (int i = 0; i < kStreams; ++i) {
    sums.pre[i] = cpu::sum_of_lanes<Acc>(pre[i]), sums.post[i] = cpu::sum_of_lanes<Acc>(post[i]);
    for (int j = 0; j < kStreams; ++j) sums.comb[i][j] = cpu::sum_of_lanes<Acc>(comb[i][j]);
  }
  return sums;
}

/// du = Σ_j post_j dX'_j;  dX_i = pre_i dy + Σ_j comb_ij dX'_j, the part that does not go through the mapping.
template <int kStreams, class Acc>
void reverse_mix(const TokenMapping<Acc>& map, int64_t row, const Acc* d_y, const Acc* const* d_x_out, Acc* du, Acc* dx) {
  using V = cpu::Vector<Acc>;
  for (int64_t c = 0; c < row; c += cpu::kLanes<Acc>) {
    V upstream[kStreams], sum{};
#pragma GCC unroll 4
    for (int j = 0; j < kStreams; ++j) {
      upstream[j] = cpu::load(d_x_out[j] + c);
      sum += map.post[j] * upstream[j];
    }
    cpu::store<Acc>(du + c, sum);
#pragma GCC unroll 4
    for (int i = 0; i < kStreams; ++i) {
      V out = map.pre[i] * cpu::load(d_y + c);
#pragma GCC unroll 4
      for (int j = 0; j < kStreams; ++j) out += map.comb[i][j] * upstream[j];
      cpu::store<Acc>(dx + i * row + c, out);
    }
  }
}

}  // namespace megatoken::hyper_connection
