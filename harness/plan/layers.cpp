// A whole layer: residual or streams around norm → mixer and norm → mlp.
#include "harness/plan/layers.hpp"

namespace megatoken::plan {
namespace {

/// One norm: an output of its input's size.
int add_norm(Tape& tape, const Request& r, int x) {
  return tape.add({.name = "norm", .part = Part::Norm, .reads = {x}, .saves = {x}, .bytes = r.rows() * r.model.c * kActivationBytes});
}

struct Site {
  int maps = 0;       // mixing weights of every token
  int collapsed = 0;  // one stream out of n
};

/// Reads the streams once for the mixing weights and once for the weighted sum. The projection works in fp32: either that copy is saved, or
/// it is made again in the backward.
Site add_collapse(Tape& tape, const Request& r, int streams) {
  const int64_t n = r.model.hyper.n, wide = r.rows() * n * r.model.c, maps = r.rows() * (n * n + 2 * n) * 4;
  Site site;
  if (r.techniques.hyper_keeps_fp32) {
    const int copy = tape.add({.name = "fp32 streams", .part = Part::Streams, .reads = {streams}, .bytes = wide * 4});
    site.maps = tape.add({.name = "stream weights", .part = Part::Streams, .reads = {copy}, .saves = {copy, kSelf}, .bytes = maps});
  } else {
    site.maps = tape.add({.name = "stream weights", .part = Part::Streams, .reads = {streams}, .saves = {streams, kSelf}, .bytes = maps,
                          .scratch = wide * 4, .backward_scratch = 2 * wide * 4});
  }
  site.collapsed = tape.add({.name = "stream sum", .part = Part::Streams, .reads = {streams, site.maps}, .saves = {streams, site.maps},
                             .bytes = r.rows() * r.model.c * kActivationBytes, .scratch = wide * kActivationBytes});
  return site;
}

/// X' = comb X + post u: the mix and the broadcast are both as wide as the streams before they are added.
int add_expand(Tape& tape, const Request& r, int streams, const Site& site, int u) {
  const int64_t wide = r.rows() * r.model.hyper.n * r.model.c * kActivationBytes;
  return tape.add({.name = "stream mix", .part = Part::Streams, .reads = {streams, site.maps, u}, .saves = {streams, site.maps, u}, .bytes = wide,
                   .scratch = 2 * wide, .backward_scratch = wide});
}

int add_mixer(Tape& tape, const Request& r, Mixer mixer, int x) {
  switch (mixer) {
    case Mixer::Attention: return add_attention(tape, r, x);
    case Mixer::SparseAttention: return add_sparse_attention(tape, r, x);
    case Mixer::Kda: return add_kda(tape, r, x);
    case Mixer::GatedDelta: return add_gated_delta(tape, r, x);
  }
  return x;
}

int add_mlp(Tape& tape, const Request& r, Mlp mlp, int x) { return mlp == Mlp::Dense ? add_dense_mlp(tape, r, x) : add_experts(tape, r, x); }

}  // namespace

int64_t layer_input_bytes(const Request& r) { return r.rows() * r.model.hyper.n * r.model.c * kActivationBytes; }

int64_t gathered_bytes(const Request& r) { return r.layout.tp > 1 ? r.gathered_rows() * r.model.c * kActivationBytes : 0; }

Tape make_layer(const Request& r, LayerConfig layer) {
  Tape tape(layer_input_bytes(r));
  int x = tape.input();
  for (bool mixer : {true, false}) {
    const bool streams = r.model.hyper.n > 1;
    Site site;
    if (streams) site = add_collapse(tape, r, x);
    const int normed = add_norm(tape, r, streams ? site.collapsed : x);
    const int u = mixer ? add_mixer(tape, r, layer.mixer, normed) : add_mlp(tape, r, layer.mlp, normed);
    x = streams ? add_expand(tape, r, x, site, u)
                : tape.add({.name = "residual", .part = Part::Streams, .reads = {x, u}, .bytes = layer_input_bytes(r)});
  }
  return tape;
}

}  // namespace megatoken::plan
