#include "reference/comm/local.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "reference/comm/local_world.hpp"
#include "reference/core/device.hpp"

namespace megatoken {
namespace local {
namespace {

std::byte* bytes_of(const TensorView& view) { return static_cast<std::byte*>(view.data); }

void copy_raw(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

std::string describe(const TensorView& view) { return format("{} bytes {}", view.bytes(), to_string(view.dtype)); }

int64_t row_bytes(const TensorView& view) {
  int64_t elements = 1;
  for (int axis = 1; axis < view.shape.rank(); ++axis) elements *= view.shape[axis];
  return elements * size_of(view.dtype);
}

std::vector<int64_t> row_offsets(const std::vector<int64_t>& rows) {
  std::vector<int64_t> offsets{0};
  for (int64_t n : rows) offsets.push_back(offsets.back() + n);
  return offsets;
}

template <class T>
T combine(T a, T b, Reduction reduction) {
  if constexpr (std::is_integral_v<T>) {
    return reduction == Reduction::Sum ? static_cast<T>(a + b) : std::max(a, b);
  } else {  // one rounding to T: the sum of two numbers of at most 24 bits loses nothing that matters in a double
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return static_cast<T>(reduction == Reduction::Sum ? x + y : y > x || y != y ? y : x);
  }
}

template <class F>
void dispatch_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::I32: return f.template operator()<int32_t>();
    case DType::I64: return f.template operator()<int64_t>();
    case DType::U8: return f.template operator()<uint8_t>();
    default: return dispatch_float(dtype, f);
  }
}

/// Element e of the offers' inputs, combined in rank order.
template <class T>
T combined_at(std::span<const Offer> offers, int64_t e, Reduction reduction) {
  T value = static_cast<const T*>(offers[0].in.data)[e];
  for (size_t rank = 1; rank < offers.size(); ++rank) value = combine(value, static_cast<const T*>(offers[rank].in.data)[e], reduction);
  return value;
}

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  void start_exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    begin("start_exchange");
    MEGATOKEN_CHECK(!exchange_, "start_exchange before the exchange under way was waited for");
    for (const auto& message : sends) check_message("send", message);
    for (const auto& message : receives) check_message("receive", message);
    Exchange exchange{sends, receives, {}};
    std::vector<std::pair<int, Parcel>> parcels;
    for (const auto& [tensor, peer] : sends) {
      const Parcel& parcel = exchange.copies.emplace_back(Parcel{tensor.dtype, tensor.bytes(), allocate(Device::Cpu, tensor.bytes())});
      copy_raw(parcel.data.get(), bytes_of(tensor), parcel.bytes);
      parcels.emplace_back(peer, parcel);
    }
    std::vector<int> receive_from;
    for (const auto& [tensor, peer] : receives) {
      fill_bytes(tensor.data, Device::Cpu, 0xff, tensor.bytes());  // NaN in every format, until wait_exchange
      receive_from.push_back(peer);
    }
    group_->post(rank_, parcels, receive_from);
    exchange_ = std::move(exchange);
  }

  void wait_exchange() override {
    begin("wait_exchange");
    MEGATOKEN_CHECK(exchange_.has_value(), "wait_exchange without an exchange under way");
    const Exchange exchange = std::move(*exchange_);
    exchange_.reset();
    for (const Message& message : delivery_order(exchange.receives)) deliver(message);
    std::vector<int> peers;
    for (const auto& message : exchange.sends) peers.push_back(message.peer);
    group_->wait_matched(rank_, peers);
    for (size_t i = 0; i < exchange.sends.size(); ++i) {
      const TensorView& tensor = exchange.sends[i].tensor;
      const bool unchanged = tensor.bytes() == 0 || std::memcmp(tensor.data, exchange.copies[i].data.get(), static_cast<size_t>(tensor.bytes())) == 0;
      if (!unchanged) fail(format("the tensor of {} sent to rank {} changed between start_exchange and wait_exchange", describe(tensor), peers[i]));
    }
    book(exchange);
  }

  void all_reduce(const TensorView& tensor, Reduction reduction) override {
    begin("all_reduce");
    check_tensor("all_reduce", tensor);
    const std::string call = format("all_reduce({}) of {}", reduction == Reduction::Sum ? "sum" : "max", describe(tensor));
    group_->collective(rank_, {call, tensor, tensor, {}, {}}, [&](std::span<const Offer> offers) {
      // Every rank combines its part of the elements and writes it everywhere: in place, and the same bits for all.
      const int64_t begin = tensor.size() * rank_ / size(), end = tensor.size() * (rank_ + 1) / size();
      dispatch_number(tensor.dtype, [&]<class T>() {
        for (int64_t e = begin; e < end; ++e) {
          const T value = combined_at<T>(offers, e, reduction);
          for (const Offer& offer : offers) static_cast<T*>(offer.out.data)[e] = value;
        }
      });
    });
    book_collective("all_reduce", others_share(2 * tensor.bytes()));
  }

  void all_gather(const TensorView& in, const TensorView& out) override {
    begin("all_gather");
    check_pieces("all_gather", "out", out, "in", in);
    group_->collective(rank_, {"all_gather of " + describe(in), in, out, {}, {}}, [&](std::span<const Offer> offers) {
      for (size_t p = 0; p < offers.size(); ++p) copy_raw(bytes_of(out) + static_cast<int64_t>(p) * in.bytes(), bytes_of(offers[p].in), in.bytes());
    });
    book_collective("all_gather", others_share(out.bytes()));
  }

  void reduce_scatter(const TensorView& in, const TensorView& out) override {
    begin("reduce_scatter");
    check_pieces("reduce_scatter", "in", in, "out", out);
    group_->collective(rank_, {"reduce_scatter of " + describe(in), in, out, {}, {}}, [&](std::span<const Offer> offers) {
      dispatch_number(in.dtype, [&]<class T>() {
        for (int64_t e = 0; e < out.size(); ++e) static_cast<T*>(out.data)[e] = combined_at<T>(offers, rank_ * out.size() + e, Reduction::Sum);
      });
    });
    book_collective("reduce_scatter", others_share(in.bytes()));
  }

  void all_to_all(const TensorView& in, const TensorView& out) override {
    begin("all_to_all");
    check_tensor("all_to_all in", in);
    check_tensor("all_to_all out", out);
    check_same("all_to_all", in, out);
    MEGATOKEN_CHECK(in.size() % size() == 0, "all_to_all of {} elements over {} ranks: pieces must be equal", in.size(), size());
    const int64_t piece = in.bytes() / size();
    group_->collective(rank_, {"all_to_all of " + describe(in), in, out, {}, {}}, [&](std::span<const Offer> offers) {
      for (size_t p = 0; p < offers.size(); ++p) copy_raw(bytes_of(out) + static_cast<int64_t>(p) * piece, bytes_of(offers[p].in) + rank_ * piece, piece);
    });
    book_collective("all_to_all", others_share(in.bytes()));
  }

  void all_to_all_v(const TensorView& in, const std::vector<int64_t>& send_rows, const TensorView& out, const std::vector<int64_t>& receive_rows) override {
    begin("all_to_all_v");
    check_rows("in", in, send_rows);
    check_rows("out", out, receive_rows);
    const int64_t row = row_bytes(in);
    MEGATOKEN_CHECK(row == row_bytes(out), "all_to_all_v: rows of in have {} bytes, those of out {}", row, row_bytes(out));
    const std::string call = format("all_to_all_v of {} in rows of {} bytes", to_string(in.dtype), row);
    group_->collective(rank_, {call, in, out, send_rows, receive_rows}, [&](std::span<const Offer> offers) {
      std::byte* to = bytes_of(out);
      for (const Offer& offer : offers) {
        const auto self = static_cast<size_t>(rank_);
        const int64_t bytes = offer.send_rows[self] * row;
        copy_raw(to, bytes_of(offer.in) + row_offsets(offer.send_rows)[self] * row, bytes);
        to += bytes;
      }
    });
    const auto self = static_cast<size_t>(rank_);
    if (size() > 1)
      ledger_.add("all_to_all_v", -1, (row_offsets(send_rows).back() - send_rows[self]) * row, (row_offsets(receive_rows).back() - receive_rows[self]) * row, 1);
  }

  void broadcast(const TensorView& tensor, int root) override {
    begin("broadcast");
    check_tensor("broadcast", tensor);
    check_peer("broadcast", root);
    group_->collective(rank_, {format("broadcast of {} from rank {}", describe(tensor), root), tensor, tensor, {}, {}}, [&](std::span<const Offer> offers) {
      if (rank_ != root) copy_raw(bytes_of(tensor), bytes_of(offers[static_cast<size_t>(root)].in), tensor.bytes());
    });
    if (size() > 1) ledger_.add("broadcast", -1, rank_ == root ? tensor.bytes() : 0, rank_ == root ? 0 : tensor.bytes(), 1);
  }

  void barrier() override {
    begin("barrier");
    group_->collective(rank_, {"barrier", {}, {}, {}, {}}, [](std::span<const Offer>) {});
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    begin("split");
    std::unique_ptr<Communicator> part;
    group_->collective(rank_, {"split", {}, {}, {}, {}, color, key}, [&](std::span<const Offer> offers) {
      std::vector<std::pair<int, int>> order;  // (key, rank) of my color
      for (int rank = 0; rank < size(); ++rank)
        if (const Offer& offer = offers[static_cast<size_t>(rank)]; offer.color == color) order.emplace_back(offer.key, rank);
      std::sort(order.begin(), order.end());
      std::vector<int> members;
      int rank_in_part = 0;
      for (const auto& [_, rank] : order) {
        if (rank == rank_) rank_in_part = static_cast<int>(members.size());
        members.push_back(group_->world_rank(rank));
      }
      part = std::make_unique<LocalCommunicator>(group_->subgroup(color, members), rank_in_part);
    });
    return part;
  }

  void abort(const std::string& reason) override {
    auto lock = world().lock();
    world().fail(lock, world_rank(), Error(ErrorKind::Environment, "aborted: " + reason));
  }

  bool exchange_under_way() const { return exchange_.has_value(); }

 private:
  struct Exchange {
    std::vector<Message> sends, receives;
    std::vector<Parcel> copies;  // of what was sent, to see whether the caller left it alone
  };

  World& world() const { return group_->world(); }
  int world_rank() const { return group_->world_rank(rank_); }
  void begin(const char* call) { world().begin_call(world_rank(), call); }
  int64_t others_share(int64_t bytes) const { return bytes * (size() - 1) / size(); }

  [[noreturn]] void fail(const std::string& message) {
    auto lock = world().lock();
    world().fail_and_throw(lock, world_rank(), Error(ErrorKind::Usage, message));
  }

  void check_peer(const std::string& call, int peer) const {
    MEGATOKEN_CHECK(0 <= peer && peer < size(), "{}: there is no rank {} among {} ranks", call, peer, size());
  }
  void check_tensor(const std::string& call, const TensorView& tensor) const {
    MEGATOKEN_CHECK(tensor && tensor.contiguous() && tensor.device == Device::Cpu, "{}: a contiguous host tensor is needed, not one of shape {}", call,
                    tensor.shape.to_string());
  }
  void check_message(const std::string& call, const Message& message) const {
    check_tensor(call, message.tensor);
    check_peer(call, message.peer);
  }
  void check_same(const std::string& call, const TensorView& in, const TensorView& out) const {
    MEGATOKEN_CHECK(in.dtype == out.dtype && in.size() == out.size(), "{}: in has {}, out has {}", call, describe(in), describe(out));
  }
  void check_pieces(const std::string& call, const char* whole_name, const TensorView& whole, const char* piece_name, const TensorView& piece) const {
    check_tensor(call, whole);
    check_tensor(call, piece);
    MEGATOKEN_CHECK(whole.dtype == piece.dtype && whole.size() == piece.size() * size(), "{} over {} ranks: {} must hold {} times {}, but they have {} and {}",
                    call, size(), whole_name, size(), piece_name, describe(whole), describe(piece));
  }
  void check_rows(const char* name, const TensorView& tensor, const std::vector<int64_t>& rows) const {
    check_tensor("all_to_all_v", tensor);
    MEGATOKEN_CHECK(static_cast<int>(rows.size()) == size(), "all_to_all_v: {} row counts of {} for {} ranks", rows.size(), name, size());
    MEGATOKEN_CHECK(row_offsets(rows).back() == tensor.shape[0] && *std::min_element(rows.begin(), rows.end()) >= 0,
                    "all_to_all_v: the row counts of {} add up to {}, the tensor has {} rows", name, row_offsets(rows).back(), tensor.shape[0]);
  }

  /// As posted, or shuffled between peers; the order within a pair stays.
  std::vector<Message> delivery_order(std::vector<Message> receives) {
    if (!world().options().reorder) return receives;
    std::vector<Message> order;
    while (!receives.empty()) {
      const auto pick = receives.begin() + static_cast<int64_t>(world().random(world_rank()) % receives.size());
      const auto first = std::find_if(receives.begin(), receives.end(), [&](const Message& m) { return m.peer == pick->peer; });
      order.push_back(*first);
      receives.erase(first);
    }
    return order;
  }

  void deliver(const Message& message) {
    world().pause(world_rank());
    const Parcel parcel = group_->take(rank_, message.peer);
    if (parcel.bytes != message.tensor.bytes() || parcel.dtype != message.tensor.dtype)
      fail(format("rank {} sends {} bytes {} to rank {}, which expects {}", group_->world_rank(message.peer), parcel.bytes, to_string(parcel.dtype), world_rank(),
                  describe(message.tensor)));
    copy_raw(bytes_of(message.tensor), parcel.data.get(), parcel.bytes);
  }

  /// One entry a peer.
  void book(const Exchange& exchange) {
    for (int peer = 0; peer < size(); ++peer) {
      int64_t sent = 0, received = 0, messages = 0, entries = 0;
      for (const auto& m : exchange.sends)
        if (m.peer == peer) sent += m.tensor.bytes(), ++messages, ++entries;
      for (const auto& m : exchange.receives)
        if (m.peer == peer) received += m.tensor.bytes(), ++entries;
      if (entries > 0 && peer != rank_) ledger_.add("exchange", peer, sent, received, messages);
    }
  }
  void book_collective(const char* operation, int64_t bytes) {
    if (size() > 1) ledger_.add(operation, -1, bytes, bytes, 1);
  }

  std::shared_ptr<Group> group_;
  int rank_;
  std::optional<Exchange> exchange_;
};

/// The life of one rank thread.
void run_rank(const std::shared_ptr<World>& world, const std::shared_ptr<Group>& group, int rank, const std::function<void(Communicator&)>& work) {
  const auto report = [&](const Error& error) {
    auto lock = world->lock();
    world->fail(lock, rank, error);
  };
  try {
    LocalCommunicator communicator(group, rank);
    work(communicator);
    MEGATOKEN_CHECK(!communicator.exchange_under_way(), "returned without wait_exchange");
    world->returned(rank);
  } catch (const SilentDeath&) {
    world->vanished(rank);
  } catch (const Error& error) {
    report(error);
  } catch (const std::exception& error) {
    report(Error(ErrorKind::Environment, error.what()));
  } catch (...) {
    report(Error(ErrorKind::Environment, "an exception of unknown type"));
  }
}

}  // namespace
}  // namespace local

void run_ranks(int ranks, const std::function<void(Communicator&)>& work, const LocalOptions& options) {
  MEGATOKEN_CHECK(ranks >= 1, "{} ranks asked for; there must be at least one", ranks);
  const auto world = std::make_shared<local::World>(ranks, options);
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  const auto group = std::make_shared<local::Group>(world, members);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      try {
        threads.emplace_back(local::run_rank, world, group, rank, work);
      } catch (const std::system_error& error) {
        auto lock = world->lock();
        world->fail(lock, rank, Error(ErrorKind::Environment, format("no thread could be started: {}", error.what()), "use fewer ranks"));
        break;
      }
    }
  }
  if (const auto error = world->first_failure()) throw *error;
}

}  // namespace megatoken
