// MEGATOKEN_HD marks the few small functions that run with the same bits on host and device.
#pragma once
#ifdef __CUDACC__
#define MEGATOKEN_HD __host__ __device__
#else
#define MEGATOKEN_HD
#endif
