// The liveness simulation. Tensor 0 is the layer's input, tensor i + 1 is what operation i writes.
#include "harness/plan/tape.hpp"

#include <algorithm>

#include "reference/core/error.hpp"

namespace megatoken::plan {

const char* name_of(Part part) {
  constexpr const char* kNames[kParts] = {"layer input", "streams", "norm", "mixer", "indexer", "mlp", "router", "experts", "exchange"};
  return kNames[static_cast<int>(part)];
}

/// One run over a tape: which tensors and gradients are alive, and the water mark so far.
class TapeRun {
 public:
  TapeRun(const Tape& tape, std::vector<Moment>* timeline) : ops_(tape.operations_), timeline_(timeline) {
    const size_t tensors = ops_.size() + 1;
    value_.assign(tensors, false);
    gradient_.assign(tensors, false);
    last_reader_.assign(tensors, -1);
    first_need_.assign(tensors, static_cast<int>(ops_.size()));
    input_bytes_ = tape.input_bytes_;
    for (int op = 0; op < size(); ++op)
      for (int tensor : ops_[op].reads) last_reader_[tensor] = op;
    for (int op = 0; op < size(); ++op) {
      needs_.push_back(needs(op));
      for (int tensor : needs_[op]) first_need_[tensor] = std::min(first_need_[tensor], op);
    }
    kept_outside_.assign(tensors, false);
    kept_anywhere_.assign(tensors, false);
    for (int op = 0; op < size(); ++op)
      for (int tensor : needs_[op]) {
        kept_anywhere_[tensor] = true;
        if (ops_[op].segment == 0 || segment_of(tensor) != ops_[op].segment) kept_outside_[tensor] = true;
      }
    set_value(0, true);
  }

  /// Runs forward over [begin, end). With `keep`, saved tensors stay; those inside recomputed segments only with `inside_segments`.
  void forward(int begin, int end, bool keep, bool inside_segments) {
    for (int op = begin; op < end; ++op) {
      set_value(op + 1, true);
      mark(op, "forward", ops_[op].scratch);
      for (int tensor : ops_[op].reads)
        if (last_reader_[tensor] == op) release_after_forward(tensor, keep, inside_segments);
      if (last_reader_[op + 1] < 0 && op + 1 < size()) release_after_forward(op + 1, keep, inside_segments);
    }
  }

  void backward(bool holds_ends) {
    set_gradient(size(), true);
    if (!holds_ends && !kept(size(), true)) set_value(size(), false);
    for (int op = size() - 1; op >= 0; --op) {
      if (ops_[op].segment > 0 && (op + 1 == size() || ops_[op + 1].segment != ops_[op].segment)) recompute_segment(op);
      const bool flows = ops_[op].differentiable && gradient_[op + 1];
      if (flows) run_backward(op);
      if (!holds_ends || op + 1 < size()) set_gradient(op + 1, false);
      for (int tensor : needs_[op])
        if (first_need_[tensor] >= op && tensor != 0 && !(holds_ends && tensor == size())) set_value(tensor, false);
    }
  }

  int64_t saved() const {
    int64_t bytes = 0;
    for (int tensor = 1; tensor < size(); ++tensor)
      if (kept(tensor, false)) bytes += bytes_of(tensor);
    return bytes;
  }

  /// Saved tensors are there before backward starts, without having been made in this run.
  void restore_saved() {
    for (int tensor = 1; tensor < size(); ++tensor)
      if (kept(tensor, false)) set_value(tensor, true);
  }

  int size() const { return static_cast<int>(ops_.size()); }
  const Mark& result() const { return mark_; }

 private:
  int64_t bytes_of(int tensor) const { return tensor == 0 ? input_bytes_ : ops_[tensor - 1].bytes; }
  int64_t gradient_bytes_of(int tensor) const {
    if (tensor == 0) return input_bytes_;
    const Operation& op = ops_[tensor - 1];
    return op.gradient_bytes >= 0 ? op.gradient_bytes : op.bytes;
  }
  Part part_of(int tensor) const { return tensor == 0 ? Part::Input : ops_[tensor - 1].part; }

  /// Tensors an operation needs in its backward.
  std::vector<int> needs(int op) const {
    std::vector<int> tensors;
    for (int tensor : ops_[op].saves) tensors.push_back(tensor == kSelf ? op + 1 : tensor);
    if (ops_[op].segment > 0)
      for (int tensor : ops_[op].reads)
        if (segment_of(tensor) != ops_[op].segment) tensors.push_back(tensor);  // what enters a segment is needed to run it again
    return tensors;
  }
  int segment_of(int tensor) const { return tensor == 0 ? 0 : ops_[tensor - 1].segment; }

  /// Whether a tensor outlives the forward. Those that only their own recomputed segment needs do not, unless `inside_segments`.
  bool kept(int tensor, bool inside_segments) const { return inside_segments ? kept_anywhere_[tensor] : kept_outside_[tensor]; }

  void release_after_forward(int tensor, bool keep, bool inside_segments) {
    if (tensor == 0 || tensor == size()) return;  // input and output belong to the caller
    if (keep && kept(tensor, inside_segments)) return;
    set_value(tensor, false);
  }

  void recompute_segment(int last) {
    int first = last;
    while (first > 0 && ops_[first - 1].segment == ops_[last].segment) --first;
    forward(first, last + 1, true, true);
    for (int op = first; op <= last; ++op)
      if (first_need_[op + 1] > last) set_value(op + 1, false);  // whoever needed it has had its backward
  }

  void run_backward(int op) {
    int64_t accumulating = 0;
    for (int tensor : ops_[op].reads) {
      if (tensor != 0 && !ops_[tensor - 1].differentiable) continue;
      if (gradient_[tensor]) accumulating += gradient_bytes_of(tensor);
      else set_gradient(tensor, true);
    }
    mark(op, "backward", ops_[op].backward_scratch + accumulating);
  }

  void set_value(int tensor, bool alive) { set(value_, tensor, alive, bytes_of(tensor)); }
  void set_gradient(int tensor, bool alive) { set(gradient_, tensor, alive, gradient_bytes_of(tensor)); }
  void set(std::vector<bool>& which, int tensor, bool alive, int64_t bytes) {
    if (which[tensor] == alive) return;
    which[tensor] = alive;
    now_ += alive ? bytes : -bytes;
    parts_[static_cast<int>(part_of(tensor))] += alive ? bytes : -bytes;
  }

  void mark(int op, const char* direction, int64_t scratch) {
    const int64_t bytes = now_ + scratch;
    if (timeline_) timeline_->push_back({format("{} of {}", direction, ops_[op].name), bytes});
    if (bytes <= mark_.bytes) return;
    mark_.bytes = bytes;
    mark_.where = format("{} of {}", direction, ops_[op].name);
    std::copy(parts_, parts_ + kParts, mark_.parts);
    mark_.parts[static_cast<int>(ops_[op].part)] += scratch;
  }

  const std::vector<Operation>& ops_;
  std::vector<Moment>* timeline_;
  std::vector<std::vector<int>> needs_;
  std::vector<bool> value_, gradient_, kept_outside_, kept_anywhere_;
  std::vector<int> last_reader_, first_need_;
  int64_t input_bytes_ = 0, now_ = 0;
  int64_t parts_[kParts] = {};
  Mark mark_;
};

Tape::Tape(int64_t input_bytes) : input_bytes_(input_bytes) {}

int Tape::add(Operation operation) {
  for (int tensor : operation.reads)
    MEGATOKEN_CHECK(tensor >= 0 && tensor <= static_cast<int>(operations_.size()), "operation {} reads tensor {}, which does not exist yet",
                    operation.name, tensor);
  operations_.push_back(std::move(operation));
  return static_cast<int>(operations_.size());
}

int64_t Tape::output_bytes() const { return operations_.empty() ? input_bytes_ : operations_.back().bytes; }

int64_t Tape::saved_bytes() const { return TapeRun(*this, nullptr).saved(); }

Mark Tape::forward_mark() const {
  TapeRun run(*this, nullptr);
  run.forward(0, run.size(), false, false);
  return run.result();
}

Mark Tape::keeping_forward_mark() const {
  TapeRun run(*this, nullptr);
  run.forward(0, run.size(), true, false);
  return run.result();
}

Mark Tape::backward_mark() const {
  TapeRun run(*this, nullptr);
  run.restore_saved();
  run.backward(false);
  return run.result();
}

Mark Tape::recompute_mark(bool holds_ends, std::vector<Moment>* timeline) const {
  TapeRun run(*this, timeline);
  run.forward(0, run.size(), true, false);
  run.backward(holds_ends);
  return run.result();
}

}  // namespace megatoken::plan
