// A communicator moves tensors between ranks. Implementations: local (threads of one process), mpi, nccl.
// All ranks call the same collectives in the same order. A failed or aborted rank makes every call on every other rank
// throw an Environment error within the time limit; nothing hangs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "reference/comm/ledger.hpp"
#include "reference/core/tensor.hpp"

namespace megatoken {

enum class Reduction : uint8_t { Sum, Max };

/// One message of a grouped exchange. Messages between two ranks match in posting order: there are no tags.
struct Message {
  TensorView tensor;  // contiguous
  int peer = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Starts a group of sends and receives; none may be touched before wait_exchange(). At most one exchange is under way at a time.
  virtual void start_exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) = 0;
  virtual void wait_exchange() = 0;
  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) {
    start_exchange(sends, receives);
    wait_exchange();
  }

  /// In place; summed in rank order in the tensor's dtype, so that every rank gets the same bits.
  virtual void all_reduce(const TensorView& tensor, Reduction reduction) = 0;
  /// out[r] = in of rank r; out has size() times the elements of in.
  virtual void all_gather(const TensorView& in, const TensorView& out) = 0;
  /// out = Σ over ranks of piece rank() of in; in has size() times the elements of out.
  virtual void reduce_scatter(const TensorView& in, const TensorView& out) = 0;
  /// Piece p of in goes to rank p, where it becomes piece rank() of out; equal pieces along the first axis.
  virtual void all_to_all(const TensorView& in, const TensorView& out) = 0;
  /// Uneven pieces in rows of the first axis: send_rows[p] rows go to rank p, receive_rows[p] rows come from it.
  virtual void all_to_all_v(const TensorView& in, const std::vector<int64_t>& send_rows, const TensorView& out, const std::vector<int64_t>& receive_rows) = 0;
  virtual void broadcast(const TensorView& tensor, int root) = 0;
  virtual void barrier() = 0;
  /// Ranks of equal color form a new communicator, ordered by (key, rank). Its traffic is booked in its own ledger.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  /// Makes every pending and later call on every rank throw, with `reason` in the message.
  virtual void abort(const std::string& reason) = 0;

  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

 protected:
  Ledger ledger_;
};

}  // namespace megatoken
