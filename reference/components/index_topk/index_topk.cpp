#include "reference/components/index_topk/index_topk.hpp"

#include <algorithm>
#include <cmath>

#include "reference/core/documents.hpp"
#include "reference/core/random.hpp"
#include "reference/core/row_inputs.hpp"

namespace megatoken::index_topk {

Shape::Shape(const Axes& a)
    : b(a["b"]), t(a["t"]), s(a["s"]), h(a["h"]), d(a["d"]), pool(a["pool"]), topk(a["topk"]),
      scale(a.real("scale") > 0 ? a.real("scale") : 1 / std::sqrt(static_cast<double>(d))) {}

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"q", Role::Input, "b t h d"}, &T::q},
          {{"w", Role::Input, "b t h", Kind::Accum}, &T::w},
          {{"k", Role::Input, "b s/pool d"}, &T::k},
          {{"position", Role::Input, "t", Kind::Index}, &T::position},
          {{"document", Role::Input, "b s", Kind::Index}, &T::document},
          {{"id", Role::Output, "b t topk*pool+pool-1", Kind::Index}, &T::id},
          {{"score", Role::Output, "b t topk", Kind::Accum}, &T::score}};
}

void check_positions(const Shape& s, const Tensors& x) {
  const auto position = x.position.elements<const int32_t, 1>();
  for (int64_t i = 0; i < s.t; ++i)
    MEGATOKEN_CHECK(position(i) >= 0 && position(i) < s.s, "index_topk: position of query {} is {}, expected a key token in [0, {})", i, position(i), s.s);
}

namespace {

/// Eighths up to 15/8: four bits a factor, so that sums over 128 channels and 32 heads are exact in fp32 and the choice is the
/// same in every precision and order of addition.
void quantise(const TensorView& view) {
  for (int64_t i = 0, n = view.size(); i < n; ++i) set_value(view, i, std::clamp(std::round(value_at(view, i) * 8), -15.0, 15.0) / 8);
}

/// aimed: every seventh pool is the twin of its neighbour and every fifth query is 0: ties, where the lower id must win, and
/// plateaus of exact zeros. extreme: weights that are all negative (the best score is an exact 0), scores beyond 65504, identical pools.
/// tokens: pools of equal tokens are equal, so that ties are as frequent as words repeat.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  for (int64_t i = 0; i < s.t; ++i) x.position.as<int32_t>()[i] = static_cast<int32_t>(s.s - s.t + i);
  fill_documents(x.document, request.axes["docs"], request.seed);
  const int64_t row = s.h * s.d;
  if (request.distribution == "tokens" && x.k.size() > 0) {
    const auto tokens = request.tokens(s.b * s.rows());
    const RandomStream stream(request.seed, "index_topk pools of tokens");
    for (int64_t i = 0; i < x.k.size(); ++i) set_value(x.k, i, stream.normal(tokens[static_cast<size_t>(i / s.d)] * s.d + i % s.d));
  }
  quantise(x.q), quantise(x.w), quantise(x.k);
  if (request.distribution == "aimed") {
    for (int64_t p = 6; p < s.b * s.rows(); p += 7)
      for (int64_t c = 0; c < s.d; ++c) set_value(x.k, p * s.d + c, value_at(x.k, (p - 1) * s.d + c));
    for (int64_t i = 4; i < s.b * s.t; i += 5) scale_row(x.q, i, row, 0);
  }
  if (request.distribution == "extreme") {
    for (int64_t i = 0; i < x.w.size(); ++i)
      if (i / s.h % 3 == 0) set_value(x.w, i, -std::abs(value_at(x.w, i)));
    for (int64_t i = 1; i < s.b * s.t; i += 3) scale_row(x.q, i, row, 4096), scale_row(x.w, i, s.h, 256);
    for (int64_t p = 0; p < s.b * s.rows(); ++p)
      if (p / 16 % 2 == 1)
        for (int64_t c = 0; c < s.d; ++c) set_value(x.k, p * s.d + c, value_at(x.k, p / 16 * 16 * s.d + c));
  }
}

void validate(const Axes& axes) {
  const int64_t t = axes["t"], s = axes["s"];
  MEGATOKEN_CHECK(t <= s, "index_topk: t={} queries among s={} key tokens; queries are the last t key tokens, so t is at most s", t, s);
}

/// Pairs of a query and a candidate pool, one document: 2d + 2 operations a head.
Cost cost(const Axes& axes, DType dtype, Phase phase) {
  if (phase == Phase::Backward) return {};
  const Shape s(axes);
  const auto t = static_cast<double>(s.t), first = static_cast<double>(s.s - s.t), b = static_cast<double>(s.b), h = static_cast<double>(s.h), d = static_cast<double>(s.d);
  const double pairs = b * (t * first + t * (t + 1) / 2) / static_cast<double>(s.pool), size = static_cast<double>(size_of(dtype)), wide = static_cast<double>(size_of(accumulator_of(dtype)));
  return {pairs * h * (2 * d + 2), b * (size * (t * h * d + static_cast<double>(s.rows()) * d) + wide * t * (h + static_cast<double>(s.topk)) + 4 * t * static_cast<double>(s.width()))};
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "index scores and the exact top-k of pools, with the query's tail";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "queries", .fallback = 1024, .max = 2147483647},
            {.name = "s", .about = "key tokens", .same_as = "t", .max = 2147483647},
            {.name = "h", .about = "index heads", .fallback = 4, .min = 1},
            {.name = "d", .about = "index key width", .fallback = 64, .min = 1},
            {.name = "topk", .about = "pools chosen", .fallback = 64, .min = 1, .max = 1 << 20},
            {.name = "pool", .about = "tokens in a pool; 1 chooses tokens", .fallback = 4, .min = 1, .max = 64, .option = true},
            {.name = "docs", .about = "packed documents", .fallback = 1, .min = 1, .option = true},
            {.name = "scale", .about = "factor on scores; 0 means 1/sqrt(d)", .fallback = 0, .max = 1e6, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.validate = validate;
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"id", "score"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t", "s"};
  c.examples = {"t=1 h=1 d=1 topk=1", "b=2 t=9 h=2 d=3 topk=1", "t=0 h=1 d=2 topk=2", "b=2 t=23 h=2 d=4 topk=2 docs=3", "t=5 s=30 h=3 d=2 topk=3", "t=12 h=2 d=2 topk=4 pool=1",
                "t=6 h=1 d=2 topk=2 docs=9", "t=17 h=1 d=2 topk=20 pool=3"};
  c.judging = "b=2 t=211 h=4 d=16 topk=7 docs=3";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::index_topk
