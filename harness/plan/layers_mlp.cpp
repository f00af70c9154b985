// Dense MLP and mixture of experts as tapes.
#include <cmath>

#include "harness/plan/layers.hpp"

namespace megatoken::plan {
namespace {

constexpr int64_t B = kActivationBytes;

int64_t divide_up(int64_t value, int64_t pieces) { return (value + pieces - 1) / pieces; }

/// gate and up → one tensor. With a clamp, the plain chain keeps the clamped pair, the rectified gate and the product; without, one fused
/// operation keeps its input only.
int add_activation(Tape& tape, const Request& r, Part part, int gate_up, int64_t elements, int segment) {
  int hidden = gate_up;
  if (r.model.swiglu_limit > 0) {
    const int pair = tape.add({.name = "clamp", .part = part, .reads = {gate_up}, .saves = {gate_up}, .bytes = 2 * elements * B,
                               .segment = segment});
    const int rectified = tape.add({.name = "silu", .part = part, .reads = {pair}, .saves = {pair}, .bytes = elements * B,
                                    .segment = segment});
    hidden = tape.add({.name = "gate times up", .part = part, .reads = {rectified, pair}, .saves = {rectified, pair},
                       .bytes = elements * B, .segment = segment});
  } else {
    hidden = tape.add({.name = "gate times up", .part = part, .reads = {gate_up}, .saves = {gate_up}, .bytes = elements * B,
                       .segment = segment});
  }
  return hidden;
}

int add_mlp_block(Tape& tape, const Request& r, Part part, int x, int64_t width, int64_t pieces, int segment) {
  const int64_t elements = r.gathered_rows() * (width / r.layout.tp), out = r.rows() * r.model.c * B, gathered = gathered_bytes(r);
  if (pieces > 1) {  // one piece's intermediates, forward; with their gradients, backward
    const int64_t piece = divide_up(elements, pieces) * B;
    return tape.add({.name = "mlp in pieces", .part = part, .reads = {x}, .saves = {x}, .bytes = out, .scratch = 3 * piece + gathered,
                     .backward_scratch = 6 * piece + 2 * gathered, .segment = segment});
  }
  const int gate_up = tape.add({.name = "gate and up", .part = part, .reads = {x}, .saves = {x}, .bytes = 2 * elements * B,
                                .scratch = gathered, .backward_scratch = 2 * gathered, .segment = segment});
  const int hidden = add_activation(tape, r, part, gate_up, elements, segment);
  return tape.add({.name = "down", .part = part, .reads = {hidden}, .saves = {hidden}, .bytes = out, .scratch = gathered,
                   .backward_scratch = gathered, .segment = segment});
}

/// Rows go out to the experts' ranks, are copied to the etp ranks of each, sorted by expert, run, and come back the same way.
int add_routed(Tape& tape, const Request& r, int x, int weights, int segment) {
  const ExpertsConfig& e = *r.model.experts;
  const int64_t c = r.model.c, sent = r.rows() * e.per_token, here = expert_rows(r), before_copies = here / r.layout.etp;
  const int64_t elements = here * (e.width / r.layout.etp);
  const auto move = [&](const char* name, Part part, int from, int64_t rows, int64_t element_bytes) {
    return tape.add({.name = name, .part = part, .reads = {from}, .bytes = rows * c * element_bytes, .segment = segment});
  };
  int rows = move("permute", Part::Experts, x, sent, B);
  rows = move("dispatch", Part::Exchange, rows, before_copies, B);
  if (r.layout.etp > 1) rows = move("copy to expert ranks", Part::Exchange, rows, here, B);
  rows = move("sort by expert", Part::Experts, rows, here, B);
  const int gate_up = tape.add({.name = "experts: gate and up", .part = Part::Experts, .reads = {rows}, .saves = {rows},
                                .bytes = 2 * elements * B, .segment = segment});
  const int product = add_activation(tape, r, Part::Experts, gate_up, elements, segment);
  // The router's weights are fp32, so the weighted product exists in fp32 before it is rounded.
  const int hidden = tape.add({.name = "experts: router weights", .part = Part::Experts, .reads = {product, weights},
                               .saves = {product, weights}, .bytes = elements * B, .scratch = elements * 4,
                               .backward_scratch = elements * 4, .segment = segment});
  rows = tape.add({.name = "experts: down", .part = Part::Experts, .reads = {hidden}, .saves = {hidden}, .bytes = here * c * B,
                   .segment = segment});
  rows = move("unsort", Part::Experts, rows, here, B);
  if (r.layout.etp > 1) {
    const int64_t wire = r.techniques.combine_fp32 ? 4 : B;
    if (r.techniques.combine_fp32) rows = move("experts' outputs in fp32", Part::Experts, rows, here, 4);
    rows = move("sum over expert ranks", Part::Exchange, rows, before_copies, wire);
    if (r.techniques.combine_fp32) rows = move("round", Part::Experts, rows, before_copies, B);
  }
  rows = move("combine", Part::Exchange, rows, sent, B);
  return move("unpermute", Part::Experts, rows, r.rows(), B);
}

/// The same in pieces of the sequence: the intermediates of one piece at a time, made again in the backward.
int add_routed_in_pieces(Tape& tape, const Request& r, int x, int weights, int segment) {
  Tape piece(r.rows() * r.model.c * B);
  const int piece_weights = piece.add({.name = "weights", .part = Part::Router, .reads = {piece.input()}, .bytes = 0});
  add_routed(piece, r, piece.input(), piece_weights, 0);
  const int64_t own = 2 * r.rows() * r.model.c * B, pieces = r.techniques.expert_pieces;  // input and output are counted by the caller
  return tape.add({.name = "experts in pieces", .part = Part::Experts, .reads = {x, weights}, .saves = {x, weights},
                   .bytes = r.rows() * r.model.c * B, .scratch = divide_up(piece.forward_mark().bytes - own, pieces),
                   .backward_scratch = divide_up(piece.recompute_mark(false).bytes - own, pieces), .segment = segment});
}

}  // namespace

int64_t expert_rows(const Request& r) {
  const int64_t mean = r.rows() * r.model.experts->per_token * r.layout.etp;
  return static_cast<int64_t>(std::llround(static_cast<double>(mean) * r.techniques.imbalance));
}

int add_dense_mlp(Tape& tape, const Request& r, int x) {
  return add_mlp_block(tape, r, Part::Mlp, x, r.model.intermediate, r.techniques.mlp_pieces, 0);
}

int add_experts(Tape& tape, const Request& r, int x) {
  const ExpertsConfig& e = *r.model.experts;
  const int64_t logits = r.rows() * e.e * 4, upcast = r.rows() * r.model.c * 4;  // the router works in fp32
  const int segment = r.techniques.recompute == Recompute::Selective ? tape.next_segment() : 0;
  const int weights = tape.add({.name = "router", .part = Part::Router, .reads = {x}, .saves = {x, kSelf}, .bytes = logits,
                                .scratch = upcast, .backward_scratch = upcast + logits, .segment = segment});
  const bool pieces = r.techniques.expert_pieces > 1;
  const int routed = pieces ? add_routed_in_pieces(tape, r, x, weights, segment) : add_routed(tape, r, x, weights, segment);
  if (e.shared == 0) return routed;
  const int shared = add_mlp_block(tape, r, Part::Mlp, x, e.width * e.shared, 1, segment);
  return tape.add({.name = "routed plus shared", .part = Part::Experts, .reads = {routed, shared}, .bytes = r.rows() * r.model.c * B,
                   .segment = segment});
}

}  // namespace megatoken::plan
