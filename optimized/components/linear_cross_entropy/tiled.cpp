// linear_cross_entropy/tiled: the loss without the logits of more than one tile of tokens (parallel.md §3.3).
//
//   for each tile of tokens:  for each chunk of words, in parallel:  Z = x Wᵀ + bias;  m_chunk = max Z;  E = e^{Z − m_chunk};  s_chunk = Σ E
//     lse = m + ln Σ_chunk s_chunk e^{m_chunk − m}            logprob = Z[label] − lse
//     backward, chunks in parallel:  D = g (onehot − E e^{m_chunk − lse});  dW += Dᵀ x;  dbias += Σ D;  then strips of dx in parallel:  dx = D W
// Every exponential is computed once, relative to its chunk, and only rescaled afterwards. Memory is one tile of Z, whatever the number
// of tokens: the tile shrinks as the vocabulary grows. Tile, chunk and strip sizes depend on the shape alone, so the bits do not depend
// on the number of threads. Gradients of parameters add up in the accumulator, tile after tile.
#include <algorithm>
#include <cmath>

#include "optimized/cpu/products.hpp"
#include "optimized/cpu/rows.hpp"
#include "optimized/cpu/scratch.hpp"
#include "optimized/cpu/vector.hpp"
#include "reference/components/linear_cross_entropy/linear_cross_entropy.hpp"

namespace megatoken::linear_cross_entropy {
namespace {

constexpr int64_t kLine = 16;                   // widths are multiples of this, so rows of Z are whole vectors
constexpr int64_t kTileLogits = 16 << 20;       // at most about this many logits are held
constexpr int64_t kChunkWeights = 256 << 10;    // numbers of W that one chunk widens at a time
constexpr int64_t kStripRows = 64, kStripColumns = 256;

int64_t round_up(int64_t n) { return (n + kLine - 1) / kLine * kLine; }

struct Tiling {
  int64_t words, rows, chunk, chunks;  // padded vocabulary · tokens a tile · words a chunk · chunks

  explicit Tiling(const Shape& s)
      : words(round_up(s.v)), rows(std::clamp<int64_t>(kTileLogits / words / kLine * kLine, kLine, 256)),
        chunk(std::clamp<int64_t>(std::min(kChunkWeights / s.c / kLine * kLine, round_up((s.v + 15) / 16)), kLine, 512)), chunks((s.v + chunk - 1) / chunk) {}
};

/// One tile, shared by all workers.
template <class Acc>
struct Tile {
  Acc *x, *z, *dx;              // rows × c · rows × words · rows × c
  Acc *largest, *sum;           // of every chunk: chunks × rows
  Acc *label_logit, *lse, *g;   // rows
  Tile(const Shape& s, cpu::Arena& arena) {
    const Tiling tiling(s);
    x = arena.take<Acc>(tiling.rows * s.c), z = arena.take<Acc>(tiling.rows * tiling.words), dx = arena.take<Acc>(tiling.rows * s.c);
    largest = arena.take<Acc>(tiling.chunks * tiling.rows), sum = arena.take<Acc>(tiling.chunks * tiling.rows);
    label_logit = arena.take<Acc>(tiling.rows), lse = arena.take<Acc>(tiling.rows), g = arena.take<Acc>(tiling.rows);
  }
};

/// What a worker widens of W.
template <class Acc>
struct Words {
  Acc* w;  // chunk × c, or chunk × kStripColumns
  Words(const Shape& s, cpu::Arena& arena) : w(arena.take<Acc>(Tiling(s).chunk * std::max(s.c, kStripColumns))) {}
};

template <class T>
class Loss {
 public:
  using Acc = Accumulator<T>;

  Loss(const Shape& s, const Tensors& x, Context& context)
      : s_(s), tensors_(x), tiling_(s), threads_(context.threads), input_(x.x), w_(x.w.elements<const T, 2>()), label_(x.label.elements<const int32_t, 2>()),
        arena_(context.workspace.data()), tile_(s, arena_), workers_(context.workspace.subspan(static_cast<size_t>(arena_.used()))) {
    if (s.bias) bias_ = x.bias.elements<const T, 1>();
  }

  void forward() {
    const auto logprob = tensors_.logprob.template elements<Acc, 2>();
    double loss = 0;  // a million terms: one fp64 sum costs nothing
    for (int64_t begin = 0; begin < s_.rows(); begin += tiling_.rows) {
      take_logits(begin);
      for (int64_t i = 0; i < rows_; ++i) {
        const int64_t row = begin + i;
        const Acc value = label(row) == kIgnored ? Acc{0} : tile_.label_logit[i] - tile_.lse[i];
        logprob(row / s_.t, row % s_.t) = value;
        loss -= static_cast<double>(value);
      }
    }
    tensors_.loss.template as<Acc>()[0] = static_cast<Acc>(loss);
  }

  void backward() {
    const auto d_loss = tensors_.d_loss.template elements<const Acc, 1>();
    const auto d_logprob = tensors_.d_logprob.template elements<const Acc, 2>();
    const cpu::Rows<T> dx(tensors_.dx);
    auto dw = cpu::result_grid<Acc>(tensors_.dw, "dw");
    dw.setZero();
    if (s_.bias) dbias_ = tensors_.dbias.template elements<Acc, 1>();
    for (int64_t v = 0; s_.bias && v < s_.v; ++v) dbias_(v) = 0;
    for (int64_t begin = 0; begin < s_.rows(); begin += tiling_.rows) {
      take_logits(begin);
      for (int64_t i = 0; i < rows_; ++i) {
        const int64_t row = begin + i;
        tile_.g[i] = label(row) == kIgnored ? Acc{0} : d_logprob(row / s_.t, row % s_.t) - d_loss(0);
      }
      parallel_for(tiling_.chunks, threads_, [&](int64_t chunk) { parameter_gradients(chunk, begin, dw); });
      input_gradient();
      for (int64_t i = 0; i < rows_; ++i) dx.write(begin + i, tile_.dx + i * s_.c);
    }
  }

 private:
  int32_t label(int64_t row) const { return label_(row / s_.t, row % s_.t); }
  int64_t first_word(int64_t chunk) const { return chunk * tiling_.chunk; }
  int64_t words_of(int64_t chunk) const { return std::min(tiling_.chunk, s_.v - first_word(chunk)); }
  Acc* logits(int64_t i, int64_t chunk) const { return tile_.z + i * tiling_.words + first_word(chunk); }

  /// W[first … first + words, begin … begin + columns], widened.
  void widen_words(int64_t first, int64_t words, int64_t begin, int64_t columns, Acc* to) const {
    for (int64_t v = 0; v < words; ++v) cpu::widen(&w_(first + v, begin), w_.stride[1], columns, to + v * columns);
  }

  /// Z of the tile at `begin`, turned into E chunk by chunk, and lse and Z[label] of its rows.
  void take_logits(int64_t begin) {
    rows_ = std::min(tiling_.rows, s_.rows() - begin);
    for (int64_t i = 0; i < rows_; ++i) input_.read(begin + i, tile_.x + i * s_.c);
    cpu::for_each_item<Words<Acc>>(tiling_.chunks, threads_, s_, workers_, [&](int64_t chunk, Words<Acc>& words) { chunk_logits(chunk, begin, words.w); });
    for (int64_t i = 0; i < rows_; ++i) {
      Acc largest = tile_.largest[i], sum = 0;
      for (int64_t chunk = 1; chunk < tiling_.chunks; ++chunk) largest = std::max(largest, tile_.largest[chunk * tiling_.rows + i]);
      for (int64_t chunk = 0; chunk < tiling_.chunks; ++chunk)
        sum += tile_.sum[chunk * tiling_.rows + i] * std::exp(tile_.largest[chunk * tiling_.rows + i] - largest);
      tile_.lse[i] = largest + std::log(sum);
    }
  }

  void chunk_logits(int64_t chunk, int64_t begin, Acc* w) {
    const int64_t first = first_word(chunk), words = words_of(chunk), lanes = cpu::kLanes<Acc>;
    widen_words(first, words, 0, s_.c, w);
    auto z = cpu::grid(logits(0, chunk), rows_, words, tiling_.words);
    z.noalias() = cpu::const_grid(tile_.x, rows_, s_.c) * cpu::const_grid(w, words, s_.c).transpose();
    for (int64_t i = 0; i < rows_; ++i) {
      Acc* line = logits(i, chunk);
      for (int64_t v = 0; s_.bias && v < words; ++v) line[v] += static_cast<Acc>(bias_(first + v));
      const int64_t at = label(begin + i) - first;
      if (at >= 0 && at < words) tile_.label_logit[i] = line[at];
      const int64_t padded = round_up(words);
      std::fill(line + words, line + padded, -std::numeric_limits<Acc>::infinity());
      auto top = cpu::load(line), sums = cpu::all(Acc{0});
      for (int64_t v = lanes; v < padded; v += lanes) top = cpu::load(line + v) > top ? cpu::load(line + v) : top;
      Acc largest = top[0], sum = 0;
      for (int64_t lane = 1; lane < lanes; ++lane) largest = std::max(largest, top[lane]);
      for (int64_t v = 0; v < padded; v += lanes) {
        const auto e = cpu::exp(cpu::load(line + v) - largest);
        cpu::store<Acc>(line + v, e);
        sums += e;
      }
      for (int64_t lane = 0; lane < lanes; ++lane) sum += sums[lane];
      tile_.largest[chunk * tiling_.rows + i] = largest;
      tile_.sum[chunk * tiling_.rows + i] = sum;
    }
  }

  /// E → D in place; the chunk's rows of dW and dbias.
  void parameter_gradients(int64_t chunk, int64_t begin, cpu::Grid<Acc>& dw) {
    const int64_t first = first_word(chunk), words = words_of(chunk);
    for (int64_t i = 0; i < rows_; ++i) {
      Acc* line = logits(i, chunk);
      const Acc factor = -tile_.g[i] * std::exp(tile_.largest[chunk * tiling_.rows + i] - tile_.lse[i]);
      for (int64_t v = 0; v < words; ++v) line[v] *= factor;
      const int64_t at = label(begin + i) - first;
      if (at >= 0 && at < words) line[at] += tile_.g[i];
      for (int64_t v = 0; s_.bias && v < words; ++v) dbias_(first + v) += line[v];
    }
    const auto d = cpu::const_grid<Acc>(logits(0, chunk), rows_, words, tiling_.words);
    dw.middleRows(first, words).noalias() += d.transpose() * cpu::const_grid(tile_.x, rows_, s_.c);
  }

  /// dx = D W in strips of rows and columns; a worker widens the strip's columns of W chunk by chunk.
  void input_gradient() {
    const int64_t across = (s_.c + kStripColumns - 1) / kStripColumns, down = (rows_ + kStripRows - 1) / kStripRows;
    cpu::for_each_item<Words<Acc>>(across * down, threads_, s_, workers_, [&](int64_t item, Words<Acc>& scratch) {
      const int64_t row = item / across * kStripRows, column = item % across * kStripColumns;
      const int64_t rows = std::min(kStripRows, rows_ - row), columns = std::min(kStripColumns, s_.c - column);
      auto dx = cpu::grid(tile_.dx + row * s_.c + column, rows, columns, s_.c);
      dx.setZero();
      for (int64_t chunk = 0; chunk < tiling_.chunks; ++chunk) {
        const int64_t words = words_of(chunk);
        widen_words(first_word(chunk), words, column, columns, scratch.w);
        dx.noalias() += cpu::const_grid<Acc>(logits(row, chunk), rows, words, tiling_.words) * cpu::const_grid(scratch.w, words, columns);
      }
    });
  }

  const Shape& s_;
  const Tensors& tensors_;
  Tiling tiling_;
  int threads_;
  cpu::Rows<const T> input_;
  Elements<const T, 2> w_;
  Elements<const T, 1> bias_;
  Elements<const int32_t, 2> label_;
  Elements<Acc, 1> dbias_;
  cpu::Arena arena_;
  Tile<Acc> tile_;
  std::span<std::byte> workers_;
  int64_t rows_ = 0;  // of the tile at hand
};

template <class Acc>
int64_t bytes(const Shape& s) { return cpu::scratch_bytes<Tile<Acc>>(s) + hardware_threads() * cpu::scratch_bytes<Words<Acc>>(s); }

const Registered<Variant> registered{make_variant<Tensors>({
    .name = "tiled",
    .about = "one tile of logits at a time, products by Eigen, all threads; memory independent of t",
    .workspace = [](const Shape& s, DType dtype, Phase) { return dtype == DType::F64 ? bytes<double>(s) : bytes<float>(s); },
    .forward = [](const Shape& s, const Tensors& x, Context& c) { check_labels(s, x); dispatch_float(x.x.dtype, [&]<class T>() { Loss<T>(s, x, c).forward(); }); },
    .backward = [](const Shape& s, const Tensors& x, Context& c) { dispatch_float(x.x.dtype, [&]<class T>() { Loss<T>(s, x, c).backward(); }); },
})};

}  // namespace
}  // namespace megatoken::linear_cross_entropy
