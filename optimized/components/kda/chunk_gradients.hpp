// kda: gradients inside one chunk, once the state S in front of it, the gradient dS of the state behind it, the steps R and their
// gradient Y = (I + Akk)⁻ᵀ dR are known.
//   dAqk = dO Rᵀ    dAkk = −Y Rᵀ    dqg = dO Sᵀ    dbk = −Y Sᵀ    dkg = R dSᵀ    dv = β Y
// Pairs of tokens go through the same past-only decays as in forward: inside a block by diagonal_gradients, between blocks with one operand
// decayed to the border and the sum decayed from it. dg_t is the sum of every term that crosses the decay of row t, collected by
// where it starts and ends (rows of the block, other blocks, entry, end): no term is added and taken away again, so strong decays
// keep their small gradients.
#pragma once
#include "optimized/components/kda/tile.hpp"

namespace megatoken::kda {

/// What a chunk is differentiated from.
template <class Real>
struct ChunkUpstream {
  const Real *state, *d_state;          // k × v: S, dS
  const Real *steps, *d_steps, *d_o;    // rows × v: R, Y, dO
};

template <class Real>
class ChunkGradientScratch {
 public:
  Real *dq, *to_step, *to_key, *dg;     // rows × k: of scale · normalised q; Σ over earlier keys; Σ over later rows; of the log-decay

  ChunkGradientScratch(const Widths& width, cpu::Arena& arena) : width_(width) {
    for (Real** array : {&dq, &to_step, &to_key, &dg, &dqg_, &dbk_, &dkg_, &entry_, &end_, &block_entry_, &block_end_, &past_, &later_, &reached_, &left_})
      *array = arena.take<Real>(kRows * width.k);
    for (Real** array : {&daqk_, &dakk_}) *array = arena.take<Real>(kRows * kRows);
    for (Real** array : {&state_turned_, &d_state_turned_}) *array = arena.take<Real>(width.v * width.k);
    steps_turned_ = arena.take<Real>(width.v * kRows);
    for (Real** array : {&pair_q_, &pair_k_}) *array = arena.take<Real>(kBlock * width.k);
    for (Real** array : {&crossing_, &entered_, &left_block_}) *array = arena.take<Real>(kRows / kBlock * width.k);
    sum_ = arena.take<Real>(width.k);
  }

  void compute(const Tile<Real, kRows>& tile, const ChunkUpstream<Real>& up) {
    products(tile, up);
    collect_decays(tile);
    for (Real* array : {dq, to_step, to_key, dg, later_, reached_}) std::fill_n(array, tile.rows * width_.k, Real{0});
    for (Real* array : {crossing_, entered_, left_block_}) std::fill_n(array, tile.blocks() * width_.k, Real{0});
    for (int64_t block = 0; block < tile.blocks(); ++block) {
      const int64_t at = block * kBlock * width_.k, pairs = block * kBlock * (kRows + 1);
      diagonal_gradients<Real>(width_.k, {tile.q + at, tile.k + at, tile.step_key + at, tile.decay + at, dq + at, to_step + at, to_key + at, dg + at}, width_.k,
                               dakk_ + pairs, daqk_ + pairs);
    }
    pairs_to_rows(tile);
    pairs_to_keys(tile);
    through_states(tile);
    finish_rows(tile);
  }

 private:
  void products(const Tile<Real, kRows>& tile, const ChunkUpstream<Real>& up) {
    const int64_t k = width_.k, v = width_.v;
    cpu::transpose(k, v, up.state, v, state_turned_, k);
    cpu::transpose(k, v, up.d_state, v, d_state_turned_, k);
    cpu::transpose(tile.rows, v, up.steps, v, steps_turned_, kRows);
    cpu::multiply<Real>(tile.rows, k, width_.dv, 1, {up.d_o, v}, {state_turned_, k}, {dqg_, k});
    cpu::multiply<Real>(tile.rows, k, width_.dv, -1, {up.d_steps, v}, {state_turned_, k}, {dbk_, k});
    cpu::multiply<Real>(tile.rows, k, width_.dv, 1, {up.steps, v}, {d_state_turned_, k}, {dkg_, k});
    for (int64_t row = 0; row < tile.rows; row += kBlock) {
      cpu::multiply<Real>(kBlock, row + kBlock, width_.dv, 1, {up.d_o + row * v, v}, {steps_turned_, kRows}, {daqk_ + row * kRows, kRows});
      cpu::multiply<Real>(kBlock, row + kBlock, width_.dv, -1, {up.d_steps + row * v, v}, {steps_turned_, kRows}, {dakk_ + row * kRows, kRows});
    }
  }

  /// Decays from the entry of chunk and block up to each row, and from behind each row to the end of block and chunk. Rows first, like
  /// everything here: columns of many arrays at once would share a few cache sets.
  void collect_decays(const Tile<Real, kRows>& tile) {
    const int64_t k = width_.k, blocks = tile.blocks();
    Real *in_block = crossing_, *outside = crossing_ + k;  // running products
    std::fill_n(outside, k, Real{1});
    for (int64_t block = 0; block < blocks; ++block) {
      std::fill_n(in_block, k, Real{1});
      for (int64_t i = block * kBlock; i < (block + 1) * kBlock; ++i)
        for (int64_t c = 0, at = i * k; c < k; c += kLanes<Real>, at += kLanes<Real>) {
          const Vector<Real> product = load(in_block + c) * load(tile.decay + at);
          store<Real>(in_block + c, product);
          store<Real>(block_entry_ + at, product);
          store<Real>(entry_ + at, product * load(outside + c));
        }
      multiply_into(tile.block_total + block * k, outside);
    }
    std::fill_n(outside, k, Real{1});
    for (int64_t block = blocks - 1; block >= 0; --block) {
      std::fill_n(in_block, k, Real{1});
      for (int64_t i = (block + 1) * kBlock - 1; i >= block * kBlock; --i)
        for (int64_t c = 0, at = i * k; c < k; c += kLanes<Real>, at += kLanes<Real>) {
          const Vector<Real> product = load(in_block + c);
          store<Real>(block_end_ + at, product);
          store<Real>(end_ + at, product * load(outside + c));
          store<Real>(past_ + at, load(tile.k + at) * product);
          store<Real>(in_block + c, product * load(tile.decay + at));
        }
      multiply_into(tile.block_total + block * k, outside);
    }
  }
  void multiply_into(const Real* factors, Real* to) const {
    for (int64_t c = 0; c < width_.k; c += kLanes<Real>) store<Real>(to + c, load(to + c) * load(factors + c));
  }

  /// Keys of earlier blocks into dq and to_step of later rows; what each row gets also crosses the decays in front of it.
  void pairs_to_rows(const Tile<Real, kRows>& tile) {
    const int64_t k = width_.k;
    for (int64_t block = 1; block < tile.blocks(); ++block) {
      const int64_t at = block * kBlock * k;
      for (int64_t early = 0; early < block; ++early) {
        const int64_t pairs = block * kBlock * kRows + early * kBlock;
        cpu::multiply<Real>(kBlock, k, kBlock, 1, {daqk_ + pairs, kRows}, {past_ + early * kBlock * k, k}, {pair_q_, k});
        cpu::multiply<Real>(kBlock, k, kBlock, 1, {dakk_ + pairs, kRows}, {past_ + early * kBlock * k, k}, {pair_k_, k});
        std::fill_n(sum_, k, Real{0});
        for (int64_t i = 0; i < kBlock; ++i)
          for (int64_t c = 0; c < k; c += kLanes<Real>) {
            const int64_t row = at + i * k + c;
            const Vector<Real> decay = load(block_entry_ + row);
            add(sum_ + c, reach(tile, row, decay * load(pair_q_ + i * k + c), decay * load(pair_k_ + i * k + c)));
          }
        for (int64_t between = early + 1; between < block; ++between)
          for (int64_t c = 0; c < k; c += kLanes<Real>) add(crossing_ + between * k + c, load(sum_ + c));
      }
      for (int64_t j = 0; j < block * kBlock && block + 1 < tile.blocks(); ++j) multiply_into(tile.block_total + block * k, past_ + j * k);
    }
  }
  /// Row `at` gets from_q and from_k out of what lies before its block; returns what crosses.
  Vector<Real> reach(const Tile<Real, kRows>& tile, int64_t at, Vector<Real> from_q, Vector<Real> from_k) const {
    add(dq + at, from_q);
    add(to_step + at, from_k);
    const Vector<Real> crossing = load(tile.q + at) * from_q + load(tile.step_key + at) * from_k;
    add(reached_ + at, crossing);
    return crossing;
  }

  /// Rows of later blocks into keys of earlier ones, still to be decayed from the key to the end of its block.
  void pairs_to_keys(const Tile<Real, kRows>& tile) {
    const int64_t k = width_.k;
    for (int64_t block = tile.blocks() - 1; block > 0; --block) {
      const int64_t rows = block * kBlock;
      for (int64_t j = 0; j < rows && block + 1 < tile.blocks(); ++j) multiply_into(tile.block_total + block * k, later_ + j * k);
      cpu::multiply_add<Real>(rows, k, kBlock, {daqk_ + rows * kRows, 1, kRows}, {tile.q_block + rows * k, k}, {later_, k});
      cpu::multiply_add<Real>(rows, k, kBlock, {dakk_ + rows * kRows, 1, kRows}, {tile.step_key_block + rows * k, k}, {later_, k});
    }
  }

  /// From the state in front and into the state behind; then dg of every row.
  void through_states(const Tile<Real, kRows>& tile) {
    const int64_t k = width_.k, blocks = tile.blocks();
    for (int64_t row = 0; row < tile.rows; ++row)
      for (int64_t c = 0, at = row * k, block = row / kBlock * k; c < k; c += kLanes<Real>, at += kLanes<Real>) {
        const Vector<Real> decay = load(entry_ + at), crossing = reach(tile, at, decay * load(dqg_ + at), decay * load(dbk_ + at));
        const Vector<Real> to_end = load(end_ + at) * load(dkg_ + at), to_later = load(block_end_ + at) * load(later_ + at), key = load(tile.k + at);
        add(entered_ + block + c, crossing);
        add(left_block_ + block + c, key * to_end);
        store<Real>(left_ + at, key * (to_end + to_later));
        add(to_key + at, to_end + to_later);
      }
    for (int64_t c = 0; c < k; c += kLanes<Real>) {
      Vector<Real> through{};  // from entry to end
      for (int64_t e = 0; e < width_.dv; ++e) through += load(state_turned_ + e * k + c) * load(d_state_turned_ + e * k + c);
      through *= load(tile.total + c);
      for (int64_t block = 0; block < blocks; ++block) {
        Vector<Real> crossing = load(crossing_ + block * k + c) + through;
        for (int64_t other = block + 1; other < blocks; ++other) crossing += load(entered_ + other * k + c);
        for (int64_t other = 0; other < block; ++other) crossing += load(left_block_ + other * k + c);
        store<Real>(crossing_ + block * k + c, crossing);
      }
    }
    for (int64_t block = 0; block < blocks; ++block) {
      Real* behind = crossing_ + block * k;  // everything that crosses the block, then also what its earlier rows leave behind
      for (int64_t i = block * kBlock; i < (block + 1) * kBlock; ++i)
        for (int64_t c = 0, at = i * k; c < k; c += kLanes<Real>, at += kLanes<Real>) {
          add(dg + at, load(behind + c));
          add(behind + c, load(left_ + at));
        }
      std::fill_n(sum_, k, Real{0});
      for (int64_t i = (block + 1) * kBlock - 1; i >= block * kBlock; --i)
        for (int64_t c = 0, at = i * k; c < k; c += kLanes<Real>, at += kLanes<Real>) {
          add(sum_ + c, load(reached_ + at));
          add(dg + at, load(sum_ + c));
        }
    }
  }

  /// A token's own key, read by its own query: no decay lies between.
  void finish_rows(const Tile<Real, kRows>& tile) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      const Real own = daqk_[i * (kRows + 1)];
      for (int64_t at = i * width_.k, end = at + width_.k; at < end; at += kLanes<Real>) {
        add(dq + at, own * load(tile.k + at));
        add(to_key + at, own * load(tile.q + at));
      }
    }
  }

  static void add(Real* to, Vector<Real> x) { store<Real>(to, load(to) + x); }

  const Widths width_;
  Real *dqg_, *dbk_, *dkg_;
  Real *entry_, *end_, *block_entry_, *block_end_;
  Real *past_, *later_;                   // keys decayed to, and their gradients decayed from, a block border
  Real *reached_, *left_;                 // rows × k: terms that reach a row from before its block; that leave a key for behind its block
  Real *daqk_, *dakk_;
  Real *state_turned_, *d_state_turned_, *steps_turned_;
  Real *pair_q_, *pair_k_;                // kBlock × k: one pair of blocks
  Real *crossing_, *entered_, *left_block_;  // blocks × k: terms over a whole block; from the entry into it; from it to the end
  Real* sum_;                             // k
};

}  // namespace megatoken::kda
