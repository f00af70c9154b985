// How far a tensor is from what it should be.
#pragma once
#include <cmath>
#include <string>

#include "reference/core/tensor.hpp"

namespace megatoken {

struct Comparison {
  double rel_rms = 0;           // ‖got − want‖ / ‖want‖; ‖got‖ when want is 0
  double max_error = 0;         // max |got − want| / RMS(want)
  double cosine_distance = 0;   // 1 − cos(got, want)
  double tail = 0;              // max |got − want| / max(|want|, RMS(want)): the worst element, large ones by their own size
  double outlier_fraction = 0;  // elements beyond outlier_limit on that scale
  int64_t compared = 0;
  int64_t nonfinite = 0;        // infinite or NaN where it should not be, or the wrong infinity
  int64_t wrong = 0;            // elements that differ at all
  int64_t worst = 0;            // flat index of the largest difference
  double worst_got = 0, worst_want = 0;
};

/// Host tensors of equal shape, any dtypes. Equal infinities agree (lse of a row without keys). A NaN never passes:
/// rel_rms becomes infinite.
Comparison compare(const TensorView& got, const TensorView& want, double outlier_limit = INFINITY);

/// True when the bytes are the same.
bool same_bits(const TensorView& a, const TensorView& b);

/// "b=0,t=1048575,h=3" for a flat index into a layout "b t h".
std::string coordinate(const std::string& layout, const Dims& shape, int64_t flat);

}  // namespace megatoken
