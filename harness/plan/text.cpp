// One function per section of a plan's text.
#include "harness/plan/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "reference/core/format.hpp"

namespace megatoken::plan {
namespace {

/// Terminal columns of a UTF-8 text: continuation bytes take none.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](unsigned char byte) { return (byte & 0xC0) != 0x80; }));
}

bool is_number(const std::string& text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-' || text[0] == '+' || text[0] == '.');
}

std::string percent(double part) { return format("{:.1f} %", 100 * part); }

std::string seconds(double value) { return value == 0 ? "0" : format_seconds(value); }

std::string of_capacity(const char* what, int64_t bytes, int64_t capacity) {
  return format("  {}: {} of {}, {}\n", what, format_bytes(static_cast<double>(bytes)), format_bytes(static_cast<double>(capacity)),
                bytes <= capacity ? "fits" : format("too much by {}", format_bytes(static_cast<double>(bytes - capacity))));
}

std::string memory_text(const MemoryPlan& m) {
  std::string text = format("memory of one GPU at the peak, {}\n", m.where);
  const char* meaning[kCategories] = {"",
                                      "",
                                      "fp32 weights and two moments",
                                      "layer inputs and whatever else waits for its backward",
                                      "the layer that runs",
                                      "",
                                      "gathered weights and reduction buffers"};
  std::vector<std::vector<std::string>> rows;
  for (int i = 0; i < kCategories; ++i)
    rows.push_back({name_of(static_cast<Category>(i)), format_bytes(static_cast<double>(m.categories[i])),
                    percent(static_cast<double>(m.categories[i]) / static_cast<double>(std::max<int64_t>(m.peak, 1))),
                    format_bytes(static_cast<double>(m.largest[i])), meaning[i]});
  text += align_table({"category", "at the peak", "share", "at most", ""}, rows);
  text += of_capacity("peak", m.peak, m.capacity);
  text += of_capacity("host memory per GPU", m.host, m.host_capacity);
  if (m.working_set.bytes > 0) {
    text += format("  fattest layer ({}, {}), {}:", name_of(m.fattest.mixer), name_of(m.fattest.mlp), m.working_set.where);
    for (int i = 0; i < kParts; ++i)
      if (m.working_set.parts[i] > 0)
        text += format(" {} {}", name_of(static_cast<Part>(i)), format_bytes(static_cast<double>(m.working_set.parts[i])));
    text += "\n";
  }
  return text;
}

std::string flops_text(const std::vector<ComponentFlops>& components) {
  std::vector<std::vector<std::string>> rows;
  const double total = total_flops(components);
  for (const auto& c : components)
    rows.push_back({c.component, format("{:.3e}", c.forward), format("{:.3e}", c.backward), format("{:.3e}", c.recompute),
                    percent(c.total() / total)});
  return format("\narithmetic of one sequence: {:.3e} FLOPs, {:.3e} without recompute\n", total, model_flops(components)) +
         align_table({"component", "forward", "backward", "recompute", "share"}, rows);
}

std::string traffic_text(const std::vector<TrafficTerm>& terms) {
  if (terms.empty()) return "\ntraffic: none\n";
  const auto bytes = [](int64_t value) { return value == 0 ? std::string("0") : format_bytes(static_cast<double>(value)); };
  std::vector<std::vector<std::string>> rows;
  std::array<int64_t, 3> over{};
  for (const auto& t : terms) {
    rows.push_back({t.purpose, t.layer, name_of(t.link), std::to_string(t.layers), bytes(t.forward), bytes(t.recompute), bytes(t.backward),
                    bytes(t.total())});
    over[static_cast<size_t>(t.link)] += t.total();
  }
  return "\ntraffic sent by one GPU, per layer and in all (one sequence)\n" +
         align_table({"purpose", "layer", "over", "layers", "forward", "recompute", "backward", "in all"}, rows) +
         format("  in all: {} over the link, {} over the network, {} to and from the host\n", bytes(over[0]), bytes(over[1]), bytes(over[2]));
}

std::string time_text(const TimePlan& t) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& term : t.terms)
    rows.push_back({term.name, seconds(term.seconds), term.communication ? seconds(term.busy) : "", percent(term.seconds / t.step)});
  return format("\ntime of a step: {} (arithmetic {}, exposed communication {}, pipeline bubble {})\n", seconds(t.step), seconds(t.compute),
                seconds(t.exposed), seconds(t.bubble)) +
         align_table({"term", "adds", "runs for", "share"}, rows) +
         format("  {} tokens/s on all GPUs, {} of the peak without recompute\n", with_commas(static_cast<int64_t>(t.tokens_per_second)),
                percent(t.mfu));
}

}  // namespace

std::string format_tokens(int64_t tokens) {
  const std::string text = format_count(tokens);
  return text == std::to_string(tokens) ? with_commas(tokens) : text;
}

std::string align_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  std::vector<bool> numeric(head.size(), false);
  for (const auto& word : head) widths.push_back(width(word));
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], width(row[i]));
      if (i > 0 && is_number(row[i])) numeric[i] = true;
    }
  std::string text;
  const auto line = [&](const std::vector<std::string>& words) {
    std::string out = "  ";
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string padding(widths[i] - width(words[i]), ' ');
      out += numeric[i] ? padding + words[i] : words[i] + padding;
      if (i + 1 < words.size()) out += "  ";
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  line(head);
  for (const auto& row : rows) line(row);
  return text;
}

std::string plan_text(const Plan& plan, bool timeline) {
  const Request& r = plan.request;
  std::string text =
      format("{} on {} {}, {} tokens, {}\n\n", r.model.name, r.layout.gpus(), r.gpu.name, format_tokens(r.tokens), describe_layout(r));
  text += memory_text(plan.memory) + flops_text(plan.flops) + traffic_text(plan.traffic) + time_text(plan.time);
  text += format("\nlongest sequence that fits this layout: {}\n", plan.longest > 0 ? format_tokens(plan.longest) + " tokens" : "none");
  if (!plan.memory.fits()) {
    if (plan.change)
      text += format("cheapest change that makes it fit: {}; {} of the time per token and GPU\n", plan.change->what,
                     percent(plan.change->slowdown));
    else
      text += "no change, and no pair of changes, makes it fit; see plan --fit\n";
  }
  if (timeline) {
    text += "\nmemory over the step\n";
    std::vector<std::vector<std::string>> rows;
    for (const auto& moment : plan.memory.timeline) rows.push_back({moment.where, format_bytes(static_cast<double>(moment.bytes))});
    text += align_table({"moment", "bytes"}, rows);
  }
  return text;
}

std::string search_text(const SearchResult& result, const Request& r) {
  std::string text = format("{} on {} {}, {} tokens: {} plans considered, {} fit\n", r.model.name, r.layout.gpus(), r.gpu.name,
                            format_tokens(r.tokens), with_commas(result.considered), with_commas(result.fitting));
  std::vector<std::vector<std::string>> rows;
  for (const Plan& plan : result.best)
    rows.push_back({with_commas(static_cast<int64_t>(plan.time.tokens_per_second)), format_seconds(plan.time.step),
                    format_bytes(static_cast<double>(plan.memory.peak)), format_bytes(static_cast<double>(plan.memory.host)),
                    format_tokens(plan.longest), describe_layout(plan.request)});
  if (!rows.empty()) return text + align_table({"tokens/s", "step", "peak", "host", "longest", "layout"}, rows);
  if (result.nearest)
    text += format("nothing fits; nearest: {}\n", describe_layout(result.nearest->request)) +
            of_capacity("peak", result.nearest->memory.peak, result.nearest->memory.capacity) +
            of_capacity("host memory per GPU", result.nearest->memory.host, result.nearest->memory.host_capacity);
  return text;
}

}  // namespace megatoken::plan
