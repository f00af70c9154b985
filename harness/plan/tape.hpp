// Memory of one layer by liveness. A layer is a tape of operations; each reads tensors, writes one, and saves what its backward needs. From
// that alone follow: what the layer keeps for the backward, and the highest water mark of forward and backward with the place it happens.
//
// Rules, those of any reverse-mode program:
//   forward: a tensor goes when its last reader has run, unless someone saves it;
//   backward: an operation makes the gradients of what it reads (a second contribution lives until it is added), then drops the gradient
//   of what it wrote and every saved tensor that no earlier operation needs;
//   a recomputed segment keeps only what enters it, and runs again when the backward reaches its end.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace megatoken::plan {

/// What memory is attributed to.
enum class Part { Input, Streams, Norm, Mixer, Indexer, Mlp, Router, Experts, Exchange };
inline constexpr int kParts = 9;
const char* name_of(Part part);

struct Operation {
  std::string name;
  Part part = Part::Mixer;
  std::vector<int> reads;
  std::vector<int> saves;         // of its reads, and itself through kSelf
  int64_t bytes = 0;              // of the tensor it writes
  int64_t scratch = 0;            // alive only while its forward runs
  int64_t backward_scratch = 0;   // alive only while its backward runs
  bool differentiable = true;     // false: nothing flows back through it
  int64_t gradient_bytes = -1;    // of the gradient of its output, −1: as the output
  int segment = 0;                // > 0: belongs to that recomputed segment
};

/// In Operation::saves: the tensor the operation itself writes.
inline constexpr int kSelf = -1;

/// A water mark: how much, where, and whose.
struct Mark {
  int64_t bytes = 0;
  std::string where;
  int64_t parts[kParts] = {};
};

struct Moment {
  std::string where;
  int64_t bytes = 0;
};

class Tape {
 public:
  /// The layer's input. It is kept by the caller and counted as Part::Input while the tape runs.
  explicit Tape(int64_t input_bytes);
  /// Appends an operation and returns the tensor it writes. The last one writes the layer's output.
  int add(Operation operation);
  int input() const { return 0; }
  int next_segment() { return ++segments_; }

  int64_t output_bytes() const;
  /// What forward keeps for backward besides input and output, when segments are recomputed and nothing else is.
  int64_t saved_bytes() const;
  /// Forward that keeps nothing (under full recompute), input included.
  Mark forward_mark() const;
  /// Forward that keeps what backward needs, input included.
  Mark keeping_forward_mark() const;
  /// Backward of a layer whose saved tensors are all there, input and both stream gradients included.
  Mark backward_mark() const;
  /// Forward again from the input, then backward: full recompute. With `holds_ends` the layer's output and its gradient stay to the end.
  Mark recompute_mark(bool holds_ends, std::vector<Moment>* timeline = nullptr) const;

 private:
  friend class TapeRun;
  std::vector<Operation> operations_;
  int64_t input_bytes_;
  int segments_ = 0;
};

}  // namespace megatoken::plan
