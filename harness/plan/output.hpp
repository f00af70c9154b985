// Plans as JSON and as rows of a result file.
#pragma once
#include <string>
#include <vector>

#include "harness/plan/goldens.hpp"
#include "harness/plan/plan.hpp"
#include "harness/plan/published.hpp"
#include "harness/plan/study.hpp"

namespace megatoken {
class ResultFile;
}

namespace megatoken::plan {

/// Everything one call computed; what is empty is left out.
struct Output {
  std::vector<Plan> plans;               // one plan, or the best of a search
  int64_t considered = 0, fitting = 0;   // of a search
  std::vector<Study> studies;
  std::vector<AblationRow> ablation;
  std::vector<Golden> goldens;
  std::vector<Published> published;
};

std::string to_json(const Output& output);

/// Tables plan_memory, plan_time, plan_longest, plan_study, plan_golden and plan_published. For a single plan, plan_memory holds lengths
/// around the planned one and plan_time every context-parallel degree that keeps the number of GPUs.
void append_rows(ResultFile& file, const Output& output, const Request& request);

/// The same layout at powers of two of its length, a few below and above, as far as they are valid.
std::vector<Request> lengths_around(const Request& request);
/// The same GPUs with context- traded for data-parallel ranks.
std::vector<Request> context_degrees(const Request& request);

}  // namespace megatoken::plan
