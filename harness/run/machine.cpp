#include "harness/run/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "reference/core/device.hpp"
#include "reference/core/format.hpp"
#include "reference/core/threads.hpp"

namespace megatoken {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "";
}

}  // namespace

void append_devices(Table& devices) {
  utsname system{};
  uname(&system);
  devices.append({{"rank", 0}, {"index", 0}, {"kind", "cpu"}, {"name", cpu_name()}, {"arch", system.machine}, {"sm_count", hardware_threads()},
                  {"memory", static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)}, {"clock_policy", "as-is"}});
  if (gpu_count() > 0) devices.append({{"rank", 0}, {"index", 0}, {"kind", "gpu"}, {"name", gpu_name()}, {"arch", format("sm_{}", gpu_architecture())}, {"clock_policy", "as-is"}});
}

}  // namespace megatoken
