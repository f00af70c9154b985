#include "harness/run/balance_check.hpp"

#include <iostream>

#include "reference/core/axes.hpp"
#include "reference/core/error.hpp"
#include "reference/core/names.hpp"
#include "reference/schemes/balance.hpp"

namespace megatoken {
namespace {

constexpr int64_t kCountable = 4096;  // tokens that are counted pair by pair; beyond, the closed form alone

std::string list(const std::vector<int64_t>& values) {
  std::vector<std::string> words;
  for (int64_t v : values) words.push_back(format("{}", v));
  return join(words, " ");
}

}  // namespace

std::vector<std::string> check_balance(const std::vector<std::string>& sizes, ResultFile* file) {
  std::vector<std::string> wrong;
  if (!sizes.empty()) std::cout << "balance: visible (query, key) pairs of a causal ring\n";
  for (const auto& size : sizes) {
    const auto parts = split(size, ':');
    MEGATOKEN_CHECK(parts.size() == 2, "balance '{}' is not of the form tokens:ranks, as in 16:4", size);
    const auto tokens = static_cast<int64_t>(parse_number(parts[0], size)), ranks = static_cast<int64_t>(parse_number(parts[1], size));
    MEGATOKEN_CHECK(ranks >= 1 && tokens >= 2 * ranks && tokens % (2 * ranks) == 0, "balance '{}': tokens must be a multiple of 2·ranks", size);
    for (const auto& [split_kind, name] : {std::pair{TokenSplit::Contiguous, "ring"}, std::pair{TokenSplit::Zigzag, "zigzag"}}) {
      const PairCounts closed = causal_pairs(split_kind, tokens, ranks);
      const PairCounts counted = tokens <= kCountable ? count_causal_pairs(split_kind, tokens, ranks) : closed;
      if (!(counted == closed)) wrong.push_back(format("balance {} {}: counted pairs differ from the closed form", size, name));
      if (counted.total() != tokens * (tokens + 1) / 2) wrong.push_back(format("balance {} {}: {} pairs in all, not t(t+1)/2", size, name, counted.total()));
      std::cout << format("  {:>7} tokens {:>2} ranks {:<7} per rank {}; step sum {}; slowest/mean {:.2f}\n", tokens, ranks, name, list(counted.per_rank()), counted.step_sum(), counted.max_over_mean());
      if (!file) continue;
      for (size_t step = 0; step < counted.pairs.size(); ++step)
        for (size_t rank = 0; rank < counted.pairs[step].size(); ++rank)
          file->table("balance").append({{"result", -1}, {"scheme", name}, {"tokens", tokens}, {"ranks", ranks}, {"rank", static_cast<int64_t>(rank)},
                                         {"step", static_cast<int64_t>(step)}, {"pairs", counted.pairs[step][rank]}});
    }
  }
  return wrong;
}

}  // namespace megatoken
