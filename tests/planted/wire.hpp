// Ways to corrupt, or to watch, a right scheme without writing it again: the communicator it talks through, or the block variant that
// computes on each rank.
#pragma once
#include <functional>
#include <memory>

#include "reference/schemes/scheme.hpp"

namespace megatoken::plant {

/// Passes every call on to another communicator; override what should differ. Traffic is booked by the inner one.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void start_exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override { inner_.start_exchange(sends, receives); }
  void wait_exchange() override { inner_.wait_exchange(); }
  void all_reduce(const TensorView& tensor, Reduction reduction) override { inner_.all_reduce(tensor, reduction); }
  void all_gather(const TensorView& in, const TensorView& out) override { inner_.all_gather(in, out); }
  void reduce_scatter(const TensorView& in, const TensorView& out) override { inner_.reduce_scatter(in, out); }
  void all_to_all(const TensorView& in, const TensorView& out) override { inner_.all_to_all(in, out); }
  void all_to_all_v(const TensorView& in, const std::vector<int64_t>& send_rows, const TensorView& out, const std::vector<int64_t>& receive_rows) override {
    inner_.all_to_all_v(in, send_rows, out, receive_rows);
  }
  void broadcast(const TensorView& tensor, int root) override { inner_.broadcast(tensor, root); }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override { return inner_.split(color, key); }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 private:
  Communicator& inner_;
};

/// Calls after_exchange(received messages, number of the exchange in this pass) when an exchange is over.
class ExchangeWatcher : public ForwardingCommunicator {
 public:
  using After = std::function<void(const std::vector<Message>& received, int exchange)>;
  ExchangeWatcher(Communicator& inner, After after) : ForwardingCommunicator(inner), after_(std::move(after)) {}
  void start_exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    receives_ = receives;
    ForwardingCommunicator::start_exchange(sends, receives);
  }
  void wait_exchange() override {
    ForwardingCommunicator::wait_exchange();
    after_(receives_, exchange_++);
  }

 private:
  After after_;
  std::vector<Message> receives_;
  int exchange_ = 0;
};

/// Runs the truth through a watcher; make_after is called once a rank and pass.
Scheme with_exchanges(const Scheme& truth, std::function<ExchangeWatcher::After(const SchemeCall&)> make_after, Phase when = Phase::Both);
/// Runs the truth on another block variant, which may depend on the rank.
Scheme with_block(const Scheme& truth, std::function<Variant(const Variant& block, int rank)> change);
/// Runs the truth on other local axes (a forgotten option) where change says so.
Scheme with_local_axes(const Scheme& truth, std::function<void(Axes& local, int rank)> change);
/// Runs the truth, then corrupts this rank's results.
Scheme with_results(const Scheme& truth, std::function<void(const SchemeCall&)> change, Phase when = Phase::Both);

}  // namespace megatoken::plant
