// dump: one case as a file of tensors, for programs in other languages to compute; judge says whether they got it right.
#include <iostream>

#include "harness/cli/run_flags.hpp"
#include "harness/cli/verb.hpp"
#include "harness/run/case_file.hpp"
#include "harness/run/selection.hpp"
#include "harness/run/token_source.hpp"
#include "harness/store/tensor_file.hpp"

namespace megatoken {
namespace {

constexpr const char* kAbout = "write the inputs of a case and the oracle's results to a file";

/// The one problem that the words select; all variants of a component share it.
Case one_case(const std::vector<std::string>& words) {
  Selection selection = parse_words(words);
  const auto has = [&](const std::string& name) {
    return std::any_of(selection.settings.begin(), selection.settings.end(), [&](const std::string& s) { return s.starts_with(name + "="); });
  };
  if (!has("dist")) selection.settings.push_back("dist=normal");
  const auto cases = expand(selection);
  for (const Case& other : cases)
    MEGATOKEN_CHECK(other.component == cases[0].component && other.problem() == cases[0].problem() && other.phase == cases[0].phase,
                    "dump writes one case; the words select '{}' and '{}'", cases[0].problem(), other.problem());
  Case test = cases[0];
  test.variant = "cpu";
  test.scheme.clear();
  test.ranks = 1;
  return test;
}

int run(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  std::string output, tokens, data;
  bool inputs_only = false;
  int64_t threads = 0;
  parse_arguments("dump", kAbout,
                  {{"-o,--output", "FILE.h5 or FILE.safetensors, never overwritten", &output},
                   {"--inputs-only", "leave the oracle's results out (long sequences)", &inputs_only},
                   {"--tokens,--text,--fasta", "data set or file for distribution tokens", &tokens},
                   {"--data", "data folder", &data},
                   {"--threads", "CPU threads (default: all)", &threads}},
                  {"CASE", "component, axes and other words of a key", &words}, arguments);
  MEGATOKEN_CHECK(!output.empty(), "dump needs a file to write; add -o FILE.h5 or -o FILE.safetensors");
  check_tensor_file_name(output);
  const Case test = one_case(words);
  CheckOptions options;
  options.threads = threads > 0 ? static_cast<int>(threads) : hardware_threads();
  options.tokens = open_tokens(tokens, data).source;
  write_case(output, test, options, !inputs_only);
  std::cout << output << ": " << test.key() << "\n";
  return kPassed;
}

const Registered<Verb> registered{{"dump", kAbout, run}};

}  // namespace
}  // namespace megatoken
