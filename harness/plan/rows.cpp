// The plan_* tables of a result file.
#include <map>

#include "harness/plan/output.hpp"
#include "harness/store/result_file.hpp"

namespace megatoken::plan {
namespace {

void append_memory(ResultFile& file, const Request& r) {
  const MemoryPlan memory = plan_memory(r);
  const std::string label = describe_layout(r);
  Table& table = file.table("plan_memory");
  for (int i = 0; i < kCategories; ++i)
    table.append({{"model", r.model.name},
                  {"gpu", r.gpu.name},
                  {"label", label},
                  {"tokens", r.tokens},
                  {"category", name_of(static_cast<Category>(i))},
                  {"bytes", memory.categories[i]},
                  {"capacity", memory.capacity}});
  table.append({{"model", r.model.name},
                {"gpu", r.gpu.name},
                {"label", label},
                {"tokens", r.tokens},
                {"category", "host"},
                {"bytes", memory.host},
                {"capacity", memory.host_capacity}});
}

/// Few enough words that a figure has one colour for each.
std::string group_of(const TimeTerm& term) {
  static const std::map<std::string, std::string> kGroups{{"projections", "dense layers"},
                                                          {"mlp", "dense layers"},
                                                          {"head", "dense layers"},
                                                          {"indexer projections", "dense layers"},
                                                          {"streams", "dense layers"},
                                                          {"sparse attention", "attention"},
                                                          {"tensor parallel", "tensor parallel traffic"},
                                                          {"index ids", "tensor parallel traffic"},
                                                          {"context parallel", "context parallel traffic"},
                                                          {"experts traffic", "expert traffic"},
                                                          {"expert copies", "expert traffic"}};
  const std::string name = term.name.substr(0, term.name.find(" ("));
  const auto found = kGroups.find(term.communication && name == "experts" ? "experts traffic" : name);
  if (found != kGroups.end()) return found->second;
  return term.communication ? "state and offload traffic" : name;
}

void append_time(ResultFile& file, const Request& r, const std::string& label) {
  std::vector<std::string> order;
  std::map<std::string, std::pair<double, int64_t>> groups;
  for (const TimeTerm& term : plan_time(r).terms) {
    const std::string name = group_of(term);
    if (!groups.count(name)) order.push_back(name);
    groups[name].first += term.seconds;
    groups[name].second += term.bytes;
  }
  for (const auto& name : order)
    file.table("plan_time")
        .append({{"model", r.model.name},
                 {"gpu", r.gpu.name},
                 {"label", label},
                 {"cp", r.layout.cp},
                 {"tokens", r.tokens},
                 {"term", name},
                 {"seconds", groups[name].first},
                 {"bytes", groups[name].second}});
}

}  // namespace

std::vector<Request> lengths_around(const Request& request) {
  std::vector<Request> all;
  Request r = request;
  for (r.tokens = std::max<int64_t>(request.tokens / 32, 1); r.tokens <= 2 * request.tokens; r.tokens *= 2)
    if (why_invalid(r).empty()) all.push_back(r);
  return all;
}

std::vector<Request> context_degrees(const Request& request) {
  std::vector<Request> all;
  const int64_t ranks = request.layout.cp * request.layout.dp;
  for (int64_t cp = 1; cp <= ranks; ++cp) {
    if (ranks % cp != 0) continue;
    Request r = request;
    r.layout.cp = cp;
    r.layout.dp = ranks / cp;
    if (why_invalid(r).empty()) all.push_back(r);
  }
  return all;
}

void append_rows(ResultFile& file, const Output& o, const Request& request) {
  if (o.plans.size() == 1 && o.considered == 0) {
    for (const Request& r : lengths_around(request)) append_memory(file, r);
    const std::string label = format("{} GPUs, tp{}", request.layout.gpus(), request.layout.tp);
    for (const Request& r : context_degrees(request)) append_time(file, r, label);
  } else {
    for (const Plan& plan : o.plans) append_memory(file, plan.request), append_time(file, plan.request, describe_layout(plan.request));
  }
  for (const auto& row : o.ablation)
    file.table("plan_longest")
        .append({{"model", request.model.name},
                 {"gpu", request.gpu.name},
                 {"technique", row.technique},
                 {"gpus", row.gpus},
                 {"tokens", row.tokens}});
  for (const Study& study : o.studies)
    for (const auto& p : study.points)
      file.table("plan_study")
          .append({{"study", study.name},
                   {"title", study.title},
                   {"series", p.series},
                   {"x_label", study.x_label},
                   {"x", p.x},
                   {"y_label", study.y_label},
                   {"y", p.y},
                   {"unit", study.unit}});
  for (const auto& g : o.goldens)
    file.table("plan_golden")
        .append({{"id", g.id},
                 {"quantity", g.quantity},
                 {"exact", g.exact},
                 {"printed", g.printed},
                 {"expected", g.expected()},
                 {"ok", g.ok()}});
  for (const auto& p : o.published)
    file.table("plan_published")
        .append({{"id", p.id},
                 {"quantity", p.quantity},
                 {"source", p.source},
                 {"conditions", p.conditions},
                 {"unit", p.unit},
                 {"published", p.published},
                 {"predicted", p.predicted},
                 {"relative_error", p.relative_error()},
                 {"standing", name_of(p.standing)},
                 {"assumption", p.assumption}});
}

}  // namespace megatoken::plan
