#include "reference/components/embedding/embedding.hpp"

#include "reference/core/random.hpp"
#include "reference/core/row_inputs.hpp"

namespace megatoken::embedding {

std::vector<FieldOf<Tensors>> Tensors::fields() {
  using T = Tensors;
  return {{{"id", Role::Input, "b t", Kind::Index}, &T::id},
          {{"table", Role::Input, "v c"}, &T::table},
          {{"y", Role::Output, "b t c"}, &T::y},
          {{"dy", Role::OutputGrad, "b t c", Kind::Data, "y"}, &T::d_y},
          {{"dtable", Role::InputGrad, "v c", Kind::Accum, "table"}, &T::dtable}};
}

void check_ids(const Shape& s, const Tensors& x) {
  for (int64_t i = 0; i < x.id.size(); ++i) {
    const auto id = static_cast<int64_t>(value_at(x.id, i));
    MEGATOKEN_CHECK(id >= 0 && id < s.v, "embedding: id at b={},t={} is {}, expected 0 to {} (v={})", i / s.t, i % s.t, id, s.v - 1, s.v);
  }
}

namespace {

/// normal: any id. aimed: the ends of the table at edge rows. extreme: one id for most rows, the longest sum there is.
void fill_inputs(const FillRequest& request) {
  const Tensors x = bind_fields<Tensors>(request.views);
  const Shape s(request.axes);
  const int64_t rows = s.b * s.t;
  const RandomStream stream(request.seed, "embedding id");
  std::vector<int32_t> tokens;
  if (request.distribution == "tokens" && rows > 0) tokens = request.tokens(rows);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t id = stream.integer(row, s.v);
    if (request.distribution == "aimed" && is_edge_row(row, rows)) id = row % 2 ? s.v - 1 : 0;
    if (request.distribution == "extreme" && row % 8 != 0) id = s.v / 2;
    if (request.distribution == "tokens") id = tokens[static_cast<size_t>(row)] % s.v;
    x.id.as<int32_t>()[row] = static_cast<int32_t>(id);
  }
  if (request.distribution == "aimed") aim_rows(x.d_y, rows, s.c), aim_rows(x.table, s.v, s.c);
}

Cost cost(const Axes& axes, DType dtype, Phase phase) {
  const Shape s(axes);
  const auto n = static_cast<double>(s.b * s.t * s.c), size = static_cast<double>(size_of(dtype)), table = static_cast<double>(s.v * s.c * size_of(accumulator_of(dtype)));
  return phase_cost(phase, {0, 2 * n * size}, {n, n * size + table});
}

Component description() {
  Component c;
  c.name = Tensors::kComponent;
  c.about = "table rows by token id; gradient summed in token order";
  c.axes = {{.name = "b", .about = "batch", .fallback = 1, .min = 1},
            {.name = "t", .about = "tokens", .fallback = 1024, .max = 2147483647},
            {.name = "c", .about = "model width", .fallback = 64, .min = 1},
            {.name = "v", .about = "vocabulary", .fallback = 256, .min = 1, .max = 2147483647}};
  c.fields = erase_fields<Tensors>();
  c.cost = cost;
  c.fill = fill_inputs;
  c.slices = {{"rows", "t", {"y"}}, {"scan", "c", {"y", "dtable"}}};
  c.causal = [](const Axes&) { return true; };
  c.token_axes = {"t"};
  c.examples = {"b=1 t=1 c=1 v=1", "b=2 t=7 c=3 v=5", "b=1 t=0 c=2 v=3", "b=1 t=9 c=2 v=20"};
  c.judging = "b=2 t=96 c=24 v=40";
  return c;
}

const Registered<Component> registered{description()};

}  // namespace
}  // namespace megatoken::embedding
