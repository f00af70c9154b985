// One loop text for host and device: a naive reference written as loop(count, "what", body) runs as a threaded loop on the
// CPU (CpuLoop) and as one thread per index on a GPU (GpuLoop in launch.cuh). Bodies are MEGATOKEN_HD lambdas by value.
#pragma once
#include <algorithm>

#include "reference/core/host_device.hpp"
#include "reference/core/threads.hpp"

namespace megatoken {

struct CpuLoop {
  int threads = 1;

  template <class Body>
  void operator()(int64_t count, const char*, Body body) const {
    constexpr int64_t kBlock = 256;
    parallel_for((count + kBlock - 1) / kBlock, threads, [&](int64_t block) {
      for (int64_t i = block * kBlock, end = std::min(count, i + kBlock); i < end; ++i) body(i);
    });
  }
};

}  // namespace megatoken
