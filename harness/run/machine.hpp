// The machine a run took place on, as rows of /devices.
#pragma once
#include "harness/store/table.hpp"

namespace megatoken {

/// The CPU and, when one is usable, the GPU of this process.
void append_devices(Table& devices);

}  // namespace megatoken
