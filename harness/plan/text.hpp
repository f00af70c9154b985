// Plans, searches, studies, goldens and published numbers as text.
#pragma once
#include <string>
#include <vector>

#include "harness/plan/goldens.hpp"
#include "harness/plan/plan.hpp"
#include "harness/plan/published.hpp"
#include "harness/plan/study.hpp"

namespace megatoken::plan {

/// Columns padded to equal width, two blanks between them; columns that hold numbers are aligned to the right.
std::string align_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

std::string plan_text(const Plan& plan, bool timeline);
std::string search_text(const SearchResult& result, const Request& request);
std::string study_text(const Study& study);
std::string ablation_text(const std::vector<AblationRow>& rows, const Request& request);
std::string goldens_text(const std::vector<Golden>& rows);
std::string published_text(const std::vector<Published>& rows);
std::string gpu_text(const Gpu& gpu);

/// "1Mi", or the plain number with thousands separated.
std::string format_tokens(int64_t tokens);

}  // namespace megatoken::plan
