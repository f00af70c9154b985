// Declarative command-line options. An unknown flag is a usage error with the nearest valid names; --help prints and exits 0.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace megatoken {

struct Flag {
  std::string names;  // "-o,--output"
  std::string help;
  std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*> target;  // vectors collect repeated flags
};

struct Positional {
  std::string name, help;
  std::vector<std::string>* target = nullptr;  // nullptr: the verb takes none
};

/// Thrown after --help was printed; main turns it into exit code 0.
struct HelpShown {};

void parse_arguments(const std::string& verb, const std::string& about, const std::vector<Flag>& flags, const Positional& positional,
                     const std::vector<std::string>& arguments);

}  // namespace megatoken
