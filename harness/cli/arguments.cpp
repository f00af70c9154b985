#include "harness/cli/arguments.hpp"

#include <CLI/CLI.hpp>
#include <iostream>

#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

/// "-o,--output" → {"-o", "--output"}
std::vector<std::string> all_names(const std::vector<Flag>& flags) {
  std::vector<std::string> names{"--help"};
  for (const auto& flag : flags)
    for (const auto& name : split(flag.names, ',')) names.push_back(name);
  return names;
}

void check_names(const std::string& verb, const std::vector<Flag>& flags, const std::vector<std::string>& arguments) {
  const auto names = all_names(flags);
  for (const auto& argument : arguments) {
    if (argument == "--") return;
    if (argument.rfind("--", 0) != 0) continue;
    const std::string name = argument.substr(0, argument.find('='));
    if (std::find(names.begin(), names.end(), name) == names.end()) throw_unknown_name("option of " + verb, name, names);
  }
}

}  // namespace

void parse_arguments(const std::string& verb, const std::string& about, const std::vector<Flag>& flags, const Positional& positional,
                     const std::vector<std::string>& arguments) {
  CLI::App app(about, "megatoken " + verb);
  for (const auto& flag : flags)
    std::visit(
        [&](auto* target) {
          using Target = std::remove_pointer_t<decltype(target)>;
          if constexpr (std::is_same_v<Target, bool>) app.add_flag(flag.names, *target, flag.help);
          else if constexpr (std::is_same_v<Target, std::vector<std::string>>) app.add_option(flag.names, *target, flag.help)->expected(1)->take_all()->allow_extra_args(false);
          else app.add_option(flag.names, *target, flag.help)->capture_default_str();
        },
        flag.target);
  if (positional.target) app.add_option(positional.name, *positional.target, positional.help);
  check_names(verb, flags, arguments);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    throw HelpShown{};
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::Usage, format("{}: {}", verb, error.what()), format("see megatoken {} --help", verb));
  }
}

}  // namespace megatoken
