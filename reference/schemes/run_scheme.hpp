// Runs a scheme on ranks that are threads of this process: cuts a whole problem by the scheme's layout, lets every rank
// compute, and puts the results together again, so that they can be held against one rank.
#pragma once
#include <vector>

#include "reference/comm/local.hpp"
#include "reference/core/problem.hpp"
#include "reference/schemes/scheme.hpp"

namespace megatoken {

struct SchemeRun {
  Problem result;               // the whole problem: its inputs, and the outputs and gradients that the ranks computed
  std::vector<Ledger> ledgers;  // of every rank; phases "fwd…" and "bwd…"
  double seconds = 0;           // from the moment all ranks were ready until the last was done, without cutting and collecting
};

/// `whole`: filled, on the host. Phase::Backward alone takes the forward outputs from it. Results nobody writes are NaN, and so
/// is every element of a replicated result on which the ranks do not agree to the bit.
/// Throws a usage error with the reason when the scheme refuses the case; a failing rank is named.
SchemeRun run_scheme(const Scheme& scheme, const Variant& block, const Problem& whole, int ranks, Phase phase, int threads_per_rank = 1,
                     const LocalOptions& options = {});

/// "" or why the scheme or the block variant cannot run this case.
std::string scheme_unsupported(const Scheme& scheme, const Variant& block, const Axes& global, DType dtype, int ranks, Phase phase);

/// The tensors of one rank: rows of the token axes as layout.tokens[rank] says. Padding rows are 0 in data and −1 in index tensors;
/// tensors without a token axis are copied; results are NaN.
Problem shard(const Problem& whole, const Layout& layout, int rank, bool forward_outputs);

}  // namespace megatoken
