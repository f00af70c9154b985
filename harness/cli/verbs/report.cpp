// report: result files → HTML, figures and tables, by the Python package reports/.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "harness/cli/arguments.hpp"
#include "harness/cli/verb.hpp"
#include "harness/store/build_info.hpp"
#include "harness/store/result_file.hpp"

namespace megatoken {
namespace {

constexpr const char* kAbout = "result files → HTML, PNG, SVG and CSV";

/// reports/build.py beside the program when that was moved as a whole, else in the source tree it was built from.
std::filesystem::path find_script() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const auto& root : {program, program.parent_path(), program.parent_path().parent_path(), std::filesystem::path(build_info().source_root)})
    if (std::filesystem::exists(root / "reports" / "build.py")) return root / "reports" / "build.py";
  throw Error(ErrorKind::Environment, "reports/build.py is not beside this program", "keep the reports folder next to it");
}

int run_program(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execvp(pointers[0], pointers.data());
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) throw Error(ErrorKind::Environment, format("cannot start {}: {}", arguments[0], std::strerror(errno)));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 127) return WEXITSTATUS(status);
  throw Error(ErrorKind::Environment, format("{} did not run to its end", arguments[0]), "give a Python with numpy, h5py, matplotlib and jinja2: --python PATH");
}

int run(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  std::string output = "report", python = build_info().plot_python;
  parse_arguments("report", kAbout, {{"-o,--output", "folder of the report", &output}, {"--python", "Python with numpy, h5py, matplotlib and jinja2", &python}},
                  {"FILE", "result files", &files}, arguments);
  MEGATOKEN_CHECK(!files.empty(), "report needs at least one result file");
  for (const auto& file : files) ResultReader reader(file);  // damaged or foreign files are refused here, before anything is drawn
  if (python.empty()) throw Error(ErrorKind::Environment, "no Python with numpy, h5py, matplotlib and jinja2 was found when this was built", "run ./run deps and build again, or give --python PATH");
  std::vector<std::string> command{python, find_script().string()};
  command.insert(command.end(), files.begin(), files.end());
  command.insert(command.end(), {"-o", output});
  return run_program(std::move(command));
}

const Registered<Verb> registered{{"report", kAbout, run}};

}  // namespace
}  // namespace megatoken
