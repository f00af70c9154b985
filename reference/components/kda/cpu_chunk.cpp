// kda/cpu_chunk: the chunk algorithm of chunk.hpp over whole sequences, in fp64 from inputs of any dtype. A second reference:
// it shares no loop with kda/cpu but the activations, and it is what a chunked kernel does.
#include <vector>

#include "reference/components/kda/activation.hpp"
#include "reference/components/kda/chunk.hpp"
#include "reference/core/variant.hpp"

namespace megatoken::kda {
namespace {

void store_state(const Shape& shape, const Matrix& S, const TensorView& view, int64_t b, int64_t h, int64_t n) {
  for (int64_t c = 0; c < shape.d; ++c)
    for (int64_t e = 0; e < shape.dv; ++e) set_value(view, (((b * shape.h + h) * shape.group + n) * shape.d + c) * shape.dv + e, S(c, e));
}

template <class T>
void forward_loops(const Shape& shape, const Tensors& x, Context& context) {
  fill(x.o, 0);  // padding stays
  const auto o = x.o.elements<T, 5>();
  parallel_for(shape.b * shape.h * shape.group, context.threads, [&](int64_t item) {
    const int64_t b = item / (shape.h * shape.group), h = item / shape.group % shape.h, n = item % shape.group;
    const Matrix S = walk_chunks(shape, x, b, h, n, [&](int64_t begin, Chunk&& chunk) {
      for (int64_t r = 0; r < chunk.O.rows(); ++r)
        for (int64_t e = 0; e < shape.dv; ++e) o(b, begin + r, h, n, e) = static_cast<T>(chunk.O(r, e));
    });
    if (shape.carry) store_state(shape, S, x.final_state, b, h, n);
  });
}

/// Through the norm: dx = (dy − y ⟨dy, y⟩) / √(Σx² + eps), y the normalised row.
template <class T>
void store_normalised(const Activation<T, double>& in, const Elements<const T, 4>& x, const Elements<T, 4>& dx, int64_t b, int64_t i, int64_t h,
                      const Eigen::RowVectorXd& dy) {
  Eigen::RowVectorXd y(in.d);
  const double factor = in.inverse_norm(x, b, i, h);
  for (int64_t c = 0; c < in.d; ++c) y(c) = static_cast<double>(x(b, i, h, c)) * factor;
  const double along = in.l2norm ? dy.dot(y) : 0;
  for (int64_t c = 0; c < in.d; ++c) dx(b, i, h, c) = static_cast<T>(factor * (dy(c) - y(c) * along));
}

template <class T>
class Backward {
 public:
  Backward(const Shape& shape, const Tensors& x)
      : shape_(shape), x_(x), in_(shape, x), d_o_(x.d_o.elements<const T, 5>()), dv_(x.dv.elements<T, 5>()), dg_(x.dg.elements<T, 5>()),
        d_beta_(x.d_beta.elements<T, 4>()), dq_(x.dq.elements<T, 4>()), dk_(x.dk.elements<T, 4>()),
        d_a_log_(Matrix::Zero(shape.b * shape.h * shape.group, 1)), d_dt_bias_(Matrix::Zero(shape.b * shape.h * shape.group, shape.d)) {
    for (const TensorView* view : {&x.dv, &x.dg, &x.d_beta, &x.dq, &x.dk}) fill(*view, 0);  // padding stays
  }

  /// All value heads of query/key head h: their dq and dk are summed.
  void run_group(int64_t b, int64_t h) {
    Matrix dq = Matrix::Zero(shape_.t, shape_.d), dk = dq;
    for (int64_t n = 0; n < shape_.group; ++n) run_head(b, h, n, dq, dk);
    for (int64_t i = 0; i < shape_.t; ++i) {
      if (in_.padding(b, i)) continue;
      store_normalised<T>(in_, in_.q, dq_, b, i, h, dq.row(i));
      store_normalised<T>(in_, in_.k, dk_, b, i, h, dk.row(i));
    }
  }

  void store_parameters() const {
    if (shape_.gate == Gate::Given) return;
    const int64_t heads = shape_.h * shape_.group;
    fill(x_.d_a_log, 0);
    fill(x_.d_dt_bias, 0);
    for (int64_t item = 0; item < shape_.b * heads; ++item) {
      const int64_t head = item % heads;
      set_value(x_.d_a_log, head, value_at(x_.d_a_log, head) + d_a_log_(item, 0));
      for (int64_t c = 0; c < shape_.d; ++c)
        set_value(x_.d_dt_bias, head * shape_.d + c, value_at(x_.d_dt_bias, head * shape_.d + c) + d_dt_bias_(item, c));
    }
  }

 private:
  void run_head(int64_t b, int64_t h, int64_t n, Matrix& dq, Matrix& dk) {
    std::vector<std::pair<int64_t, Chunk>> chunks;
    walk_chunks(shape_, x_, b, h, n, [&](int64_t begin, Chunk&& chunk) { chunks.emplace_back(begin, std::move(chunk)); });
    const int64_t item = (b * shape_.h + h) * shape_.group + n;
    Matrix dS = Matrix::Zero(shape_.d, shape_.dv);
    if (shape_.carry)
      for (int64_t i = 0; i < dS.size(); ++i) dS.data()[i] = value_at(x_.d_final_state, item * dS.size() + i);
    for (size_t c = chunks.size(); c-- > 0;) {
      const auto& [begin, chunk] = chunks[c];
      Matrix dO(chunk.O.rows(), shape_.dv);
      for (int64_t r = 0; r < dO.rows(); ++r)
        for (int64_t e = 0; e < shape_.dv; ++e) dO(r, e) = static_cast<double>(d_o_(b, begin + r, h, n, e));
      const ChunkGradients d = chunk_backward(chunk, dO, dS);
      for (int64_t r = 0; r < dO.rows(); ++r) {
        dq.row(begin + r) += d.dq.row(r);
        dk.row(begin + r) += d.dk.row(r);
        store_row(d, r, b, begin + r, h, n, item);
      }
      dS = d.dS;
      if (in_.starts(b, begin)) dS.setZero();
    }
    if (shape_.carry) store_state(shape_, dS, x_.d_initial_state, b, h, n);
  }

  void store_row(const ChunkGradients& d, int64_t r, int64_t b, int64_t i, int64_t h, int64_t n, int64_t item) {
    for (int64_t e = 0; e < shape_.dv; ++e) dv_(b, i, h, n, e) = static_cast<T>(d.dv(r, e));
    d_beta_(b, i, h, n) = static_cast<T>(in_.beta_gradient(b, i, h, n, d.dbeta(r)));
    for (int64_t c = 0; c < shape_.d; ++c) {
      const auto gradient = in_.gate_gradient(b, i, h, n, c, d.dg(r, c));
      dg_(b, i, h, n, c) = static_cast<T>(gradient.x);
      d_dt_bias_(item, c) += gradient.x;
      d_a_log_(item, 0) += gradient.a_log;
    }
  }

  const Shape& shape_;
  const Tensors& x_;
  const Activation<T, double> in_;
  const Elements<const T, 5> d_o_;
  const Elements<T, 5> dv_, dg_;
  const Elements<T, 4> d_beta_, dq_, dk_;
  Matrix d_a_log_, d_dt_bias_;  // b·h·group, 1 · d
};

template <class T>
void backward_loops(const Shape& shape, const Tensors& x, Context& context) {
  Backward<T> backward(shape, x);
  parallel_for(shape.b * shape.h, context.threads, [&](int64_t item) { backward.run_group(item / shape.h, item % shape.h); });
  backward.store_parameters();
}

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "cpu_chunk",
    .about = "the chunk algorithm step by step, in fp64; its intermediates are open to kernel authors",
    .dtypes = {DType::F64, DType::F32, DType::BF16, DType::F16},
    .forward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.q.dtype, [&]<class T>() { forward_loops<T>(s, x, c); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.q.dtype, [&]<class T>() { backward_loops<T>(s, x, c); }); },
})};

}  // namespace
}  // namespace megatoken::kda
