// Resident memory from /proc: what the operating system says, not what an allocator claims.
#include <malloc.h>

#include <fstream>
#include <string>

#include "harness/measure/timer.hpp"

namespace megatoken {
namespace {

int64_t status_field(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(name + ":", 0) == 0) return std::stoll(line.substr(name.size() + 1)) * 1024;
  return -1;
}

}  // namespace

int64_t resident_memory() { return status_field("VmRSS"); }
int64_t peak_memory() { return status_field("VmHWM"); }
void reset_peak_memory() {
  malloc_trim(0);  // what the checks before have freed would be used again without counting
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace megatoken
