#include "reference/components/kda/inputs.hpp"

#include <algorithm>
#include <cmath>

#include "reference/components/kda/kda.hpp"
#include "reference/core/documents.hpp"
#include "reference/core/random.hpp"
#include "reference/core/threads.hpp"

namespace megatoken::kda {
namespace {

double logit(double p) { return std::log(p) - std::log1p(-p); }

struct Filler {
  const Tensors& x;
  const Shape& shape;
  const std::string& distribution;
  uint64_t seed;

  /// The raw gate that gives log-decay g with these parameters; g beyond the reach of a bounded gate becomes a saturated one.
  double raw_gate(double g, int64_t head, int64_t c) const {
    if (shape.gate == Gate::Given) return g;
    const double rate = std::exp(value_at(x.a_log, head)), bias = value_at(x.dt_bias, head * shape.d + c);
    if (shape.gate == Gate::Bounded) return std::clamp(logit(std::clamp(g / shape.lower_bound, 1e-17, 1 - 1e-16)), -40.0, 40.0) / rate - bias;
    const double target = std::max(-g / rate, 1e-17);  // softplus⁻¹(y) = ln(e^y − 1)
    return (target > 30 ? target : std::log(std::expm1(target))) - bias;
  }
  double raw_beta(double beta) const { return shape.beta == Beta::Given ? beta : std::clamp(logit(std::clamp(beta, 1e-17, 1 - 1e-16)), -30.0, 30.0); }

  /// Rows where aimed inputs write the shared key: one per tile, rotating over the offsets that code gets wrong, and edges of
  /// eighths of the sequence and of documents.
  bool aimed_row(int64_t b, int64_t i) const {
    constexpr int64_t kOffsets[] = {63, 0, 62, 1, 15, 16, 48, 47};
    const int64_t eighth = std::max<int64_t>(1, shape.t / 8);
    const auto* document = x.document.as<int32_t>() + b * shape.t;
    return i % 64 == kOffsets[i / 64 % 8] || i == 3 || i % eighth == 0 || i % eighth == eighth - 1 || i + 1 == shape.t || document[i] != document[i + 1];
  }
  double anchor(int64_t h, int64_t c) const { return RandomStream(seed, "kda.anchor").normal(h * shape.d + c); }

  /// Log-decay of one row, head and channel; z is a standard normal.
  double log_decay(int64_t i, int64_t head, int64_t c, double z) const {
    if (distribution == "aimed") return -std::exp(c % 4 == 3 ? z - 2 : 0.7 * z - 7);
    if (distribution != "extreme") return -std::exp(1.2 * z - 2);
    switch ((i / 3 + head) % 8) {
      case 0: return -1000;
      case 1: return 0;
      case 2: return c % 2 == 0 ? -1000 : -1e-12;
      case 3: return -4.9999;
      default: return -std::exp(z - 5);
    }
  }
  double beta(int64_t b, int64_t i, double z) const {
    if (distribution == "aimed") return aimed_row(b, i) ? 0.98 : 1 / (1 + std::exp(1.1 - 0.3 * z));
    if (distribution != "extreme") return 1 / (1 + std::exp(-z));
    return i % 5 == 0 ? 1 : i % 5 == 1 ? 0 : i % 5 == 2 ? 1 - 1e-6 : 1 / (1 + std::exp(-z));
  }

  void fill_key(int64_t b, int64_t i, int64_t h) const {
    const int64_t at = ((b * shape.t + i) * shape.h + h) * shape.d;
    const double unit = shape.l2norm ? 1 : 0.7 / std::sqrt(static_cast<double>(shape.d));  // |k| ≤ 1 keeps I − βkkᵀ from growing
    for (int64_t c = 0; c < shape.d; ++c) {
      double k = value_at(x.k, at + c), q = value_at(x.q, at + c);
      if (distribution == "aimed") {
        k = aimed_row(b, i) ? anchor(h, c) + 0.02 * k : k;
        q = anchor(h, c) + 0.3 * q;
      } else if (distribution == "extreme") {
        const double amplitude = !shape.l2norm ? 1 : i % 7 == 0 ? 1e-4 : i % 7 == 1 ? 1e3 : 1;
        switch (i / 32 % 4) {
          case 0: k = anchor(h, c); break;
          case 1: k = (i % 2 == 0 ? 1 : -1) * anchor(h, c); break;
          case 2: k = c == i % shape.d ? 1 : 0; break;
          default: break;
        }
        k *= amplitude;
        q *= amplitude;
      }
      set_value(x.k, at + c, unit * k);
      set_value(x.q, at + c, unit * q);
    }
  }

  void fill_token(int64_t b, int64_t i) const {
    const int64_t row = b * shape.t + i, heads = shape.h * shape.group;
    for (int64_t h = 0; h < shape.h; ++h) fill_key(b, i, h);
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t at = row * heads + head;
      set_value(x.beta, at, raw_beta(beta(b, i, value_at(x.beta, at))));
      for (int64_t c = 0; c < shape.d; ++c)
        set_value(x.g, at * shape.d + c, raw_gate(log_decay(i, head, c, value_at(x.g, at * shape.d + c)), head, c));
    }
  }
};

void scale(const TensorView& view, double factor) {
  for (int64_t i = 0, n = view.size(); i < n; ++i) set_value(view, i, factor * value_at(view, i));
}

}  // namespace

void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape shape(request.axes);
  fill_documents(x.document, shape.docs, request.seed);
  if (shape.carry) scale(x.initial_state, 1 / std::sqrt(static_cast<double>(shape.d)));
  if (shape.gate != Gate::Given) scale(x.a_log, 0.5);
  const Filler filler{x, shape, request.distribution, request.seed};
  parallel_for(shape.b * shape.t, hardware_threads(), [&](int64_t row) { filler.fill_token(row / shape.t, row % shape.t); });
}

}  // namespace megatoken::kda
