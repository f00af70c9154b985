// Studies, goldens, published measurements and GPU descriptions as text.
#include <algorithm>
#include <map>

#include "harness/plan/text.hpp"
#include "reference/core/format.hpp"

namespace megatoken::plan {
namespace {

std::string number_text(double value, const std::string& unit) {
  if (unit == "B") return format_bytes(value);
  if (unit == "tokens") return with_commas(static_cast<int64_t>(value + 0.5));
  return format("{:.4f}", value);
}

}  // namespace

std::string study_text(const Study& study) {
  std::vector<std::string> head{study.x_label};
  std::map<double, std::map<std::string, double>> by_x;
  for (const auto& p : study.points) {
    if (std::find(head.begin() + 1, head.end(), p.series) == head.end()) head.push_back(p.series);
    by_x[p.x][p.series] = p.y;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [x, values] : by_x) {
    rows.push_back({with_commas(static_cast<int64_t>(x))});
    for (size_t i = 1; i < head.size(); ++i)
      rows.back().push_back(values.count(head[i]) ? number_text(values.at(head[i]), study.unit) : "–");
  }
  return format("{}: {}\n", study.name, study.title) + align_table(head, rows);
}

std::string ablation_text(const std::vector<AblationRow>& ablation, const Request& r) {
  std::vector<std::string> head{"technique"};
  std::vector<std::vector<std::string>> rows;
  std::map<std::string, size_t> places;
  for (const auto& row : ablation) {
    const std::string column = format("{} GPUs", row.gpus);
    if (std::find(head.begin(), head.end(), column) == head.end()) head.push_back(column);
    if (!places.count(row.technique)) {
      places[row.technique] = rows.size();
      rows.push_back({row.technique});
    }
    rows[places[row.technique]].push_back(row.tokens > 0 ? with_commas(row.tokens) : "–");
  }
  return format("longest sequence in tokens, {} on {}\n", r.model.name, r.gpu.name) + align_table(head, rows);
}

std::string goldens_text(const std::vector<Golden>& goldens) {
  std::vector<std::vector<std::string>> rows;
  int64_t agree = 0;
  for (const auto& g : goldens) {
    rows.push_back({g.id, g.ok() ? "ok" : "DIFFERS from " + g.expected(), g.exact, g.printed == g.exact ? "" : g.printed, g.quantity});
    agree += g.ok();
  }
  return align_table({"id", "", "exact", "printed", "quantity"}, rows) + format("{} of {} agree\n", agree, goldens.size());
}

std::string published_text(const std::vector<Published>& all) {
  std::vector<std::vector<std::string>> rows;
  int64_t stated = 0, stated_ok = 0, assumed = 0, assumed_ok = 0;
  for (const auto& p : all) {
    const std::string range = p.published_to > 0 ? format("{:g}–{:g}", p.published, p.published_to) : format("{:g}", p.published);
    rows.push_back({p.id, (p.standing == Standing::AtLeast ? "≥ " : "") + range, format("{:.4g}", p.predicted), p.unit,
                    p.standing == Standing::AtLeast ? "" : format("{:+.1f} %", 100 * p.relative_error()), p.agrees() ? "" : "off",
                    name_of(p.standing), p.quantity, p.conditions, p.source});
    if (p.standing == Standing::Stated) ++stated, stated_ok += p.agrees();
    if (p.standing == Standing::Assumed) ++assumed, assumed_ok += p.agrees();
  }
  std::string text = align_table({"id", "published", "predicted", "", "error", "", "standing", "quantity", "conditions", "source"}, rows);
  text +=
      format("fully stated: {} of {} within 5 %; with an assumption: {} of {}\n\nassumptions\n", stated_ok, stated, assumed_ok, assumed);
  std::vector<std::pair<std::string, std::string>> notes;  // assumption → ids
  for (const auto& p : all) {
    if (p.assumption.empty()) continue;
    const auto same = std::find_if(notes.begin(), notes.end(), [&](const auto& note) { return note.first == p.assumption; });
    if (same == notes.end())
      notes.push_back({p.assumption, p.id});
    else
      same->second += " " + p.id;
  }
  for (const auto& [assumption, ids] : notes) text += format("  {}: {}\n", ids, assumption);
  return text + format("working-set factor of SkyRL's stack: {:.3f}\n", skyrl_working_set_factor());
}

std::string gpu_text(const Gpu& gpu) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, number] : described(gpu)) rows.push_back({name, format("{:.4g}", number.value), number.unit, number.source});
  return gpu.name + "\n" + align_table({"field", "value", "unit", "source"}, rows);
}

}  // namespace megatoken::plan
