// Goldens of the SkyRL and ALST reports that follow from shapes alone, GLM-5.3-Flash's parameters, and tile counts of the fused loss.
#include <bit>

#include "harness/plan/flops.hpp"
#include "harness/plan/goldens.hpp"
#include "harness/plan/layers.hpp"
#include "reference/core/format.hpp"
#include "reference/model/parameters.hpp"

namespace megatoken::plan {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string gib(double bytes) { return format("{:.2f} GiB", bytes / kGiB); }
std::string gib(int64_t bytes) { return gib(static_cast<double>(bytes)); }

Request glm(int64_t tokens, int64_t tp, int64_t cp) {
  Request r;
  r.model = load_model_config("glm53_flash");
  r.tokens = tokens;
  r.layout = {.tp = tp, .cp = cp, .dp = 64 / (tp * cp), .ep = 32, .etp = 2};
  return r;
}

void add_glm_parameters(GoldenTable& g) {
  const ModelConfig model = load_model_config("glm53_flash");
  const ParameterCounts all = count_parameters(model);
  const LayerParameters kda = count_layer_parameters(model, {Mixer::Kda, Mlp::Experts}),
                        dsa = count_layer_parameters(model, {Mixer::SparseAttention, Mlp::Experts});
  const auto millions = [](int64_t n) { return format("{:.2f} M", static_cast<double>(n) / 1e6); };
  const auto billions = [](int64_t n) { return format("{:.2f} B", static_cast<double>(n) / 1e9); };
  g.text("M1", "KDA mixer", millions(kda.mixer.total()), "137.73 M");
  g.text("M2", "DSA mixer, without and with indexer",
         millions(dsa.mixer.total()) + ", " + millions(dsa.mixer.total() + dsa.indexer.total()), "117.44 M, 124.91 M");
  g.text("M3", "one expert", millions(kda.one_expert), "25.17 M");
  g.text("M4", "mHC per layer", format("{:.3f} M", static_cast<double>(kda.hyper.total()) / 1e6), "0.786 M");
  g.text("M5", "text, no MTP", billions(all.text()), "313.33 B");
  g.text("M6", "share of the routed experts", format("{:.2f} %", 100.0 * static_cast<double>(all.routed) / static_cast<double>(all.text())),
         "97.15 %");
  g.text("M7", "MTP layer; text and MTP", billions(all.mtp) + ", " + billions(all.text() + all.mtp), "7.43 B, 320.76 B");
  g.text("M8", "active per token, with and without embedding and head",
         billions(all.active + all.embedding + all.head) + ", " + billions(all.active), "17.38 B, 16.11 B");
  g.list("M9", "KDA and DSA layers", {model.count(Mixer::Kda), model.count(Mixer::SparseAttention)}, {34, 11});
}

void add_skyrl(GoldenTable& g) {
  const int64_t million = 1 << 20;
  const auto layers = [](const Request& r) { return static_cast<int64_t>(r.model.layers.size()); };
  const Request one = glm(million, 8, 1), quarter = glm(million / 4, 8, 1), half = glm(million / 2, 8, 1), short_dense = glm(32768, 2, 1);
  g.count("K1", "1M over the 16k baseline", million / 16384, 64);
  g.text("K2", "layer inputs per GPU at 1M, tp 8", gib(layers(one) * layer_input_bytes(one)), "180.00 GiB");
  g.text("K3", "the same for a node of 8",
         format("{:.2f} TiB", 8.0 * static_cast<double>(layers(one) * layer_input_bytes(one)) / kGiB / 1024), "1.41 TiB");
  g.text("K4", "layer inputs per GPU at 256k", gib(layers(quarter) * layer_input_bytes(quarter)), "45.00 GiB");
  g.text("K5", "fp32 copies of the streams at both sites of a layer, 512k", gib(2 * half.rows() * half.model.hyper.n * half.model.c * 4),
         "8.00 GiB");
  Request whole = glm(32768, 8, 1);
  whole.techniques.index_elements = 0;
  whole.techniques.index_sharded = false;
  g.text("K6", "index scores at 32k: 32 heads, products and their rectified copy", gib(index_score_bytes(whole)), "64.00 GiB");
  g.text("K7", "dense scores at 32k, 32 heads of a rank", gib(dense_score_bytes(short_dense)), "128.00 GiB");
  g.text("K8", "step times 218 and 102 s; 335 and 307 s", format("{:.2f}×, {:.1f} %", 218.0 / 102, 100 * (307.0 / 335 - 1)),
         "2.14×, -8.4 %");
  g.text("K9", "tokens per second at 1M: 4 sequences in 307 s; seconds for 8 of 512k at 18,200/s",
         format("{:.0f}, {:.1f}", 4.0 * million / 307, 8.0 * million / 2 / 18200), "13662, 230.5");
  g.text("K10", "layer inputs per local token, MiB",
         format("{:.3f}", static_cast<double>(layers(one) * layer_input_bytes(one)) / static_cast<double>(one.rows()) / (1 << 20)),
         "1.406");
  g.list("K11", "(query, pool) pairs and selected keys of 8,192 tokens", {indexed_pairs(8192, 4), selected_pairs(8192, *one.model.sparse)},
         {8386560, 14690304});
}

int64_t tile_rows(int64_t rows, int64_t c, int64_t v) {
  const int64_t growth = (v + c - 1) / c, wish = (rows + growth - 1) / growth;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wish)));
}

void add_alst(GoldenTable& g) {
  const ModelConfig llama = load_model_config("llama3_8b"), anchor = load_model_config("qwen3x_27b");
  const auto inputs = [&](double tokens) { return 32 * tokens * static_cast<double>(llama.c) * 2; };
  g.text("A1", "longest sequences over 32K: 500K, 3.7M, 15M", format("{:.0f}×, {:.0f}×, {:.0f}×", 500.0 / 32, 3700.0 / 32, 15000.0 / 32),
         "16×, 116×, 469×");
  g.text("A2", "layer inputs of an 8B model at 100k tokens", format("{:.1f} GB, {}", inputs(100000) / 1e9, gib(inputs(100000))),
         "26.2 GB, 24.41 GiB");
  g.text("A3", "host bytes per GPU at 500K on 1, 3.7M on 8, 15M on 32",
         format("{:.0f}, {:.0f}, {:.0f} GB", inputs(500e3) / 1e9, inputs(3.7e6 / 8) / 1e9, inputs(15e6 / 32) / 1e9), "131, 121, 123 GB");
  g.text("A4", "the last for a node of 8", format("{:.0f} GB", 8 * inputs(15e6 / 32) / 1e9), "983 GB");
  g.text("A5", "fp32 logits of 18,750 rows of 128,256", gib(int64_t{18750} * 4 * 128256), "8.96 GiB");
  const double logits = 131072.0 * static_cast<double>(anchor.v) * 4;
  g.text("A6", "fp32 logits of the anchor: 131,072 rows, and one of 8 ranks", format("{:.2f} GB, {:.2f} GB", logits / 1e9, logits / 8e9),
         "130.19 GB, 16.27 GB");
  const int64_t tile = tile_rows(131072, anchor.c, anchor.v);
  g.list("A7", "tiles of the fused loss: growth, rows, count", {(anchor.v + anchor.c - 1) / anchor.c, tile, (131072 + tile - 1) / tile},
         {49, 4096, 32});
  g.text("A8", "one layer input of 16,384 tokens; 64 of them",
         format("{}, {:.2f} GB", with_commas(16384 * anchor.c * 2), 64.0 * 16384 * static_cast<double>(anchor.c) * 2 / 1e9),
         "167,772,160, 10.74 GB");
  int64_t fewer = 0, pairs = 0;  // splitting n rows by ceiling into k chunks gives fewer than k pieces
  for (int64_t n = 1; n < 40; ++n)
    for (int64_t k = 1; k <= n; ++k, ++pairs) {
      const int64_t size = (n + k - 1) / k;
      fewer += (n + size - 1) / size < k;
    }
  g.list("A9", "cases of n < 40 rows, k ≤ n chunks with fewer than k pieces, of all", {fewer, pairs}, {473, 780});
}

}  // namespace

void add_report_goldens(GoldenTable& table) {
  add_glm_parameters(table);
  add_skyrl(table);
  add_alst(table);
}

}  // namespace megatoken::plan
