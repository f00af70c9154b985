#include "reference/components/sparse_attention/sparse_attention.hpp"

#include <algorithm>
#include <cmath>

#include "reference/core/random.hpp"
#include "reference/core/row_inputs.hpp"

namespace megatoken::sparse_attention {

Shape::Shape(const Axes& a)
    : b(a["b"]), t(a["t"]), s(a["s"]), h(a["h"]), hk(a["hk"]), d(a["d"]), dv(a["dv"]), n(a["n"]), direct(a["direct"] != 0),
      scale(a.real("scale") != 0 ? a.real("scale") : 1 / std::sqrt(static_cast<double>(d))) {}

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"q", Role::Input, "b t h d"}, &T::q},
          {{"k", Role::Input, "b s hk d"}, &T::k},
          {{"v", Role::Input, "b s hk dv", Kind::Data, "", "direct"}, &T::v},
          {{"id", Role::Input, "b t n", Kind::Index}, &T::id},
          {{"o", Role::Output, "b t h dv"}, &T::o},
          {{"lse", Role::Output, "b h t", Kind::Accum}, &T::lse},
          {{"do", Role::OutputGrad, "b t h dv", Kind::Data, "o"}, &T::d_o},
          {{"dlse", Role::OutputGrad, "b h t", Kind::Accum, "lse"}, &T::d_lse},
          {{"dq", Role::InputGrad, "b t h d", Kind::Data, "q"}, &T::dq},
          {{"dk", Role::InputGrad, "b s hk d", Kind::Data, "k"}, &T::dk},
          {{"dv", Role::InputGrad, "b s hk dv", Kind::Data, "v", "direct"}, &T::dv}};
}

void check_ids(const Shape& s, const Tensors& x) {
  const auto id = x.id.elements<const int32_t, 3>();
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t i = 0; i < s.t; ++i)
      for (int64_t j = 0; j < s.n; ++j)
        MEGATOKEN_CHECK(id(b, i, j) >= -1 && id(b, i, j) < s.s, "sparse_attention: id of query {}, slot {} in batch row {} is {}, expected -1 or a key token below {}", i, j, b, id(b, i, j), s.s);
}

int64_t workspace_bytes(const Shape& s, DType dtype, Phase phase) {
  if (phase == Phase::Forward) return 0;
  return 8 * s.b * (s.s + 1 + s.t * s.n) + s.b * s.h * s.t * size_of(accumulator_of(dtype));
}

namespace {

/// Slots of the query that stands at key token `own`: everything visible when that fits, otherwise one token of each of n strata, own among
/// them. Ascending, with the empty slots last; every third row has them first, every fourth in between.
void fill_ids(int32_t* id, int64_t n, int64_t own, int64_t row, const RandomStream& random) {
  const int64_t visible = own + 1, filled = std::min(n, visible), empty = n - filled;
  for (int64_t j = 0; j < n; ++j) id[j] = -1;
  const int64_t shift = row % 3 == 1 ? empty : 0;
  for (int64_t j = 0; j < filled; ++j) {
    const int64_t begin = j * visible / filled, end = (j + 1) * visible / filled;
    const int64_t token = j + 1 == filled ? own : begin + random.integer(row * n + j, end - begin);
    id[shift + j] = static_cast<int32_t>(token);
  }
  if (row % 4 == 3)
    for (int64_t j = 1; j < n; j += 3) id[j] = -1;
}

/// Turns q of every row towards one of its keys, which then holds about 30 % of the row's mass however many keys there are.
void fill_aimed(const Tensors& x, const Shape& s) {
  for (int64_t row = 0; row < s.b * s.t * s.h; ++row) {
    const int64_t head = row % s.h, query = row / s.h, b = query / s.t;
    const int32_t* id = x.id.as<int32_t>() + query * s.n;
    std::vector<int64_t> keys;
    for (int64_t j = 0; j < s.n; ++j)
      if (id[j] >= 0) keys.push_back(id[j]);
    if (keys.empty()) continue;
    const auto last = static_cast<int64_t>(keys.size()) - 1;
    const int64_t places[] = {0, last, last / 2, std::min<int64_t>(last, 63), std::min<int64_t>(last, 64)};  // ends, middle, edge of a tile
    const int64_t key = ((b * s.s + keys[static_cast<size_t>(places[(query + head) % 5])]) * s.hk + head / s.group()) * s.d;
    double norm = 0;
    for (int64_t c = 0; c < s.d; ++c) norm += std::pow(value_at(x.k, key + c), 2);
    const double length = norm > 0 ? std::log(static_cast<double>(keys.size()) * 0.3 / 0.7) / (s.scale * norm) : 0;
    for (int64_t c = 0; c < s.d; ++c) set_value(x.q, row * s.d + c, length * value_at(x.k, key + c) + 0.3 * value_at(x.q, row * s.d + c));
  }
}

/// Rows without any key, rows that see one key, and in `extreme` logits up to ±hundreds.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  const RandomStream random(request.seed, "sparse_attention ids");
  for (int64_t row = 0; row < s.b * s.t; ++row) {
    int32_t* id = x.id.as<int32_t>() + row * s.n;
    fill_ids(id, s.n, std::min(s.s - 1, std::max<int64_t>(0, s.s - s.t) + row % s.t), row, random);
    if (row % 11 == 7 || s.s == 0) std::fill(id, id + s.n, -1);
  }
  if (request.distribution == "aimed") fill_aimed(x, s);
  if (request.distribution == "extreme")
    for (int64_t i = 0; i < x.q.size(); ++i) set_value(x.q, i, (i / s.d % 4 == 0 ? 64 : 8) * value_at(x.q, i));
}

void validate(const Axes& axes) {
  const int64_t h = axes["h"], hk = axes["hk"], d = axes["d"], dv = axes["dv"];
  MEGATOKEN_CHECK(h % hk == 0, "sparse_attention: h={} query heads cannot share hk={} key heads; hk must divide h", h, hk);
  MEGATOKEN_CHECK(axes["direct"] != 0 || dv == d, "sparse_attention: dv={} but the latent row is key and value, d={}; give dv=d, or direct=1", dv, d);
}

/// 2d + 2dv a slot and head; backward recomputes S and forms dP, dv, dq, dk: 6d + 4dv. Gathered rows count as read once for each query.
Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const double pairs = static_cast<double>(s.b * s.t) * static_cast<double>(std::min(s.n, s.s)) * static_cast<double>(s.h);
  const auto d = static_cast<double>(s.d), dv = static_cast<double>(s.dv), queries = static_cast<double>(s.b * s.t * s.h), size = static_cast<double>(size_of(dtype));
  const double keys = static_cast<double>(s.b * s.s * s.hk) * (s.direct ? d + dv : d), ids = 4 * static_cast<double>(s.b * s.t * s.n), statistic = static_cast<double>(size_of(accumulator_of(dtype)));
  return phase_cost(phase, {pairs * (2 * d + 2 * dv), size * (queries * (d + dv) + keys) + ids + statistic * queries},
                    {pairs * (6 * d + 4 * dv), size * (queries * (2 * d + 2 * dv) + 2 * keys) + ids + 2 * statistic * queries});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "attention over selected keys, absorbed or with values of their own";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "queries", .fallback = 1024, .max = 2147483647},
            {.name = "s", .about = "key tokens", .same_as = "t", .max = 2147483647},
            {.name = "h", .about = "query heads", .fallback = 4, .min = 1},
            {.name = "hk", .about = "key heads", .fallback = 1, .min = 1},
            {.name = "d", .about = "key width; the latent's when absorbed", .fallback = 64, .min = 1},
            {.name = "dv", .about = "value width", .same_as = "d", .min = 1},
            {.name = "n", .about = "slots: keys selected at most", .fallback = 259, .min = 1},
            {.name = "direct", .about = "values are a tensor of their own, not the keys", .fallback = 0, .max = 1, .option = true},
            {.name = "scale", .about = "factor on q·k; 0 means 1/sqrt(d)", .fallback = 0, .min = -1e6, .max = 1e6, .real = true, .option = true}};
  c.fields = erase_fields<Tensors>();
  c.validate = validate;
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"o", "lse", "dq"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t", "s"};
  c.examples = {"t=1 h=1 d=1 n=1", "b=2 t=9 h=2 d=3 n=4", "t=0 h=1 d=2 n=3", "t=7 h=2 hk=2 d=3 dv=2 n=5 direct=1", "t=5 s=12 h=4 hk=2 d=2 n=6 scale=-0.7", "t=12 h=2 d=2 n=3 scale=0.25",
                "t=4 h=4 hk=2 d=2 dv=3 n=9 direct=1", "t=3 s=0 h=1 d=2 n=2"};
  c.judging = "b=2 t=160 h=4 d=16 n=67 scale=0.5";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::sparse_attention
