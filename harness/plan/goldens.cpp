// The table itself, and the numbers of the course, G01 to G57, for the anchor model.
#include "harness/plan/goldens.hpp"

#include <algorithm>

#include "harness/plan/study.hpp"
#include "reference/core/format.hpp"
#include "reference/core/names.hpp"
#include "reference/model/parameters.hpp"
#include "reference/schemes/balance.hpp"

namespace megatoken::plan {

std::string with_commas(int64_t value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return value < 0 ? "-" + digits : digits;
}

std::string format_gigabytes(double bytes) {
  const double value = bytes / 1e9;
  return value < 1000 ? format("{:.1f} GB", value) : with_commas(static_cast<int64_t>(value + 0.5)) + " GB";
}

std::string Golden::expected() const {
  if (expected_printed.empty() || expected_exact.empty()) return expected_exact + expected_printed;
  return expected_exact + " = " + expected_printed;
}

void GoldenTable::bytes(std::string id, std::string quantity, int64_t value, int64_t expected, std::string printed) {
  rows_.push_back({std::move(id), std::move(quantity), with_commas(value), format_gigabytes(static_cast<double>(value)),
                   with_commas(expected), std::move(printed)});
}

void GoldenTable::count(std::string id, std::string quantity, int64_t value, int64_t expected) {
  rows_.push_back({std::move(id), std::move(quantity), with_commas(value), with_commas(value), with_commas(expected), ""});
}

void GoldenTable::list(std::string id, std::string quantity, const std::vector<int64_t>& values, const std::vector<int64_t>& expected) {
  const auto text = [](const std::vector<int64_t>& numbers) {
    std::vector<std::string> words;
    for (int64_t number : numbers) words.push_back(std::to_string(number));
    return join(words, ":");
  };
  rows_.push_back({std::move(id), std::move(quantity), text(values), text(values), text(expected), ""});
}

void GoldenTable::text(std::string id, std::string quantity, std::string exact, std::string expected, std::string printed,
                       std::string expected_printed) {
  rows_.push_back({std::move(id), std::move(quantity), exact, printed.empty() ? exact : std::move(printed), std::move(expected),
                   std::move(expected_printed)});
}

namespace {

constexpr double kCard = 80e9;  // the course's card
constexpr int64_t kTokens = 131072, kCards = 8;

/// Numbers of the anchor that the course uses, from its config.
struct Anchor {
  ModelConfig model = load_model_config("qwen3x_27b");
  ParameterCounts counts = count_parameters(model);
  int64_t parameters = counts.total();
  int64_t layers = static_cast<int64_t>(model.layers.size());
  AttentionTraffic wire{1, kTokens / kCards, model.attention->h, model.attention->hk, model.attention->d, 2, 2};
  int64_t full_recompute(int64_t t) const { return 2 * t * model.c * layers; }
};

void add_state(GoldenTable& g, const Anchor& a) {
  const int64_t p = a.parameters, gradients = 2 * p;
  g.count("P", "parameters of the anchor model, from its config", p, 27781427952);
  g.bytes("G01", "bf16 gradients", gradients, 55562855904, "55.6 GB");
  g.bytes("G02", "data-parallel ring all-reduce sent, 8 ranks", zero_sent_bytes(p, 0, 8), 97234997832, "97.2 GB");
  g.bytes("G03", "the same, 64 ranks", zero_sent_bytes(p, 0, 64), 109389372561, "109.4 GB");
  g.bytes("G04", "naive gather to rank 0, received by it, 8 ranks", 7 * gradients, 388939991328, "388.9 GB");
  g.bytes("G05", "the same, 64 ranks", 63 * gradients, 3500459921952, "3,500 GB");
  g.bytes("G06", "training state", zero_state_bytes(p, 0, 8), 444502847232, "444.5 GB");
  const double cards = static_cast<double>(zero_state_bytes(p, 0, 8)) / kCard;
  g.text("G07", "training state over one 80 GB card", format("{:.5f}", cards), "5.55629", format("{:.1f}×", cards), "5.6×");
  g.bytes("G08", "ZeRO-1 state, 8 ranks", zero_state_bytes(p, 1, 8), 152797853736, "152.8 GB");
  g.bytes("G09", "ZeRO-2 state, 8 ranks", zero_state_bytes(p, 2, 8), 104180354820, "104.2 GB");
  g.bytes("G10", "ZeRO-3 state, 8 ranks", zero_state_bytes(p, 3, 8), 55562855904, "55.6 GB");
  g.bytes("G11", "ZeRO-3 sent, 8 ranks", zero_sent_bytes(p, 3, 8), 145852496748, "145.9 GB");
  const double ratio = static_cast<double>(zero_sent_bytes(p, 3, 8)) / static_cast<double>(zero_sent_bytes(p, 0, 8));
  g.text("G12", "ZeRO-3 over data parallelism, sent", format("{:.1f}", ratio), "1.5", format("{:.1f}×", ratio), "1.5×");
  g.bytes("G13", "room left on the card under ZeRO-3", static_cast<int64_t>(kCard) - zero_state_bytes(p, 3, 8), 24437144096, "24.4 GB");
}

void add_layers(GoldenTable& g, const Anchor& a) {
  const int64_t t = 4096, c = a.model.c, unit = tensor_parallel_unit_bytes(1, t, c, 2, 8);
  const int64_t selective = a.layers * paper_layer_bytes(1, t, c, 1);
  g.bytes("G14", "activations, selective recompute, 4,096 tokens", selective, 45634027520, "45.6 GB");
  g.bytes("G15", "the same over 8 tensor-parallel ranks", a.layers * paper_layer_bytes(1, t, c, 8), 5704253440, "5.7 GB");
  g.bytes("G16", "tensor-parallel all-reduces sent, 8 ranks, 4,096 tokens",
          a.layers * tensor_parallel_layer_bytes(unit, TensorParallel::AllReduce).total(), 18790481920, "18.8 GB");
  g.count("G17", "synchronisations per layer, 2 forward and 2 backward",
          tensor_parallel_layer_bytes(unit, TensorParallel::AllReduce).total() / (2 * unit), 4);
  g.bytes("G18", "pipeline boundary, 4,096 tokens", t * c * 2, 41943040, "0.0 GB");
  g.count("G19", "layers per stage, 8 stages", a.layers / 8, 8);
  const auto schedule = PipelineSchedule::OneForwardOneBackward;
  const double ideal = bubble_over_ideal(schedule, 8, 32), total = bubble_over_total(schedule, 8, 32),
               interleaved = bubble_over_ideal(PipelineSchedule::Interleaved, 8, 32, {}, 4);
  g.text("G20", "bubble over ideal, 8 stages, 32 micro-batches", format("{}", ideal), "0.21875", format("{:.1f}%", 100 * ideal), "21.9%");
  g.text("G21", "bubble over total", format("{:.6f}", total), "0.179487", format("{:.1f}%", 100 * total), "17.9%");
  g.text("G22", "bubble, interleaved over 4 virtual stages", format("{}", interleaved), "0.0546875", format("{:.1f}%", 100 * interleaved),
         "5.5%");
  g.bytes("G23", "scores of one head, 32,768 tokens", score_bytes(32768), 2147483648, "2.1 GB");
  g.bytes("G24", "scores of one head, 131,072 tokens", score_bytes(131072), 34359738368, "34.4 GB");
  g.bytes("G25", "scores of one head, 262,144 tokens", score_bytes(262144), 137438953472, "137.4 GB");
  g.bytes("G26", "layer inputs, full recompute, 32,768 tokens", a.full_recompute(32768), 21474836480, "21.5 GB");
  g.bytes("G27", "layer inputs, 131,072 tokens", a.full_recompute(kTokens), 85899345920, "85.9 GB");
  g.bytes("G28", "layer inputs, 262,144 tokens", a.full_recompute(262144), 171798691840, "171.8 GB");
}

void add_sequence(GoldenTable& g, const Anchor& a) {
  g.count("G29", "tokens per card, 8 cards", kTokens / kCards, 16384);
  g.bytes("G30", "layer inputs per card", a.full_recompute(kTokens) / kCards, 10737418240, "10.7 GB");
  g.bytes("G31", "one block of keys and values", kv_block_bytes(a.wire), 67108864, "0.1 GB");
  g.count("G32", "blocks sent per layer", ring_forward_bytes(a.wire, kCards) / kv_block_bytes(a.wire), 7);
  g.bytes("G33", "ring forward, one layer", ring_forward_bytes(a.wire, kCards), 469762048, "0.5 GB");
  g.bytes("G34", "Ulysses, 4 key/value heads counted once (cannot run on 8 cards)", ulysses_bytes(a.wire, kCards, false).forward, 411041792,
          "0.4 GB");
  g.bytes("G35", "Ulysses, key/value heads replicated to 8", ulysses_bytes(a.wire, kCards).forward, 469762048, "0.5 GB");
  g.count("G36", "query heads per card", a.model.attention->h / kCards, 3);
  g.list("G37", "layers with full attention and linear ones", {a.model.count(Mixer::Attention), a.model.count(Mixer::GatedDelta)},
         {16, 48});
  const DeltaConfig& d = *a.model.delta;
  g.count("G38", "numbers in one layer's recurrent state", state_block_bytes(d.h, d.d, d.dv, 1, false), 786432);
}

void add_rest(GoldenTable& g, const Anchor& a) {
  const double reduce = static_cast<double>(zero_sent_bytes(a.parameters, 0, 8)) / 50e9;
  const double backward = 4.0 * static_cast<double>(a.counts.trunk + a.counts.head) * 4096 / 400e12;
  g.text("G47", "data-parallel all-reduce at 50 GB/s, seconds", format("{:.5f}", reduce), "1.94470", format("{:.2f} s", reduce), "1.94 s");
  g.text("G48", "DeepSeek-V3 on one card: 2,664,000 of 8,760 hours a year", format("{:.2f}", 2664000.0 / 8760), "304.11",
         format("{:.0f} years", 2664000.0 / 8760), "304 years");
  g.count("G49", "experts per card, 256 on 64", 256 / 64, 4);
  const int64_t routed = int64_t{58} * 256 * 3 * 7168 * 2048;
  g.text("G50", "routed-expert parameters of DeepSeek-V3", with_commas(routed), "653,908,770,816",
         format("{:.0f}B", static_cast<double>(routed) / 1e9), "654B");
  g.text("G51", "InfiniBand over NVLink, 50 of 160 GB/s", format("{}", 50.0 / 160), "0.3125", "≈1/3", "≈1/3");
  g.count("G52", "ranks of Llama 3: tp 8, cp 1, pp 16, dp 128", Layout{.tp = 8, .cp = 1, .dp = 128, .pp = 16}.gpus(), 16384);
  g.text("G53", "DGX-2 utilisation, 5 of 125 TFLOPS", format("{:.0f}%", 100 * 5.0 / 125), "4%", 5.0 / 125 < 0.05 ? "<5%" : "", "<5%");
  const double one_third = bubble_time(PipelineSchedule::ZeroBubble1, 8, {}) / bubble_time(PipelineSchedule::OneForwardOneBackward, 8, {});
  g.text("G54", "ZB-H1 bubble over 1F1B, F = B = W", format("{:.6f}", one_third), "0.333333", format("1/{:.0f}", 1 / one_third), "1/3");
  g.text("G55", "backward of 4,096 tokens: 4 FLOPs per text weight without the input embedding, 400 TFLOPS", format("{:.4f}", backward),
         "1.0496", format("≈{:.2f} s", backward), "≈1.05 s");
  g.list("G56", "micro-batches in flight: GPipe, 1F1B with 8 stages", {32, in_flight_micro_batches(8, 32)}, {32, 8});
  const int64_t activations = a.layers * paper_layer_bytes(1, 4096, a.model.c, 1),
                room = static_cast<int64_t>(kCard) - zero_state_bytes(a.parameters, 3, 8);
  g.text("G57", "selective activations against the room left", activations > room ? "does not fit" : "fits", "does not fit",
         format("{} > {}", format_gigabytes(static_cast<double>(activations)), format_gigabytes(static_cast<double>(room))),
         "45.6 GB > 24.4 GB");
  g.text("G55b", "tokens at which the backward hides the all-reduce", format("{:.0f}", reduce / backward * 4096), "7589",
         with_commas(static_cast<int64_t>(reduce / backward * 4096 + 0.5)), "7,589");
}

}  // namespace

void add_course_goldens(GoldenTable& table) {
  const Anchor anchor;
  add_state(table, anchor);
  add_layers(table, anchor);
  add_sequence(table, anchor);
  add_balance_goldens(table);
  add_rest(table, anchor);
}

std::vector<Golden> run_goldens() {
  GoldenTable table;
  add_course_goldens(table);
  add_traffic_goldens(table);
  add_report_goldens(table);
  return table.take();
}

}  // namespace megatoken::plan
