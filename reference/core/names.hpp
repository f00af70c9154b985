// Names typed by people: nearest valid ones for error messages, and globs for selectors.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace megatoken {

/// The (at most three) candidates closest to `word` by edit distance, best first; empty when nothing is near.
std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& candidates);

/// "unknown variant 'onlin_softmax'", with the hint "did you mean online_softmax?" or the list of valid names.
[[noreturn]] void throw_unknown_name(std::string_view what, std::string_view word, const std::vector<std::string>& candidates);

/// Shell-like match: * any run of characters, ? one character.
bool matches_glob(std::string_view text, std::string_view pattern);

std::string join(const std::vector<std::string>& words, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace megatoken
