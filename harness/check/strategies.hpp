// The strategies by which a result is held against the truth, from "every element" to "a few rows of a million tokens".
#pragma once
#include <string>
#include <vector>

#include "harness/check/check.hpp"
#include "harness/check/subject.hpp"

namespace megatoken {

/// Everything a strategy looks at.
struct Evidence {
  const Subject& subject;
  const Case& test;
  const Problem& problem;  // host, filled
  const SubjectRun& run;   // what the subject made of it
  const Tolerances& tolerances;
  int threads = 1;
  TokenSource tokens;
};

using Checks = std::vector<Check>;

/// Every element against the oracle.
Checks check_full(const Evidence& evidence);
/// Sampled indices of one axis, recomputed alone (rows, cols, scan): first, last, block and shard edges ± 1, random ones. A scan
/// recomputes whole sequences, so it takes fewer of them, two at least, when `samples` would cost more than `scan_flops`.
Checks check_slice(const Evidence& evidence, const Slice& slice, int64_t samples, double scan_flops);
/// Causal components: the first tokens of the long run must be what a short problem gives.
Checks check_prefix(const Evidence& evidence);
/// A short document placed deep inside a long packed sequence must come out as it does alone.
Checks check_shift(const Evidence& evidence);
/// Schemes: the ranks together against one rank with the same block variant.
Checks check_shards(const Evidence& evidence);
/// Schemes: the bytes in every rank's ledger against the scheme's formula, exactly.
Checks check_ledger(const Evidence& evidence);
/// Inputs whose sums are exact: no element may differ.
Checks check_exact(const Evidence& evidence);
/// The same call again gives the same bits (if the variant says so), `calls` times, after a call on other data.
/// Also sets `deterministic` to what was seen.
Checks check_repeat(const Evidence& evidence, int calls, bool& deterministic);
/// Canaries, unchanged inputs.
Checks check_hygiene(const Evidence& evidence);

/// Index fields that hold documents; empty when the component knows none.
std::vector<size_t> document_fields(const Component& component);
/// Sample of [0, n): the borders where code goes wrong, then random ones up to `count`; sorted, unique.
std::vector<int64_t> sample_indices(int64_t n, int64_t count, int ranks, uint64_t seed);

}  // namespace megatoken
