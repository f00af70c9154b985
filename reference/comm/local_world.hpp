// What the rank threads of `local` share: who is alive and doing what (World), and the meeting points of one communicator (Group).
// One mutex guards everything; data is copied outside of it.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/local.hpp"
#include "reference/core/random.hpp"

namespace megatoken::local {

/// Ends a rank that dies silently; run_ranks swallows it.
struct SilentDeath {};

class World {
 public:
  using Lock = std::unique_lock<std::mutex>;

  World(int ranks, const LocalOptions& options);
  const LocalOptions& options() const { return options_; }
  Lock lock() { return Lock(mutex_); }
  void notify() { changed_.notify_all(); }

  /// Start of a call: injected pause and death. Throws when a rank has failed before.
  void begin_call(int rank, const std::string& call);
  void pause(int rank);
  uint64_t random(int rank);  // the next number of this rank's own stream

  /// Waits until ready(). Throws when a rank fails, when one of absent() has returned and so can never come, when deadlock() finds a
  /// reason why waiting is in vain, and at the time limit.
  template <class Ready, class Absent, class Deadlock>
  void wait(Lock& lock, int rank, Ready ready, Absent absent, Deadlock deadlock) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.timeout);
    auto& waits_for = ranks_[static_cast<size_t>(rank)].waits_for;
    while (!ready()) {
      throw_if_failed(rank);
      waits_for = absent();
      throw_if_in_vain(lock, rank, deadlock());
      if (changed_.wait_until(lock, limit) == std::cv_status::timeout && !ready()) throw_timeout(lock, rank);
    }
    waits_for.clear();
  }
  /// Waits for something that cannot fail and soon happens.
  template <class Ready>
  void wait(Lock& lock, Ready ready) {
    while (!ready()) changed_.wait(lock);
  }

  /// The first failure stays; every waiting and later call of the other ranks throws because of it.
  void fail(Lock& lock, int rank, const Error& error);
  [[noreturn]] void fail_and_throw(Lock& lock, int rank, const Error& error);
  void returned(int rank);
  void vanished(int rank);
  /// The first failure, with its rank named; a vanished rank counts only if nobody missed it. None when all went well.
  std::optional<Error> first_failure() const;

 private:
  struct Rank {
    std::string call = "none";
    int64_t calls = 0;        // calls begun
    std::vector<int> waits_for;
    bool has_returned = false;
    int64_t randoms = 0;
  };
  void throw_if_failed(int rank) const;
  void throw_if_in_vain(Lock& lock, int rank, const std::string& deadlock);
  [[noreturn]] void throw_timeout(Lock& lock, int rank);
  /// Those that this rank waits for, directly or through others that wait, and that wait for nobody: the ones to look at.
  std::vector<int> missed_by(int rank) const;
  std::string here(int rank) const;  // "rank 0: all_gather (call 3)"

  LocalOptions options_;
  RandomStream stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  std::optional<Error> failure_;
  int failed_rank_ = -1, vanished_rank_ = -1;
};

/// What one rank brings to a collective. `call` says everything that must agree: "all_gather of 64 bytes fp32".
struct Offer {
  std::string call;
  TensorView in, out;
  std::vector<int64_t> send_rows, receive_rows;  // all_to_all_v
  int color = 0, key = 0;                        // split
};

/// A message on its way: a copy of the sender's bytes.
struct Parcel {
  DType dtype;
  int64_t bytes;
  std::shared_ptr<std::byte> data;
};

class Group {
 public:
  /// members[rank] = rank in the world.
  Group(std::shared_ptr<World> world, std::vector<int> members);
  World& world() const { return *world_; }
  int size() const { return static_cast<int>(members_.size()); }
  int world_rank(int rank) const { return members_[static_cast<size_t>(rank)]; }

  /// Meets all ranks, runs work(offers of all ranks), which must not throw, and leaves when every rank's work is done.
  void collective(int rank, Offer offer, const std::function<void(std::span<const Offer>)>& work);
  /// The group of this color, the same for every rank that asks during one collective.
  std::shared_ptr<Group> subgroup(int color, const std::vector<int>& members);

  void post(int from, const std::vector<std::pair<int, Parcel>>& parcels, const std::vector<int>& receive_from);
  Parcel take(int rank, int from);
  /// Waits until every parcel that `from` has sent has a receive posted for it.
  void wait_matched(int from, const std::vector<int>& peers);

 private:
  struct Pair {
    std::deque<Parcel> parcels;
    int64_t sent = 0, receives = 0;  // posted so far
  };
  Pair& pair(int from, int to) { return pairs_[static_cast<size_t>(from * size() + to)]; }
  bool in_open_round(int rank) const { return rounds_[static_cast<size_t>(rank)] > rounds_begun_; }
  std::string disagreement() const;
  /// Why `peer` cannot serve an exchange of `rank`: it stands in a collective that needs `rank` too.
  std::string stuck_in_collective(int rank, int peer) const;

  std::shared_ptr<World> world_;
  std::vector<int> members_;
  std::vector<Offer> offers_;
  std::vector<int64_t> rounds_;     // collectives that each rank has entered
  int64_t rounds_begun_ = 0;        // … that all ranks have entered
  int64_t rounds_done_ = 0;         // … that all ranks have left
  int entered_ = 0, left_ = 0;
  std::map<std::pair<int64_t, int>, std::shared_ptr<Group>> subgroups_;  // by round and color
  std::vector<Pair> pairs_;
};

}  // namespace megatoken::local
