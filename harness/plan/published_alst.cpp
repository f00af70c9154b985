// ALST (DeepSpeed Ulysses, H100 80 GB, 8 per node with 1.9 TB) and a Hugging Face guide to sequence parallelism: longest sequences and peaks.
#include <algorithm>

#include "harness/plan/plan.hpp"
#include "harness/plan/published.hpp"
#include "reference/core/format.hpp"

namespace megatoken::plan {
namespace {

constexpr int64_t kTileRows = 4096;  // ALST splits an MLP into ceil(rows / hidden width) pieces; 4096 is the width of the 8B model

struct Pieces {
  bool tiled_loss = false, sequence_parallel = false, tiled_mlp = false, offload = false;
};
constexpr Pieces kAll{true, true, true, true};

Request alst(const char* model, const char* gpu, int64_t gpus, Pieces pieces) {
  Request r;
  r.model = load_model_config(model);
  r.gpu = load_gpu(gpu);
  r.layout = pieces.sequence_parallel ? Layout{.cp = gpus} : Layout{.dp = gpus};
  r.scheme = Scheme::Ulysses;
  r.techniques.zero = 3;
  r.techniques.optimizer = OptimizerPlace::Host;
  r.techniques.gradient_bucket =
      gpus > 1 ? int64_t{4000000000} : 0;  // DeepSpeed: the fp32 bucket of sequence-parallel gradients adds about 4 GB
  r.techniques.loss_rows = pieces.tiled_loss ? kTileRows : 0;
  r.techniques.offload = pieces.offload ? Offload::Inputs : Offload::None;
  r.techniques.mlp_pieces = pieces.tiled_mlp ? 64 : 1;
  r.techniques.weights_on_host = gpus == 1 && pieces.offload;  // the weights alone are 15 GiB
  return r;
}

const char* const kNote =
    "operations of an unfused Hugging Face layer with FlashAttention-2; no allocator fragmentation; NCCL and CUDA contexts not counted";

Published longest(const char* id, const char* what, int64_t gpus, Pieces pieces, double published, double published_to,
                  const char* conditions) {
  Request r = alst("llama3_8b", "h100", gpus, pieces);
  r.techniques.int32_kernels = true;
  const int64_t tokens = longest_sequence(r);
  r.tokens = tokens;
  const bool by_index = (r.rows() + 8) * r.model.c >= int64_t{1} << 31;
  const std::string why = by_index
                              ? "bound by 32-bit indices, 2^31 = 524,288 rows of 4,096 on a GPU (a kernel is reported to fail at 555 K); "
                              : "bound by GPU memory; ";
  return {.id = id,
          .quantity = what,
          .source = "ALST paper",
          .conditions = conditions,
          .unit = "Ktokens",
          .published = published,
          .predicted = static_cast<double>(tokens) / 1e3,
          .standing = Standing::Assumed,
          .assumption = why + kNote,
          .published_to = published_to};
}

Published peak_of(const char* id, const char* what, const char* model, const char* gpu, int64_t gpus, double tokens, double published,
                  const char* conditions) {
  Request r = alst(model, gpu, gpus, kAll);
  const int64_t unit = 2 * gpus;
  r.tokens = static_cast<int64_t>(tokens) / unit * unit;
  return {id, what, "ALST recipes", conditions, "GB", published, static_cast<double>(plan_memory(r).peak) / 1e9, Standing::Assumed, kNote};
}

Published guide(const char* id, int64_t tokens, double published) {
  Request r = alst("qwen3_4b", "h100", 4, {.sequence_parallel = true});
  r.tokens = tokens;
  return {id,
          format("peak of a 4B model at {} tokens", format_count(tokens)),
          "Hugging Face guide",
          "4 H100, Ulysses over 4, ZeRO-3, optimizer on the host",
          "GB",
          published,
          static_cast<double>(plan_memory(r).peak) / 1e9,
          Standing::Assumed,
          "whole logits of each rank in bf16 and fp32; full recompute; units as printed"};
}

}  // namespace

std::vector<Published> published_alst() {
  std::vector<Published> rows;
  rows.push_back(longest("L01", "longest, nothing on, on 8", 8, {}, 32, 36, "8B, 8 GPUs; 32 to 36 K"));
  rows.push_back(longest("L02", "longest, fused loss, on 8", 8, {.tiled_loss = true}, 160, 0, "8B, 8 GPUs"));
  rows.push_back(longest("L03", "longest, and Ulysses, on 8", 8, {.tiled_loss = true, .sequence_parallel = true}, 1100, 0, "8B, 8 GPUs"));
  rows.push_back(longest("L04", "longest, and tiled MLP, on 8", 8, {true, true, true, false}, 1200, 0, "8B, 8 GPUs"));
  rows.push_back(longest("L05", "longest, offload instead of tiled MLP, on 8", 8, {true, true, false, true}, 2400, 0, "8B, 8 GPUs"));
  rows.push_back(longest("L06", "longest, all, on 8", 8, kAll, 3700, 3800, "8B, 8 GPUs; 3.7 to 3.8 M"));
  rows.push_back(longest("L07", "longest, all, on 1", 1, kAll, 500, 555, "8B, 1 GPU; a kernel fails at 555 K"));
  rows.push_back(longest("L08", "longest, all, on 16", 16, kAll, 8000, 0, "8B, 16 GPUs"));
  rows.push_back(longest("L09", "longest, all, on 32", 32, kAll, 15000, 15500, "8B, 32 GPUs; 15 to 15.5 M"));
  rows.push_back(peak_of("L10", "peak of a 70B model at 4M", "llama3_70b", "h100", 32, 4e6, 47.7, "32 GPUs, all; host memory at the edge"));
  rows.push_back(peak_of("L11", "peak of a 70B model at 10M", "llama3_70b", "h100", 64, 10e6, 53.8, "64 GPUs, all"));
  rows.push_back(peak_of("L12", "peak of a 32B model at 15M", "qwen3_32b", "h100", 64, 15e6, 71, "64 GPUs, all"));
  rows.push_back(peak_of("L13", "peak of an 8B model at 1.2M on one H200", "llama3_8b", "h200", 1, 1.2e6, 136, "1 GPU, all"));
  rows.push_back(guide("L14", 8192, 23.4));
  rows.push_back(guide("L15", 32768, 35.0));
  rows.push_back(guide("L16", 65536, 50.5));
  rows.push_back(guide("L17", 98304, 66.0));
  return rows;
}

}  // namespace megatoken::plan
