// Loops over many threads.
#pragma once
#include <cstdint>
#include <functional>

namespace megatoken {

/// Hardware threads this process may use.
int hardware_threads();

/// Calls work(i) for every i in [0, count) on `threads` threads, in increasing order of i within what each thread takes.
/// Work items are handed out one by one, so uneven items balance. The first exception is thrown again here, after all threads stopped.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t)>& work);

}  // namespace megatoken
