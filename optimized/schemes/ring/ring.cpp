// One rank's way around the ring, forward and backward (ring.hpp).
#include "optimized/schemes/ring/ring.hpp"

#include <limits>

#include "optimized/cpu/scratch.hpp"
#include "optimized/schemes/ring/merge.hpp"
#include "reference/components/attention/attention.hpp"
#include "reference/core/device.hpp"
#include "reference/core/documents.hpp"
#include "reference/schemes/traffic.hpp"

namespace megatoken::ring {
namespace {

using attention::Shape;
using attention::Tensors;

/// In the arena's memory; without memory the arena only counts.
TensorView take(cpu::Arena& arena, DType dtype, const Dims& shape) {
  TensorView view(nullptr, dtype, shape);
  view.data = arena.take<std::byte>(view.bytes());
  return view;
}

void zero(const TensorView& view) { fill_bytes(view.data, view.device, 0, view.bytes()); }

/// Keys and values, or their gradients, of one block.
struct KeyValue {
  TensorView k, v;

  KeyValue(TensorView k, TensorView v) : k(k), v(v) {}
  KeyValue(cpu::Arena& arena, const Shape& s, DType dtype) : k(take(arena, dtype, {s.b, s.s, s.hk, s.d})), v(take(arena, dtype, {s.b, s.s, s.hk, s.dv})) {}
  KeyValue rows(const Part& part) const { return {k.slice(1, part.k_begin, part.k_end), v.slice(1, part.k_begin, part.k_end)}; }
};

/// Positions and documents of the rows of two ranks.
struct Index {
  TensorView q_position, k_position, q_document, k_document;

  Index(cpu::Arena& arena, const Shape& s)
      : q_position(take(arena, DType::I32, {s.t})), k_position(take(arena, DType::I32, {s.s})), q_document(take(arena, DType::I32, {s.b, s.t})),
        k_document(take(arena, DType::I32, {s.b, s.s})) {}
};

struct ForwardBuffers {
  KeyValue received[2];
  TensorView o, more_o, more_lse;
  Index index;

  ForwardBuffers(cpu::Arena& arena, const Shape& s, DType dtype)
      : received{{arena, s, dtype}, {arena, s, dtype}}, o(take(arena, accumulator_of(dtype), {s.b, s.t, s.h, s.dv})),
        more_o(take(arena, accumulator_of(dtype), {s.b, s.t, s.h, s.dv})), more_lse(take(arena, accumulator_of(dtype), {s.b, s.h, s.t})), index(arena, s) {}
};

struct BackwardBuffers {
  KeyValue received[2], travelling[2], gradient;
  TensorView dq, more_dq;
  Index index;

  BackwardBuffers(cpu::Arena& arena, const Shape& s, DType dtype)
      : received{{arena, s, dtype}, {arena, s, dtype}}, travelling{{arena, s, accumulator_of(dtype)}, {arena, s, accumulator_of(dtype)}},
        gradient(arena, s, accumulator_of(dtype)), dq(take(arena, accumulator_of(dtype), {s.b, s.t, s.h, s.d})),
        more_dq(take(arena, accumulator_of(dtype), {s.b, s.t, s.h, s.d})), index(arena, s) {}
};

Part part_of(const Ring& ring, const Shape& local, int rank, int source) {
  return local.causal ? ring.causal_part(local.t, rank, source) : Part{0, local.t, 0, local.s, false};
}

Axes axes_of(const Part& part, const Axes& local) {
  Axes axes = local;
  axes.set("t", static_cast<double>(part.queries()));
  axes.set("s", static_cast<double>(part.keys()));
  axes.set("causal", part.causal ? 1 : 0);
  return axes;
}

/// One pass of one rank.
class Pass {
 public:
  Pass(const SchemeCall& call, const Ring& ring)
      : call_(call), ring_(ring), communicator_(call.communicator), own_(bind_fields<Tensors>(call.views)), whole_(bind_fields<Tensors>(call.whole_index)),
        shape_(call.local), arena_(call.context.workspace.data()), rank_(communicator_.rank()), ranks_(communicator_.size()), threads_(call.context.threads) {}

  void forward();
  void backward();

 private:
  int above() const { return (rank_ + 1) % ranks_; }
  int below() const { return (rank_ - 1 + ranks_) % ranks_; }
  void label(const char* phase, int step) { communicator_.ledger().set_phase(format("{}/step {}", phase, step)); }

  void write_index(int rank, const TensorView& whole_position, const TensorView& whole_document, const TensorView& position, const TensorView& document) const;
  void write_keys(int source, const Index& index) const { write_index(source, whole_.k_position, whole_.k_document, index.k_position, index.k_document); }
  void write_queries(const Index& index) const { write_index(rank_, whole_.q_position, whole_.q_document, index.q_position, index.q_document); }

  /// The block's inputs: the rows of this rank and of the block that meet.
  Tensors block_inputs(const Part& part, const KeyValue& block, const Index& index) const;
  void run_block(const std::function<void(const Call&)>& run, const Part& part, const Tensors& tensors) const;

  const SchemeCall& call_;
  const Ring& ring_;
  Communicator& communicator_;
  const Tensors own_, whole_;
  const Shape shape_;
  cpu::Arena arena_;
  const int rank_, ranks_, threads_;
};

void Pass::write_index(int rank, const TensorView& whole_position, const TensorView& whole_document, const TensorView& position,
                       const TensorView& document) const {
  const auto& tokens = call_.layout.tokens[static_cast<size_t>(rank)];
  const auto from_position = whole_position.elements<const int32_t, 1>();
  const auto from_document = whole_document.elements<const int32_t, 2>();
  const auto to_position = position.elements<int32_t, 1>();
  const auto to_document = document.elements<int32_t, 2>();
  for (int64_t row = 0; row < call_.layout.local_rows(); ++row) {
    const int64_t token = tokens[static_cast<size_t>(row)];
    to_position(row) = token < 0 ? -1 : from_position(token);
    for (int64_t b = 0; b < shape_.b; ++b) to_document(b, row) = token < 0 ? kPaddingDocument : from_document(b, token);
  }
}

Tensors Pass::block_inputs(const Part& part, const KeyValue& block, const Index& index) const {
  Tensors x;
  x.q = own_.q.slice(1, part.q_begin, part.q_end);
  x.q_position = index.q_position.slice(0, part.q_begin, part.q_end);
  x.q_document = index.q_document.slice(1, part.q_begin, part.q_end);
  const KeyValue rows = block.rows(part);
  x.k = rows.k;
  x.v = rows.v;
  x.k_position = index.k_position.slice(0, part.k_begin, part.k_end);
  x.k_document = index.k_document.slice(1, part.k_begin, part.k_end);
  return x;
}

void Pass::run_block(const std::function<void(const Call&)>& run, const Part& part, const Tensors& tensors) const {
  const Axes axes = axes_of(part, call_.local);
  if (const std::string reason = call_.block.refuse ? call_.block.refuse(axes, call_.dtype) : ""; !reason.empty())
    throw Error(ErrorKind::Usage, format("{} cannot compute a block of {} queries and {} keys: {}", call_.block.label(), part.queries(), part.keys(), reason));
  Context context = call_.context;
  MEGATOKEN_CHECK(arena_.used() <= static_cast<int64_t>(context.workspace.size()), "a workspace of {} bytes is too small: the ring needs {}",
                  context.workspace.size(), arena_.used());
  context.workspace = context.workspace.subspan(static_cast<size_t>(arena_.used()));
  const auto views = list_views(tensors);
  run({axes, call_.dtype, views, context});
}

void Pass::forward() {
  const ForwardBuffers buffer(arena_, shape_, call_.dtype);
  zero(buffer.o);
  fill(own_.lse, -std::numeric_limits<double>::infinity());
  write_queries(buffer.index);

  KeyValue current(own_.k, own_.v);
  for (int step = 0; step < ranks_; ++step) {
    label("fwd", step);
    const KeyValue& next = buffer.received[step % 2];
    const bool hop = step + 1 < ranks_;
    if (hop) communicator_.start_exchange({{current.k, above()}, {current.v, above()}}, {{next.k, below()}, {next.v, below()}});

    const int source = ring_.forward_source(rank_, step, ranks_);
    if (const Part part = part_of(ring_, shape_, rank_, source); !part.empty()) {
      write_keys(source, buffer.index);
      Tensors x = block_inputs(part, current, buffer.index);
      x.o = buffer.more_o.slice(1, part.q_begin, part.q_end);
      x.lse = buffer.more_lse.slice(2, part.q_begin, part.q_end);
      run_block(call_.block.forward, part, x);
      ring_.merge(buffer.o.slice(1, part.q_begin, part.q_end), own_.lse.slice(2, part.q_begin, part.q_end), x.o, x.lse, threads_);
    }
    if (hop) communicator_.wait_exchange();
    current = next;
  }
  copy(buffer.o, own_.o);
}

void Pass::backward() {
  const BackwardBuffers buffer(arena_, shape_, call_.dtype);
  zero(buffer.dq);
  write_queries(buffer.index);

  const KeyValue own(own_.k, own_.v);
  KeyValue current = own;
  if (ranks_ > 1) {
    label("bwd", 0);
    current = buffer.received[0];
    communicator_.exchange({{own.k, below()}, {own.v, below()}}, {{current.k, above()}, {current.v, above()}});
  }
  for (int step = 0; step < ranks_; ++step) {
    label("bwd", step);
    const KeyValue &next = buffer.received[(step + 1) % 2], &sum = buffer.travelling[step % 2], &finished = buffer.travelling[(step + 1) % 2];
    std::vector<Message> sends, receives;
    if (step + 2 < ranks_) {  // the last block is the own one, which never left
      sends = {{current.k, below()}, {current.v, below()}};
      receives = {{next.k, above()}, {next.v, above()}};
    }
    if (step > 0) {  // the sums of the block that was here go after it; those of the current block arrive
      sends.insert(sends.end(), {{finished.k, below()}, {finished.v, below()}});
      receives.insert(receives.end(), {{sum.k, above()}, {sum.v, above()}});
    }
    if (!sends.empty()) communicator_.start_exchange(sends, receives);

    const int source = ring_.backward_source(rank_, step, ranks_);
    const Part part = part_of(ring_, shape_, rank_, source);
    const KeyValue gradient = buffer.gradient.rows(part);
    if (!part.empty()) {
      write_keys(source, buffer.index);
      Tensors x = block_inputs(part, current, buffer.index);
      x.o = own_.o.slice(1, part.q_begin, part.q_end);
      x.lse = own_.lse.slice(2, part.q_begin, part.q_end);
      x.d_o = own_.d_o.slice(1, part.q_begin, part.q_end);
      x.d_lse = own_.d_lse.slice(2, part.q_begin, part.q_end);
      x.dq = buffer.more_dq.slice(1, part.q_begin, part.q_end);
      x.dk = gradient.k;
      x.dv = gradient.v;
      run_block(call_.block.backward, part, x);
      ring_.add(buffer.dq.slice(1, part.q_begin, part.q_end), x.dq, threads_);
    }
    if (!sends.empty()) communicator_.wait_exchange();
    if (step == 0) {
      zero(sum.k);
      zero(sum.v);
    }
    if (!part.empty()) {
      const KeyValue rows = sum.rows(part);
      ring_.add(rows.k, gradient.k, threads_);
      ring_.add(rows.v, gradient.v, threads_);
    }
    current = step + 2 < ranks_ ? next : own;
  }
  const KeyValue& home = buffer.travelling[(ranks_ - 1) % 2];
  copy(buffer.dq, own_.dq);
  copy(home.k, own_.dk);
  copy(home.v, own_.dv);
}

int64_t workspace_of(const Ring& ring, const Variant& block, const Axes& local, DType dtype, int ranks, Phase phase) {
  const Shape shape(local);
  cpu::Arena forward, backward;
  ForwardBuffers(forward, shape, dtype);
  BackwardBuffers(backward, shape, dtype);
  int64_t block_bytes = 0;
  for (int rank = 0; block.workspace && rank < ranks; ++rank)
    for (int source = 0; source < ranks; ++source)
      if (const Part part = part_of(ring, shape, rank, source); !part.empty())
        block_bytes = std::max(block_bytes, block.workspace(axes_of(part, local), dtype, phase));
  if (phase == Phase::Forward) return forward.used() + block_bytes;
  if (phase == Phase::Backward) return backward.used() + block_bytes;
  return std::max(forward.used(), backward.used()) + block_bytes;
}

/// traffic.hpp counts keys and values of one width; with two widths they share the wire half and half.
int64_t bytes_sent(const Ring& ring, const Axes& axes, DType dtype, int ranks, Phase phase) {
  const Shape s(axes);
  int64_t bytes = 0;
  for (int64_t width : {s.d, s.dv}) {
    const DirectionBytes both = ring_bytes({.b = s.b, .n = ring.layout(s.t, ranks).local_rows(), .h = s.h, .hk = s.hk, .d = width,
                                            .element_bytes = size_of(dtype), .gradient_bytes = size_of(accumulator_of(dtype))}, ranks);
    bytes += phase == Phase::Forward ? both.forward : phase == Phase::Backward ? both.backward : both.total();
  }
  return bytes / 2;
}

std::string refuse(const Component&, const Axes& axes, int) {
  return axes["t"] == axes["s"] ? "" : format("t={} and s={} differ: queries and keys must be those of one sequence", axes["t"], axes["s"]);
}

}  // namespace

Scheme make_ring_scheme(std::string name, std::string about, const Ring& ring) {
  return {.name = std::move(name),
          .component = Tensors::kComponent,
          .about = std::move(about),
          .deterministic = true,
          .refuse = refuse,
          .layout = [ring](const Component&, const Axes& axes, int ranks) { return ring.layout(axes["t"], ranks); },
          .forward = [ring](const SchemeCall& call) { Pass(call, ring).forward(); },
          .backward = [ring](const SchemeCall& call) { Pass(call, ring).backward(); },
          .workspace = [ring](const Variant& block, const Axes& local, DType dtype, int ranks, Phase phase) {
            return workspace_of(ring, block, local, dtype, ranks, phase);
          },
          .bytes_sent = [ring](const Component&, const Axes& axes, DType dtype, int ranks, Phase phase) { return bytes_sent(ring, axes, dtype, ranks, phase); }};
}

}  // namespace megatoken::ring
