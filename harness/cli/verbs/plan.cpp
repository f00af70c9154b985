// plan: memory, communication and time of a training step before there are GPUs; searches, studies, goldens, published measurements.
#include <iostream>

#include "harness/cli/arguments.hpp"
#include "harness/cli/verb.hpp"
#include "harness/plan/output.hpp"
#include "harness/plan/text.hpp"
#include "harness/store/result_file.hpp"
#include "reference/core/axes.hpp"

namespace megatoken {
namespace {

using namespace plan;

struct PlanFlags {
  std::string model = "glm53_flash", gpu = "b200", tokens = "1M";
  int64_t gpus = 0, tp = 1, cp = 1, dp = 0, pp = 1, ep = 1, etp = 1, ulysses = 0, micro_batches = 1;
  std::string scheme = "zigzag", delta_exchange = "hidden", recompute = "full", offload = "none", optimizer = "gpu", weights = "gpu",
              sparse_kernel = "fused";
  std::string loss_rows = "1024", index_elements = "512Mi", query_chunk = "0", gradient_bucket = "0", host_memory;
  int64_t zero = 1, gradient_bytes = 4, mlp_pieces = 1, expert_pieces = 1;
  bool index_replicated = false, hyper_fp32 = false, combine_fp32 = false, router_leak = false, pinned_power_of_two = false,
       int32_kernels = false, no_kv_replication = false;
  double imbalance = 1, working_set_factor = 1;
  std::string activations = "liveness", tensor_parallel = "regather", ring_backward = "reverse";
  int64_t wire_gradient_bytes = 4;
  bool fit = false, goldens = false, published = false, ablation = false, timeline = false, json = false, describe_gpu = false;
  int64_t max_pp = 1, top = 10;
  std::vector<std::string> studies;
  std::string output;

  std::vector<Flag> flags() {
    return {{"--model", "config.json of a model, or glm53_flash, qwen3x_27b, llama3_8b, …", &model},
            {"--gpu", "b200, gb300, h200, h100, a100 or a TOML file", &gpu},
            {"--tokens", "tokens of one sequence: 1M, 512Ki, 500000", &tokens},
            {"--gpus", "number of GPUs; tp·cp·dp·pp when absent", &gpus},
            {"--tp", "tensor-parallel ranks", &tp},
            {"--cp", "context-parallel ranks", &cp},
            {"--dp", "data-parallel ranks; what is left of --gpus when absent", &dp},
            {"--pp", "pipeline stages", &pp},
            {"--ep", "ranks the experts are spread over", &ep},
            {"--etp", "ranks each expert is split over", &etp},
            {"--micro-batches", "sequences per data-parallel rank and step", &micro_batches},
            {"--scheme", "softmax attention over cp: ring, zigzag, allgather, ulysses, usp", &scheme},
            {"--ulysses", "usp: ranks of its all-to-all groups", &ulysses},
            {"--delta-exchange", "recurrent layers over cp: projections, hidden, state", &delta_exchange},
            {"--recompute", "none, selective, full", &recompute},
            {"--offload", "none, inputs: layer inputs to host memory", &offload},
            {"--optimizer", "gpu, host", &optimizer},
            {"--weights", "gpu, host (needs --zero 3)", &weights},
            {"--zero", "0 nothing, 1 optimizer, 2 and gradients, 3 and weights sharded over dp·cp", &zero},
            {"--gradient-bytes", "of one gradient in its buffer: 4 or 2", &gradient_bytes},
            {"--gradient-bucket", "bytes of a reduction buffer that is always there", &gradient_bucket},
            {"--loss-rows", "rows of logits at a time, 0 = all", &loss_rows},
            {"--mlp-pieces", "pieces of a dense MLP", &mlp_pieces},
            {"--expert-pieces", "pieces of the experts' sequence", &expert_pieces},
            {"--sparse-kernel", "fused, padded (to DeepSeek-V3.2 shapes), dense", &sparse_kernel},
            {"--index-elements", "index scores alive at a time, 0 = all", &index_elements},
            {"--index-replicated", "every tensor-parallel rank scores all index queries", &index_replicated},
            {"--query-chunk", "queries of sparse attention at a time, 0 = all", &query_chunk},
            {"--hyper-fp32", "stream mixing keeps fp32 copies of its input", &hyper_fp32},
            {"--combine-fp32", "experts' outputs are summed over etp in fp32", &combine_fp32},
            {"--router-leak", "the dispatcher holds recomputed graphs", &router_leak},
            {"--imbalance", "rows at the busiest expert rank over the mean", &imbalance},
            {"--working-set-factor", "measured working set of your software over the derived one", &working_set_factor},
            {"--pinned-power-of-two", "host buffers are rounded up to powers of two", &pinned_power_of_two},
            {"--int32-kernels", "kernels cannot reach 2^31 elements", &int32_kernels},
            {"--host-memory", "bytes of one host, instead of the GPU description's", &host_memory},
            {"--activations", "how kept activations are counted: liveness, paper, swiglu", &activations},
            {"--tensor-parallel", "units of tensor parallelism: all-reduce, nominal, regather", &tensor_parallel},
            {"--ring-backward", "same, reverse", &ring_backward},
            {"--wire-gradient-bytes", "dk and dv on the wire: 4 or 2", &wire_gradient_bytes},
            {"--no-kv-replication", "count key/value heads once even where they must be repeated", &no_kv_replication},
            {"--fit", "search layouts and techniques that fit --gpus", &fit},
            {"--max-pp", "--fit: pipeline stages up to this", &max_pp},
            {"--top", "--fit: how many plans to show", &top},
            {"--study", "activations, bubbles, crossover, overlap, zero_sent, zero_state or all", &studies},
            {"--ablation", "longest sequence against GPUs, technique by technique", &ablation},
            {"--goldens", "numbers with one right answer", &goldens},
            {"--published", "published measurements beside predictions", &published},
            {"--describe-gpu", "the GPU's numbers with their sources", &describe_gpu},
            {"--timeline", "memory layer by layer", &timeline},
            {"--json", "JSON on stdout", &json},
            {"-o,--output", "result file to write", &output}};
  }
};

int64_t whole_number(const std::string& text, const char* flag) {
  const double value = parse_number(text, flag);
  MEGATOKEN_CHECK(value >= 0 && value <= 9e15 && value == static_cast<double>(static_cast<int64_t>(value)),
                  "{} {}: it must be a whole number that is not negative", flag, text);
  return static_cast<int64_t>(value);
}

/// Fills in the degree that was left open, and refuses counts that contradict each other.
void complete_layout(const PlanFlags& f, Layout& layout) {
  for (const auto& [flag, value] : {std::pair{"--tp", f.tp}, {"--cp", f.cp}, {"--pp", f.pp}, {"--ep", f.ep}, {"--etp", f.etp}})
    MEGATOKEN_CHECK(value >= 1, "{} {} must be at least 1", flag, value);
  MEGATOKEN_CHECK(f.gpus >= 0 && f.dp >= 0, "--gpus {} --dp {}: negative counts; the nearest is 1", f.gpus, f.dp);
  const int64_t others = f.tp * f.cp * f.pp;
  layout.dp = f.dp > 0 ? f.dp : std::max<int64_t>(1, f.gpus / others);
  MEGATOKEN_CHECK(f.gpus == 0 || others * layout.dp == f.gpus,
                  "--gpus {} is not tp {} · cp {} · dp {} · pp {} = {}; the nearest --gpus is {}", f.gpus, f.tp, f.cp, layout.dp, f.pp,
                  others * layout.dp, f.dp > 0 ? others * f.dp : std::max<int64_t>(1, (f.gpus + others / 2) / others) * others);
}

Request request_of(const PlanFlags& f) {
  Request r;
  r.model = load_model_config(f.model);
  r.gpu = load_gpu(f.gpu);
  if (!f.host_memory.empty()) r.gpu.host_memory = {static_cast<double>(whole_number(f.host_memory, "--host-memory")), "B", "--host-memory"};
  r.tokens = whole_number(f.tokens, "--tokens");
  r.micro_batches = f.micro_batches;
  r.layout = {.tp = f.tp, .cp = f.cp, .dp = 1, .pp = f.pp, .ep = f.ep, .etp = f.etp, .ulysses = f.ulysses};
  if (!f.fit) complete_layout(f, r.layout);
  r.scheme = parse_choice<Scheme>("--scheme", f.scheme);
  r.delta_exchange = parse_choice<DeltaExchange>("--delta-exchange", f.delta_exchange);
  Techniques& t = r.techniques;
  t.recompute = parse_choice<Recompute>("--recompute", f.recompute);
  t.offload = parse_choice<Offload>("--offload", f.offload);
  t.optimizer = parse_choice<OptimizerPlace>("--optimizer", f.optimizer);
  t.weights_on_host = parse_choice<OptimizerPlace>("--weights", f.weights) == OptimizerPlace::Host;
  t.zero = f.zero;
  t.gradient_bytes = f.gradient_bytes;
  t.gradient_bucket = whole_number(f.gradient_bucket, "--gradient-bucket");
  t.loss_rows = whole_number(f.loss_rows, "--loss-rows");
  t.mlp_pieces = f.mlp_pieces;
  t.expert_pieces = f.expert_pieces;
  t.sparse_kernel = parse_choice<SparseKernel>("--sparse-kernel", f.sparse_kernel);
  t.index_elements = whole_number(f.index_elements, "--index-elements");
  t.index_sharded = !f.index_replicated;
  t.query_chunk = whole_number(f.query_chunk, "--query-chunk");
  t.hyper_keeps_fp32 = f.hyper_fp32;
  t.combine_fp32 = f.combine_fp32;
  t.router_leak = f.router_leak;
  t.pinned_power_of_two = f.pinned_power_of_two;
  t.int32_kernels = f.int32_kernels;
  t.imbalance = f.imbalance;
  t.working_set_factor = f.working_set_factor;
  r.bookkeeping = {.activations = parse_choice<Activations>("--activations", f.activations),
                   .tensor_parallel = parse_choice<TensorParallel>("--tensor-parallel", f.tensor_parallel),
                   .ring_backward = parse_choice<RingBackward>("--ring-backward", f.ring_backward),
                   .wire_gradient_bytes = f.wire_gradient_bytes,
                   .replicate_kv = !f.no_kv_replication};
  return r;
}

int run(const std::vector<std::string>& arguments) {
  PlanFlags f;
  parse_arguments("plan", "memory, communication and time of a training step, before you have the GPUs", f.flags(), {}, arguments);
  Request request = request_of(f);
  Output output;
  std::string text;
  bool tables_only = f.goldens || f.published || f.ablation || f.describe_gpu || !f.studies.empty();

  if (f.describe_gpu) text += gpu_text(request.gpu);
  if (f.goldens) {
    output.goldens = run_goldens();
    text += goldens_text(output.goldens);
  }
  if (f.published) {
    output.published = run_published();
    text += published_text(output.published);
  }
  if (f.studies == std::vector<std::string>{"all"}) f.studies = study_names(request);
  for (const auto& name : f.studies) {
    output.studies.push_back(run_study(name, request));
    text += study_text(output.studies.back());
  }
  if (f.ablation) {
    output.ablation = run_ablation(request);
    text += ablation_text(output.ablation, request);
  }
  if (f.fit) {
    MEGATOKEN_CHECK(f.gpus >= 1, "plan --fit needs --gpus: how many GPUs may the plan use?");
    MEGATOKEN_CHECK(f.tp * f.cp * f.pp * f.ep * f.etp == 1 && f.dp == 0, "plan --fit chooses tp, cp, dp, pp, ep and etp itself; leave them out");
    MEGATOKEN_CHECK(f.top >= 1 && f.max_pp >= 1, "--top {} and --max-pp {} must be at least 1", f.top, f.max_pp);
    request.layout = {.dp = f.gpus};
    const SearchResult result = search_layouts(request, {.gpus = f.gpus, .max_pp = f.max_pp, .keep = static_cast<size_t>(f.top)});
    MEGATOKEN_CHECK(result.considered > 0,
                    "no layout of {} GPUs is valid for {} and {} tokens; try a multiple of {} tokens or another number of GPUs", f.gpus,
                    request.model.name, request.tokens, 2 * f.gpus);
    output.plans = result.best;
    output.considered = result.considered;
    output.fitting = result.fitting;
    text += search_text(result, request);
  } else if (!tables_only) {
    output.plans.push_back(make_plan(request));
    text += plan_text(output.plans.back(), f.timeline);
  }

  std::cout << (f.json ? to_json(output) : text);
  if (!f.output.empty()) {
    std::vector<std::string> argv{"megatoken", "plan"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    ResultFile file = ResultFile::create(f.output, {.argv = argv, .config_toml = "", .tags = {}});
    append_rows(file, output, request);
    file.finish("complete");
    std::cerr << "wrote " << file.path() << "\n";
  }
  const bool goldens_hold = std::all_of(output.goldens.begin(), output.goldens.end(), [](const Golden& g) { return g.ok(); });
  return goldens_hold ? kPassed : kWrongNumbers;
}

const Registered<Verb> registered{{"plan", "memory, communication and time of a training step, before you have the GPUs", run}};

}  // namespace
}  // namespace megatoken
