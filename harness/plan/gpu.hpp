// What the planner knows about a GPU and the node it sits in: sizes and rates, each with the source of its number.
// Files: harness/plan/gpus/*.toml, or one of your own in the same form.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace megatoken::plan {

struct Sourced {
  double value = 0;
  std::string unit, source;
};

struct Gpu {
  std::string name;
  Sourced memory;                                // B that a program can allocate
  Sourced memory_bandwidth;                      // B/s
  Sourced bf16_peak;                             // FLOP/s, dense
  Sourced gemm;                                  // FLOP/s sustained by large matrix products
  Sourced attention_forward, attention_backward; // FLOP/s sustained
  Sourced link;                                  // B/s per direction, inside one NVLink domain
  Sourced network;                               // B/s per direction and GPU, between domains
  Sourced host_link;                             // B/s per direction, pinned memory
  Sourced host_memory;                           // B of one host
  Sourced node_gpus;                             // GPUs in one NVLink domain
  Sourced tray_gpus;                             // GPUs that share one host's memory

  int64_t capacity() const { return static_cast<int64_t>(memory.value); }
  /// Rate between the ranks of a group whose members are `stride` ranks apart and `size` many: the link inside a domain, else the network.
  double rate_between(int64_t size, int64_t stride) const;
};

/// Name of a description that comes with the program, or the path of a TOML file.
Gpu load_gpu(const std::string& name_or_path);
Gpu parse_gpu(std::string_view toml, const std::string& where);
std::vector<std::string> known_gpus();

/// Every number of a description with its unit and source, in the order of the struct.
std::vector<std::pair<std::string, Sourced>> described(const Gpu& gpu);

}  // namespace megatoken::plan
