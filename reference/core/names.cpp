#include "reference/core/names.hpp"

#include <algorithm>
#include <numeric>

#include "reference/core/error.hpp"

namespace megatoken {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& candidates) {
  std::vector<std::pair<size_t, std::string>> scored;
  for (const auto& candidate : candidates) {
    const bool part = word.size() >= 2 && candidate.find(word) != std::string::npos;
    const size_t distance = part && word != candidate ? 1 : edit_distance(word, candidate);
    if (part || distance <= std::max<size_t>(2, word.size() / 2)) scored.emplace_back(distance, candidate);
  }
  std::sort(scored.begin(), scored.end());
  std::vector<std::string> names;
  for (const auto& [distance, name] : scored)
    if (names.size() < 3 && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

void throw_unknown_name(std::string_view what, std::string_view word, const std::vector<std::string>& candidates) {
  const auto near = nearest_names(word, candidates);
  throw Error(ErrorKind::Usage, format("unknown {} '{}'", what, word),
              near.empty() ? format("valid: {}", join(candidates, ", ")) : format("did you mean {}?", join(near, ", ")));
}

bool matches_glob(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0, star = pattern.npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++t, ++p;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i) text += separator;
    text += words[i];
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace megatoken
