// One JSON object with a member per section.
#include <nlohmann/json.hpp>

#include "harness/plan/output.hpp"

namespace megatoken::plan {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const MemoryPlan& m) {
  Json categories, largest, parts, timeline = Json::array();
  for (int i = 0; i < kCategories; ++i) {
    categories[name_of(static_cast<Category>(i))] = m.categories[i];
    largest[name_of(static_cast<Category>(i))] = m.largest[i];
  }
  for (int i = 0; i < kParts; ++i)
    if (m.working_set.parts[i] > 0) parts[name_of(static_cast<Part>(i))] = m.working_set.parts[i];
  for (const auto& moment : m.timeline) timeline.push_back({{"where", moment.where}, {"bytes", moment.bytes}});
  return {{"peak", m.peak},
          {"where", m.where},
          {"capacity", m.capacity},
          {"fits", m.fits()},
          {"categories", categories},
          {"largest", largest},
          {"fattest_layer",
           {{"mixer", name_of(m.fattest.mixer)}, {"mlp", name_of(m.fattest.mlp)}, {"where", m.working_set.where}, {"parts", parts}}},
          {"host", {{"bytes", m.host}, {"inputs", m.host_inputs}, {"capacity", m.host_capacity}}},
          {"timeline", timeline}};
}

Json to_json(const Request& r) {
  const Layout& l = r.layout;
  return {{"model", r.model.name},
          {"gpu", r.gpu.name},
          {"tokens", r.tokens},
          {"gpus", l.gpus()},
          {"tp", l.tp},
          {"cp", l.cp},
          {"dp", l.dp},
          {"pp", l.pp},
          {"ep", l.ep},
          {"etp", l.etp},
          {"micro_batches", r.micro_batches},
          {"scheme", name_of_choice(r.scheme)},
          {"recompute", name_of_choice(r.techniques.recompute)},
          {"offload", name_of_choice(r.techniques.offload)},
          {"optimizer", name_of_choice(r.techniques.optimizer)},
          {"zero", r.techniques.zero},
          {"layout", describe_layout(r)}};
}

Json to_json(const Plan& plan) {
  Json flops = Json::array(), traffic = Json::array(), terms = Json::array();
  for (const auto& c : plan.flops)
    flops.push_back({{"component", c.component}, {"forward", c.forward}, {"backward", c.backward}, {"recompute", c.recompute}});
  for (const auto& t : plan.traffic)
    traffic.push_back({{"purpose", t.purpose},
                       {"layer", t.layer},
                       {"over", name_of(t.link)},
                       {"layers", t.layers},
                       {"forward", t.forward},
                       {"recompute", t.recompute},
                       {"backward", t.backward},
                       {"total", t.total()}});
  for (const auto& t : plan.time.terms)
    terms.push_back({{"term", t.name}, {"communication", t.communication}, {"seconds", t.seconds}, {"busy", t.busy}, {"bytes", t.bytes}});
  Json json{{"request", to_json(plan.request)},
            {"memory", to_json(plan.memory)},
            {"flops", flops},
            {"traffic", traffic},
            {"time",
             {{"step", plan.time.step},
              {"compute", plan.time.compute},
              {"exposed", plan.time.exposed},
              {"bubble", plan.time.bubble},
              {"tokens_per_second", plan.time.tokens_per_second},
              {"mfu", plan.time.mfu},
              {"terms", terms}}},
            {"longest", plan.longest}};
  if (plan.change)
    json["cheapest_change"] = {
        {"what", plan.change->what}, {"slowdown", plan.change->slowdown}, {"request", to_json(plan.change->request)}};
  return json;
}

}  // namespace

std::string to_json(const Output& o) {
  Json json = Json::object();
  for (const Plan& plan : o.plans) json["plans"].push_back(to_json(plan));
  if (o.considered > 0) json["search"] = {{"considered", o.considered}, {"fitting", o.fitting}};
  for (const Study& study : o.studies) {
    Json points = Json::array();
    for (const auto& p : study.points) points.push_back({{"series", p.series}, {"x", p.x}, {"y", p.y}});
    json["studies"].push_back({{"name", study.name},
                               {"title", study.title},
                               {"x", study.x_label},
                               {"y", study.y_label},
                               {"unit", study.unit},
                               {"points", points}});
  }
  for (const auto& row : o.ablation) json["longest"].push_back({{"technique", row.technique}, {"gpus", row.gpus}, {"tokens", row.tokens}});
  for (const auto& g : o.goldens)
    json["goldens"].push_back(
        {{"id", g.id}, {"quantity", g.quantity}, {"exact", g.exact}, {"printed", g.printed}, {"expected", g.expected()}, {"ok", g.ok()}});
  for (const auto& p : o.published)
    json["published"].push_back({{"id", p.id},
                                 {"quantity", p.quantity},
                                 {"source", p.source},
                                 {"conditions", p.conditions},
                                 {"unit", p.unit},
                                 {"published", p.published},
                                 {"predicted", p.predicted},
                                 {"relative_error", p.relative_error()},
                                 {"standing", name_of(p.standing)},
                                 {"agrees", p.agrees()},
                                 {"assumption", p.assumption}});
  return json.dump(2) + "\n";
}

}  // namespace megatoken::plan
