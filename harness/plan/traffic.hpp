// Bytes that one rank sends in a training step, by purpose, layer type, direction and link, from the formulas of reference/schemes/traffic.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/request.hpp"

namespace megatoken::plan {

enum class Link { Domain, Network, Host };  // NVLink domain, between domains, host memory
const char* name_of(Link link);

struct TrafficTerm {
  std::string purpose;     // "tensor parallel", "context parallel", "experts", "gradients", "weights", "stages", "offload"
  std::string layer;       // "kda", "sparse_attention", "experts", … or "step"
  Link link = Link::Domain;
  double rate = 0;         // B/s of that link
  int64_t layers = 1;      // how many such layers there are
  int64_t forward = 0, recompute = 0, backward = 0;  // bytes of one rank, one micro-batch, one layer
  bool overlaps = false;   // can run beside the layer's arithmetic
  int64_t per_layer() const { return forward + recompute + backward; }
  int64_t total() const { return layers * per_layer(); }
};

std::vector<TrafficTerm> plan_traffic(const Request& request);

/// Bytes of attention's k and v exchange in one layer over cp ranks, by the request's scheme.
struct SchemeBytes {
  int64_t forward = 0, backward = 0;
};
SchemeBytes attention_scheme_bytes(const Request& request);

/// Inbound bytes per rank of a recurrent layer's exchange over cp: of the hidden rows, or of everything projected from them.
int64_t delta_exchange_bytes(const Request& request, DeltaExchange exchange);

}  // namespace megatoken::plan
