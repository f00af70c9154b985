// Published measurements beside the plan's prediction for the same conditions. Nothing here is fitted row by row: where a source leaves a
// condition open, the assumption is printed; the one calibrated constant is named and used for every row of its software.
#pragma once
#include <string>
#include <vector>

namespace megatoken::plan {

enum class Standing {
  Stated,       // the source states every condition the prediction needs
  Assumed,      // something had to be assumed
  Calibration,  // this row sets the calibrated constant; it predicts nothing
  AtLeast,      // the source gives a bound: out of memory, "over 1 TB"
  Floor,        // the prediction is what the hardware allows; the run's own rates are not stated
};
const char* name_of(Standing standing);

struct Published {
  std::string id, quantity, source, conditions, unit;
  double published = 0, predicted = 0;
  Standing standing = Standing::Stated;
  std::string assumption;
  double published_to = 0;      // upper end where the source gives a range
  /// Against the nearer end of a range, 0 inside it.
  double relative_error() const;
  /// Within 5 %, or the bound kept; always true for calibration and floors.
  bool agrees() const;
};

std::vector<Published> run_published();

/// Working set of SkyRL's Megatron stack over the derived one, from its 98 GiB at 256k tokens with offload: unequal experts, the allocator
/// and temporaries of the software that its sources do not describe.
double skyrl_working_set_factor();

// The parts of run_published().
std::vector<Published> published_skyrl();
std::vector<Published> published_alst();

}  // namespace megatoken::plan
