// megatoken <verb> …: finds the verb, turns errors into one line and an exit code.
#include <malloc.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <new>

#include "harness/cli/arguments.hpp"
#include "harness/cli/verb.hpp"
#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

int usage() {
  std::cout << "megatoken <verb> [selector...] [options]\n\n";
  for (const Verb* verb : Registry<Verb>::instance().all()) std::cout << "  " << verb->name << std::string(12 - std::min<size_t>(verb->name.size(), 11), ' ') << verb->summary << "\n";
  std::cout << "\nmegatoken <verb> --help describes a verb's options\n";
  return kPassed;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "help" || arguments[0] == "--help" || arguments[0] == "-h") return usage();
  std::vector<std::string> names;
  for (const Verb* verb : Registry<Verb>::instance().all()) {
    if (verb->name == arguments[0]) return verb->run({arguments.begin() + 1, arguments.end()});
    names.push_back(verb->name);
  }
  throw_unknown_name("verb", arguments[0], names);
}

}  // namespace
}  // namespace megatoken

int main(int count, char** values) {
  using namespace megatoken;
  // Large blocks go back to the system when freed, so that resident memory says what a case needs.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is one error of the write, like a full disk, not a kill
  try {
    return run({values + 1, values + count});
  } catch (const HelpShown&) {
    return kPassed;
  } catch (const Error& error) {
    std::cerr << "megatoken: " << error.what() << "\n";
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    std::cerr << "megatoken: out of memory; use fewer tokens or heads\n";
    return kEnvironment;
  } catch (const std::exception& error) {
    std::cerr << "megatoken: " << error.what() << "\n";
    return kEnvironment;
  }
}
