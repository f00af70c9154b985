// Source files as the architecture rules see them: path from the root, lines with comments and literals blanked out.
#pragma once
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace megatoken::architecture {

/// `text` with comments and the insides of literals replaced by blanks, so that a rule about code is not upset by prose.
/// Line breaks stay; so do #include lines, whose quotes are code.
inline std::string code_of(std::string_view text) {
  std::string code(text);
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < std::min(to, code.size()); ++i)
      if (code[i] != '\n') code[i] = ' ';
  };
  const auto find = [&](std::string_view what, size_t from) { return std::min(text.find(what, from), text.size()); };
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const bool line_start = i == 0 || text[i - 1] == '\n';
    const bool after_word = i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) || text[i - 1] == '_');
    size_t end = i + 1;
    if (line_start && rest.starts_with("#include")) {
      end = find("\n", i);
    } else if (rest.starts_with("//")) {
      end = find("\n", i);
      blank(i, end);
    } else if (rest.starts_with("/*")) {
      end = find("*/", i + 2) + 2;
      blank(i, end);
    } else if (rest.starts_with("R\"") && !after_word) {
      const size_t open = find("(", i);
      const std::string close = ")" + std::string(text.substr(i + 2, open - i - 2)) + "\"";
      end = find(close, open) + close.size();
      blank(i + 2, end - 1);
    } else if (rest[0] == '"' || (rest[0] == '\'' && !after_word)) {  // a quote after a digit separates thousands
      while (end < text.size() && text[end] != rest[0] && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      blank(i + 1, end);
      ++end;
    }
    i = end;
  }
  return code;
}

struct Source {
  std::string path;  // from the root, "reference/core/tensor.hpp"
  std::string text;
  std::vector<std::string> code;  // lines

  Source(std::string path_, std::string text_) : path(std::move(path_)), text(std::move(text_)) {
    std::istringstream lines(code_of(text));
    for (std::string line; std::getline(lines, line);) code.push_back(line);
  }
  std::string floor() const { return path.substr(0, path.find('/')); }
  std::string extension() const { return std::filesystem::path(path).extension().string(); }
  std::string stem() const { return std::filesystem::path(path).stem().string(); }
  bool below(std::string_view folder) const { return path.starts_with(folder); }
  bool is_header() const { return extension() == ".hpp" || extension() == ".cuh" || extension() == ".h"; }
  bool is_kernel() const { return extension() == ".cu" || extension() == ".cuh"; }
};

/// Every C++ and CUDA file of the project.
inline std::vector<Source> project_sources(const std::filesystem::path& root) {
  std::vector<Source> sources;
  for (const char* floor : {"reference", "optimized", "harness", "datasets", "tests"}) {
    if (!std::filesystem::exists(root / floor)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / floor)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".hpp" && extension != ".cpp" && extension != ".cu" && extension != ".cuh" && extension != ".h") continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      sources.emplace_back(entry.path().lexically_relative(root).string(), text.str());
    }
  }
  std::ranges::sort(sources, {}, &Source::path);
  return sources;
}

}  // namespace megatoken::architecture
