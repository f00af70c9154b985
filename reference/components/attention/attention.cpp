#include "reference/components/attention/attention.hpp"

#include <cmath>

#include "reference/core/documents.hpp"
#include "reference/core/random.hpp"

namespace megatoken::attention {

Shape::Shape(const Axes& axes)
    : b(axes["b"]), t(axes["t"]), s(axes["s"]), h(axes["h"]), hk(axes["hk"]), d(axes["d"]), dv(axes["dv"]), docs(axes["docs"]), padding(axes["padding"]), causal(axes["causal"] != 0),
      scale(axes.real("scale") != 0 ? axes.real("scale") : 1 / std::sqrt(static_cast<double>(d))) {}

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"q", Role::Input, "b t h d"}, &T::q},
          {{"k", Role::Input, "b s hk d"}, &T::k},
          {{"v", Role::Input, "b s hk dv"}, &T::v},
          {{"q_position", Role::Input, "t", Kind::Index}, &T::q_position},
          {{"k_position", Role::Input, "s", Kind::Index}, &T::k_position},
          {{"q_document", Role::Input, "b t", Kind::Index}, &T::q_document},
          {{"k_document", Role::Input, "b s", Kind::Index}, &T::k_document},
          {{"o", Role::Output, "b t h dv"}, &T::o},
          {{"lse", Role::Output, "b h t", Kind::Accum}, &T::lse},
          {{"do", Role::OutputGrad, "b t h dv", Kind::Data, "o"}, &T::d_o},
          {{"dlse", Role::OutputGrad, "b h t", Kind::Accum, "lse"}, &T::d_lse},
          {{"dq", Role::InputGrad, "b t h d", Kind::Data, "q"}, &T::dq},
          {{"dk", Role::InputGrad, "b s hk d", Kind::Data, "k"}, &T::dk},
          {{"dv", Role::InputGrad, "b s hk dv", Kind::Data, "v"}, &T::dv}};
}

namespace {

/// Keys that code most often gets wrong: the ends of what a row sees, its own position, tile and shard edges ± 1.
/// Rotates over rows; always a key visible to row i.
int64_t aimed_key(int64_t row, int64_t first, int64_t last, int64_t t) {
  const int64_t tile = 64 * (1 + row % 3), shard = std::max<int64_t>(1, t / 8);
  const int64_t candidates[] = {last, first, last - 1, first + 1, last / tile * tile, last / tile * tile - 1, last / shard * shard, last / shard * shard - 1};
  return std::clamp(candidates[row % 8], first, last);
}

/// One past the last token of the document of every token.
std::vector<int64_t> document_ends(const int32_t* document, int64_t t) {
  std::vector<int64_t> ends(static_cast<size_t>(t), t);
  for (int64_t i = t - 2; i >= 0; --i) ends[static_cast<size_t>(i)] = document[i] == document[i + 1] ? ends[static_cast<size_t>(i + 1)] : i + 1;
  return ends;
}

/// Calls set(q_row, k_row, visible keys) with the flat offsets of every query row and of the key it is aimed at.
template <class F>
void for_each_aim(const Tensors& x, const Shape& shape, F&& set) {
  for (int64_t b = 0; b < shape.b; ++b) {
    const auto* document = x.q_document.as<int32_t>() + b * shape.t;
    const auto ends = document_ends(document, shape.t);
    int64_t first = 0;
    for (int64_t i = 0; i < shape.t; ++i) {
      if (i > 0 && document[i] != document[i - 1]) first = i;
      const int64_t last = shape.causal ? i : ends[static_cast<size_t>(i)] - 1;
      for (int64_t h = 0; h < shape.h; ++h) {
        const int64_t key = aimed_key(i + 3 * h, first, last, shape.t);
        set(((b * shape.t + i) * shape.h + h) * shape.d, ((b * shape.s + key) * shape.hk + h / shape.group()) * shape.d, last - first + 1);
      }
    }
  }
}

/// Turns q of every row towards one key, so that this key holds about 30 % of the row's mass whatever t is:
/// logit(aimed) = ln(visible keys) + ln(0.3/0.7) while the others stay near 0.
void fill_aimed(const Tensors& x, const Shape& shape) {
  for_each_aim(x, shape, [&](int64_t q_row, int64_t k_row, int64_t visible) {
    double norm = 0;
    for (int64_t d = 0; d < shape.d; ++d) norm += std::pow(value_at(x.k, k_row + d), 2);
    const double logit = std::log(static_cast<double>(visible)) + std::log(0.3 / 0.7);
    const double length = norm > 0 ? logit / (shape.scale * norm) : 0;
    for (int64_t d = 0; d < shape.d; ++d)  // 0.3 of the noise stays: a background of other keys
      set_value(x.q, q_row + d, length * value_at(x.k, k_row + d) + 0.3 * value_at(x.q, q_row + d));
  });
}

/// Logits up to ±hundreds that grow along the sequence, so that a running maximum is reset again and again.
void fill_extreme(const Tensors& x, const Shape& shape) {
  for (int64_t i = 0, n = x.q.size(); i < n; ++i) set_value(x.q, i, 16 * value_at(x.q, i));
  const int64_t width = shape.hk * shape.d;
  for (int64_t i = 0, n = x.k.size(); i < n; ++i) {
    const double place = static_cast<double>(i / width % shape.s) / static_cast<double>(shape.s);
    set_value(x.k, i, value_at(x.k, i) * (0.25 + 1.75 * place));
  }
}

/// Every row puts all its mass on one key (the others underflow to exactly 0) and values are small integers, so every sum
/// is exact: o is a row of v, dv a sum of integers, dq = dk = 0, whatever the order of addition. Keys are the ±1 code of
/// their number, so they differ while s ≤ 2^d; scale should be a power of two (d = 16, 64, 256).
void fill_exact(const Tensors& x, const Shape& shape, uint64_t seed) {
  const RandomStream v_stream(seed, "exact v"), do_stream(seed, "exact do"), sign(seed, "exact sign");
  for (int64_t i = 0, n = x.v.size(); i < n; ++i) set_value(x.v, i, static_cast<double>(v_stream.integer(i, 9) - 4));
  for (int64_t i = 0, n = x.d_o.size(); i < n; ++i) set_value(x.d_o, i, static_cast<double>(do_stream.integer(i, 3) - 1));
  fill(x.d_lse, 0);
  for (int64_t i = 0, n = x.k.size(); i < n; ++i) {
    const int64_t key = i / (shape.hk * shape.d) % shape.s, d = i % shape.d;
    const bool bit = d < 62 && (key >> d & 1);
    set_value(x.k, i, bit != (sign.integer(d, 2) == 1) ? 1 : -1);
  }
  const double length = std::exp2(std::ceil(std::log2(400 / shape.scale)));  // one differing sign is worth ≥ 800 in the logit
  for_each_aim(x, shape, [&](int64_t q_row, int64_t k_row, int64_t) {
    for (int64_t d = 0; d < shape.d; ++d) set_value(x.q, q_row + d, length * value_at(x.k, k_row + d));
  });
}

/// Documents of uneven lengths, then padding.
void fill_sequence(const TensorView& document, const Shape& shape, uint64_t seed) {
  fill_documents(document, shape.docs, seed);
  const int64_t tokens = document.shape[1];
  fill(document.slice(1, std::max<int64_t>(tokens - shape.padding, 0), tokens), kPaddingDocument);
}

void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape shape(request.axes);
  for (int64_t i = 0; i < shape.t; ++i) x.q_position.as<int32_t>()[i] = static_cast<int32_t>(i);
  for (int64_t j = 0; j < shape.s; ++j) x.k_position.as<int32_t>()[j] = static_cast<int32_t>(j);
  fill_sequence(x.q_document, shape, request.seed);
  fill_sequence(x.k_document, shape, request.seed);
  if (request.distribution == "extreme") fill_extreme(x, shape);
  if (shape.s != shape.t) return;  // aims need keys that belong to the queries
  if (request.distribution == "aimed") fill_aimed(x, shape);
  if (request.distribution == "exact") fill_exact(x, shape, request.seed);
}

void validate(const Axes& axes) {
  const int64_t h = axes["h"], hk = axes["hk"];
  MEGATOKEN_CHECK(h % hk == 0, "attention: h={} query heads cannot share hk={} key/value heads; hk must divide h", h, hk);
}

/// Visible (query, key) pairs of one batch row; packed documents counted with the borders of seed 0.
double visible_pairs(const Shape& shape) {
  if (shape.t != shape.s) return static_cast<double>(shape.t) * static_cast<double>(shape.s);
  double pairs = 0;
  const auto borders = document_borders(shape.t, shape.docs, 0);
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    const int64_t end = std::min(borders[i + 1], shape.t - shape.padding);
    const auto n = static_cast<double>(std::max<int64_t>(end - borders[i], 0));
    pairs += shape.causal ? n * (n + 1) / 2 : n * n;
  }
  return pairs;
}

/// 2d + 2dv per pair and head forward; backward recomputes S and forms dP, dV, dQ, dK: 6d + 4dv.
Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape x(axes);
  const double pairs = visible_pairs(x) * static_cast<double>(x.b * x.h);
  const auto d = static_cast<double>(x.d), dv = static_cast<double>(x.dv);
  const auto queries = static_cast<double>(x.b * x.t * x.h), keys = static_cast<double>(x.b * x.s * x.hk);
  const auto element = static_cast<double>(size_of(dtype)), statistic = static_cast<double>(size_of(accumulator_of(dtype)));
  const Cost forward{pairs * (2 * d + 2 * dv), element * (queries * (d + dv) + keys * (d + dv)) + statistic * queries};
  const Cost backward{pairs * (6 * d + 4 * dv), element * (queries * (2 * d + 2 * dv) + 2 * keys * (d + dv)) + 2 * statistic * queries};
  if (phase == Phase::Forward) return forward;
  if (phase == Phase::Backward) return backward;
  return {forward.flops + backward.flops, forward.bytes + backward.bytes};
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "softmax attention, grouped key/value heads, packed documents";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "query tokens", .fallback = 1024, .min = 0, .max = 2147483647},
            {.name = "s", .about = "key tokens", .same_as = "t", .min = 0, .max = 2147483647},
            {.name = "h", .about = "query heads", .fallback = 2, .min = 1},
            {.name = "hk", .about = "key/value heads", .same_as = "h", .min = 1},
            {.name = "d", .about = "query and key width", .fallback = 64, .min = 1},
            {.name = "dv", .about = "value width", .same_as = "d", .min = 1},
            {.name = "docs", .about = "packed documents", .fallback = 1, .min = 1, .option = true},
            {.name = "padding", .about = "padding tokens at the end of every sequence", .fallback = 0, .min = 0, .max = 2147483647, .option = true},
            {.name = "causal", .about = "keys after the query are hidden", .fallback = 1, .max = 1, .option = true},
            {.name = "scale", .about = "factor on q·k; 0 means 1/sqrt(d)", .fallback = 0, .min = -1e6, .max = 1e6, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.validate = validate;
  c.cost = cost;
  c.fill = fill_inputs;
  c.distributions.push_back("exact");
  c.slices = {{"rows", "t", {"o", "lse", "dq"}}, {"cols", "s", {"dk", "dv"}, true}};
  c.causal = [](const Axes& axes) { return axes["causal"] != 0; };
  c.token_axes = {"t", "s"};
  c.examples = {"b=1 t=1 h=1 d=1",          "b=2 t=7 h=2 hk=1 d=3 dv=2", "b=1 t=9 h=4 hk=2 d=4 causal=0",   "b=3 t=13 h=3 hk=3 d=2 docs=4",
                "b=2 t=8 h=2 d=5 docs=3 causal=0", "b=1 t=6 s=11 h=2 d=4",      "b=1 t=11 s=5 h=2 hk=1 d=4 causal=0", "b=1 t=0 h=1 d=4",
                "b=1 t=5 h=2 d=4 docs=9",   "b=1 t=10 h=2 d=4 scale=-0.7",
                "b=2 t=12 h=2 hk=1 d=3 docs=3 padding=4", "b=1 t=3 h=1 d=2 padding=3"};
  c.judging = "b=2 t=160 h=4 hk=2 d=16 docs=3 padding=5";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::attention
