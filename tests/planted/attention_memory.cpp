// Faults of attention that have a memory, or touch memory that is not theirs: each looks right on a first call with clean buffers.
#include <memory>

#include "reference/core/device.hpp"
#include "tests/planted/edits.hpp"

namespace megatoken {
namespace {

using plant::Editor;
using namespace plant;

/// Swaps a tensor with what it was at the call before; the first call leaves it alone.
struct Yesterday {
  std::shared_ptr<Tensor> kept = std::make_shared<Tensor>();
  void operator()(const TensorView& view) const {
    const Tensor today = clone(view);
    if (*kept && (*kept)->shape == view.shape) copy(*kept, view);
    *kept = today;
  }
};

const Registered<Fault> kYesterdaysOutput{Fault{
    .component = "attention", .name = "yesterdays_output", .about = "o of the call before is returned: a buffer is swapped too late", .guards = "parallel.md A12: diffusers #14265",
    .plant = [](const Variant& truth) { return with_output(truth, "o", Yesterday()); }}};

const Registered<Fault> kYesterdaysLse{Fault{
    .component = "attention", .name = "stale_lse", .about = "backward normalises with the log-sum-exp of the step before", .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) { return with_input(truth, "lse", Yesterday(), Phase::Backward); }}};

/// Calls change(view, call number from 1) on one result after every call.
Variant counting_calls(const Variant& truth, const std::string& field, std::function<void(const TensorView&, int64_t)> change) {
  return with_output(truth, field, [calls = std::make_shared<int64_t>(0), change](const TensorView& view) { change(view, ++*calls); });
}

const Registered<Fault> kRightTenTimes{Fault{
    .component = "attention", .name = "right_ten_times", .about = "from the eleventh call on o is 1 % too large: a counter or a ring of buffers overflows", .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) {
      return counting_calls(truth, "o", [](const TensorView& o, int64_t call) {
        if (call > 10) scale(o, 1.01);
      });
    }}};

const Registered<Fault> kNondeterministic{Fault{
    .component = "attention", .name = "not_deterministic", .about = "one element of dk differs in its last bits from call to call, as with atomic additions", .guards = "checks_and_results.md §1: repeat",
    .plant = [](const Variant& truth) {
      return counting_calls(truth, "dk", [](const TensorView& dk, int64_t call) {
        if (dk.size() > 0 && call % 2 == 0) set_value(dk, 0, value_at(dk, 0) * (1 + 8 * unit_roundoff(dk.dtype)));
      });
    }}};

/// Leaves one element of a result as it was before the call.
const Registered<Fault> kUnwritten{Fault{
    .component = "attention", .name = "element_left_unwritten", .about = "the last element of dv is never written", .guards = "checks_and_results.md §1: memory hygiene",
    .plant = [](const Variant& truth) {
      return with_backward(truth, [run = truth.backward](const Call& call) {
        const TensorView& dv = call.views[find_component("attention").index("dv")];
        const Tensor before = to_device(dv, Device::Cpu);
        run(call);
        Editor(find_component("attention"), call).edit("dv", [&](const TensorView& now) {
          if (const int64_t last = now.size() - 1; last >= 0) set_value(now, last, value_at(before, last));
        });
      });
    }}};

/// Writes a tensor's first element to the byte offset `offset` from its start.
void write_stray(const TensorView& view, int64_t offset) {
  std::byte element[8] = {};
  copy_bytes(element, Device::Cpu, view.data, view.device, size_of(view.dtype));
  copy_bytes(static_cast<std::byte*>(view.data) + offset, view.device, element, Device::Cpu, size_of(view.dtype));
}

Variant with_stray_write(const Variant& truth, bool behind) {
  return with_forward(truth, [run = truth.forward, behind](const Call& call) {
    run(call);
    const TensorView& o = call.views[find_component("attention").index("o")];
    if (o.size() > 0) write_stray(o, behind ? o.bytes() : -size_of(o.dtype));
  });
}

const Registered<Fault> kWritesPastTheEnd{Fault{
    .component = "attention", .name = "writes_past_the_end", .about = "one element behind o is written", .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) { return with_stray_write(truth, true); }}};

const Registered<Fault> kWritesBeforeTheStart{Fault{
    .component = "attention", .name = "writes_before_the_start", .about = "one element in front of o is written",
    .plant = [](const Variant& truth) { return with_stray_write(truth, false); }}};

const Registered<Fault> kInputChanged{Fault{
    .component = "attention", .name = "input_changed", .about = "q is multiplied by the scale in place", .guards = "checks_and_results.md §1",
    .plant = [](const Variant& truth) {
      return with_forward(truth, [run = truth.forward](const Call& call) {
        run(call);
        Editor(find_component("attention"), call).edit("q", [](const TensorView& q) { scale(q, 0.5); });
      });
    }}};

}  // namespace
}  // namespace megatoken
