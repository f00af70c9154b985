// What is to be planned: a model, GPUs, how the ranks are laid out, and which memory techniques are on.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/gpu.hpp"
#include "reference/core/names.hpp"
#include "reference/model/config.hpp"
#include "reference/schemes/traffic.hpp"

namespace megatoken::plan {

enum class Recompute { None, Selective, Full };         // Selective: attention cores and experts
enum class Offload { None, Inputs };                    // layer inputs to host memory
enum class OptimizerPlace { Gpu, Host };
enum class Scheme { Ring, Zigzag, AllGather, Ulysses, Usp };      // softmax attention over the context-parallel ranks
enum class DeltaExchange { Projections, Hidden, State };          // recurrent layers over them: all-to-all of what was projected, of the
                                                                  // hidden rows before projecting, or hand-over of the state
enum class Activations { Liveness, Paper, Swiglu };     // how what a layer keeps is counted: by its tape; 34·b·t·c for a GeLU layer with
                                                        // dropout masks; b·t·c(18 + 4·intermediate/c) for a SwiGLU layer
enum class SparseKernel { Fused, Padded, Dense };       // Padded: fused, at the 576-wide, 16-head, multiple-of-64 shapes of DeepSeek-V3.2

/// The enumerators' names on the command line, in the order of the enumeration.
template <class E>
inline const std::vector<std::string> kChoices;
template <> inline const std::vector<std::string> kChoices<Recompute>{"none", "selective", "full"};
template <> inline const std::vector<std::string> kChoices<Offload>{"none", "inputs"};
template <> inline const std::vector<std::string> kChoices<OptimizerPlace>{"gpu", "host"};
template <> inline const std::vector<std::string> kChoices<Scheme>{"ring", "zigzag", "allgather", "ulysses", "usp"};
template <> inline const std::vector<std::string> kChoices<DeltaExchange>{"projections", "hidden", "state"};
template <> inline const std::vector<std::string> kChoices<SparseKernel>{"fused", "padded", "dense"};
template <> inline const std::vector<std::string> kChoices<Activations>{"liveness", "paper", "swiglu"};
template <> inline const std::vector<std::string> kChoices<TensorParallel>{"all-reduce", "nominal", "regather"};
template <> inline const std::vector<std::string> kChoices<RingBackward>{"same", "reverse"};

template <class E>
E parse_choice(const std::string& option, const std::string& word) {
  const auto found = std::find(kChoices<E>.begin(), kChoices<E>.end(), word);
  if (found == kChoices<E>.end()) throw_unknown_name(option, word, kChoices<E>);
  return static_cast<E>(found - kChoices<E>.begin());
}
template <class E>
const std::string& name_of_choice(E choice) {
  return kChoices<E>[static_cast<size_t>(choice)];
}

/// ranks = tp·cp·dp·pp. Experts are spread over ep ranks, each expert split over etp of them; ep·etp must divide tp·cp·dp.
struct Layout {
  int64_t tp = 1, cp = 1, dp = 1, pp = 1, ep = 1, etp = 1;
  int64_t ulysses = 0;  // usp: ranks of the all-to-all groups inside cp; 0 = the largest that needs no replicated heads
  int64_t gpus() const { return tp * cp * dp * pp; }
  int64_t expert_copies() const { return gpus() / (pp * ep * etp); }  // ranks that hold the same expert shard
  bool operator==(const Layout&) const = default;
};

struct Techniques {
  Recompute recompute = Recompute::Full;
  Offload offload = Offload::None;
  OptimizerPlace optimizer = OptimizerPlace::Gpu;
  bool weights_on_host = false;         // sharded weights (zero 3) live in host memory between uses
  int64_t zero = 1;                     // 0 nothing, 1 optimizer state, 2 and gradients, 3 and weights sharded over dp·cp
  int64_t gradient_bytes = 4;           // of one element of the gradient buffers
  int64_t inputs_in_transit = 2;        // offloaded inputs whose copy to the host is not done; the backward fetches one at a time
  bool pinned_power_of_two = false;     // host buffers rounded up to powers of two, as PyTorch's caching host allocator does
  int64_t loss_rows = 1024;             // rows of logits at a time; 0 = all at once
  int64_t mlp_pieces = 1;               // a dense MLP, run in that many pieces of the sequence, each recomputed in the backward
  int64_t expert_pieces = 1;            // experts likewise
  SparseKernel sparse_kernel = SparseKernel::Fused;
  int64_t index_elements = int64_t{1} << 29;  // fp32 index scores alive at a time; 0 = all
  bool index_sharded = true;            // index queries split over the tensor-parallel ranks
  int64_t query_chunk = 0;              // sparse attention in chunks of that many queries, each recomputed; 0 = all at once
  bool hyper_keeps_fp32 = false;        // stream mixing saves an fp32 copy of its input instead of casting again
  bool combine_fp32 = false;            // experts' outputs summed over etp in fp32
  bool checkpoint_holds_ends = true;    // a recomputed layer's output and its gradient stay until the layer is done, as in PyTorch's
                                        // re-entrant checkpoint
  int64_t gradient_bucket = 0;          // bytes of a reduction buffer that is always there
  bool router_leak = false;             // the dispatcher holds on to every recomputed graph until the next forward
  bool int32_kernels = false;           // kernels count rows × width in 32 bits: 2^31 elements are out of reach
  double imbalance = 1;                 // rows at the busiest expert rank over the mean
  double working_set_factor = 1;        // measured working set of a software stack over the derived one
};

/// Where published accounts count differently. The defaults are what runs.
struct Bookkeeping {
  Activations activations = Activations::Liveness;
  TensorParallel tensor_parallel = TensorParallel::Regather;
  RingBackward ring_backward = RingBackward::ReverseDirection;
  int64_t wire_gradient_bytes = 4;      // dk and dv on the wire
  bool replicate_kv = true;             // key/value heads repeated when an all-to-all has more ranks than heads
};

struct Request {
  ModelConfig model;
  Gpu gpu;
  int64_t tokens = 0;                   // of one sequence
  int64_t micro_batches = 1;            // sequences per data-parallel rank and step, one after the other
  Layout layout;
  Scheme scheme = Scheme::Zigzag;
  DeltaExchange delta_exchange = DeltaExchange::Hidden;
  Techniques techniques;
  Bookkeeping bookkeeping;

  int64_t rows() const { return tokens / (layout.cp * layout.tp); }    // tokens of one rank where sequences are split over cp and tp
  int64_t gathered_rows() const { return tokens / layout.cp; }         // where heads are split over tp instead
  int64_t ulysses_ranks() const;                                       // all-to-all ranks that the scheme uses inside cp
  int64_t layers_per_stage() const { return static_cast<int64_t>(model.layers.size()) / layout.pp; }
};

/// Throws a usage Error that names the broken rule and the nearest valid choice.
void check_request(const Request& request);
/// The same as text, "" when the request is valid: for searches.
std::string why_invalid(const Request& request);

/// "tp8 cp2 dp4 ep32 etp2 recompute=full offload=inputs": what differs from one GPU and the defaults.
std::string describe_layout(const Request& request);

inline constexpr int64_t kActivationBytes = 2;  // activations, weights and their messages are bf16

}  // namespace megatoken::plan
