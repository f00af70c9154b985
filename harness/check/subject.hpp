// What is judged: a variant on one rank, or under a scheme on several. One run of it, under guard: outputs and workspace are
// filled with NaN bytes before, canaries stand before and after every buffer, inputs are compared with what they were.
#pragma once
#include <string>
#include <vector>

#include "reference/core/case.hpp"
#include "reference/core/problem.hpp"
#include "reference/schemes/run_scheme.hpp"

namespace megatoken {

struct Subject {
  const Component* component = nullptr;
  Variant variant;            // copies: planted faults are made on the fly
  const Scheme* scheme = nullptr;
  int ranks = 1;
  int threads = 1;            // CPU threads in all

  static Subject of(const Case& test, int threads);
  /// "" or why the case cannot be run here: "unsupported: …", "no_device: …".
  std::string unsupported(const Axes& axes, DType dtype, Phase phase) const;
};

struct SubjectRun {
  Problem result;                       // host tensors: the inputs as given, the outputs as computed
  std::vector<std::string> violations;  // "canary after dk overwritten", "input q changed"
  std::vector<Ledger> ledgers;          // one a rank, schemes only
};

SubjectRun run_subject(const Subject& subject, const Problem& problem, Phase phase);

/// Before and after every guarded buffer.
inline constexpr int64_t kCanaryBytes = 256;

/// Device-resident, guarded tensors of one problem, for repeated calls (checks, timing).
class GuardedProblem {
 public:
  GuardedProblem(const Problem& problem, const Variant& variant, Phase phase);
  /// Poisons outputs and workspace.
  void poison();
  /// Enqueues the phases once; does not wait.
  void call(Phase phase, int threads, void* stream = nullptr);
  /// Canaries and inputs; call after synchronising.
  std::vector<std::string> violations() const;
  /// Host copies of everything.
  Problem result() const;
  Device device() const { return variant_->device; }
  int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  struct Buffer {
    std::shared_ptr<std::byte> memory;
    int64_t bytes = 0;
  };
  const Problem* source_;
  const Variant* variant_;
  Phase phase_;
  std::vector<Buffer> buffers_;  // one a field, then the workspace
  std::vector<TensorView> views_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace megatoken
