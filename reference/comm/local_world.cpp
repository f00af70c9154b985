#include "reference/comm/local_world.hpp"

#include <algorithm>
#include <thread>

namespace megatoken::local {
namespace {

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size(); ++i) text += format("{} {}", i ? "," : "", ranks[i]);
  return text;
}

}  // namespace

World::World(int ranks, const LocalOptions& options) : options_(options), stream_(options.seed, "local ranks"), ranks_(static_cast<size_t>(ranks)) {}

uint64_t World::random(int rank) {
  Rank& state = ranks_[static_cast<size_t>(rank)];
  return static_cast<uint64_t>(stream_.integer(int64_t{rank} << 40 | state.randoms++, int64_t{1} << 53));
}

void World::pause(int rank) {
  if (options_.delay <= 0) return;
  std::this_thread::sleep_for(std::chrono::duration<double>(options_.delay * static_cast<double>(random(rank)) * 0x1p-53));
}

std::string World::here(int rank) const {
  const Rank& state = ranks_[static_cast<size_t>(rank)];
  return format("rank {}: {} (call {})", rank, state.call, state.calls - 1);
}

void World::begin_call(int rank, const std::string& call) {
  pause(rank);
  Lock lock(mutex_);
  Rank& state = ranks_[static_cast<size_t>(rank)];
  state.call = call;
  ++state.calls;
  throw_if_failed(rank);
  const bool dies = options_.failure != Failure::None && options_.failing_rank == rank && options_.failing_call == state.calls - 1;
  if (!dies) return;
  if (options_.failure == Failure::Throws) throw Error(ErrorKind::Environment, format("{}: injected failure", here(rank)));
  throw SilentDeath{};
}

void World::throw_if_failed(int rank) const {
  if (failure_) throw Error(ErrorKind::Environment, format("{} stopped, because rank {} failed: {}", here(rank), failed_rank_, failure_->what()));
}

void World::throw_if_in_vain(Lock& lock, int rank, const std::string& deadlock) {
  std::string reason = deadlock;
  for (int other : ranks_[static_cast<size_t>(rank)].waits_for)
    if (reason.empty() && ranks_[static_cast<size_t>(other)].has_returned) reason = format("waits for rank {}, which has already returned", other);
  if (reason.empty()) return;
  fail_and_throw(lock, rank, Error(ErrorKind::Environment, format("{} {}", here(rank), reason), "all ranks must call the same operations in the same order"));
}

std::vector<int> World::missed_by(int rank) const {
  std::vector<int> seen{rank}, missed;
  for (size_t i = 0; i < seen.size(); ++i)
    for (int other : ranks_[static_cast<size_t>(seen[i])].waits_for) {
      if (std::find(seen.begin(), seen.end(), other) != seen.end()) continue;
      seen.push_back(other);
      if (ranks_[static_cast<size_t>(other)].waits_for.empty()) missed.push_back(other);
    }
  return missed;
}

void World::throw_timeout(Lock& lock, int rank) {
  std::string text = format("{} waited {} s for {}", here(rank), options_.timeout, list_ranks(ranks_[static_cast<size_t>(rank)].waits_for));
  const std::vector<int> missed = missed_by(rank);
  if (missed.empty()) text += "; the ranks wait for each other";
  for (int other : missed) text += format("; last call of the missing one: {}", here(other));
  fail_and_throw(lock, rank, Error(ErrorKind::Timeout, text, "find out why it does not come; a longer time limit helps only if it still computes"));
}

void World::fail(Lock&, int rank, const Error& error) {
  if (failure_) return;
  failure_ = error;
  failed_rank_ = rank;
  notify();
}

void World::fail_and_throw(Lock& lock, int rank, const Error& error) {
  fail(lock, rank, error);
  throw error;
}

void World::returned(int rank) {
  const Lock lock(mutex_);
  ranks_[static_cast<size_t>(rank)].has_returned = true;
  notify();
}

void World::vanished(int rank) {
  const Lock lock(mutex_);
  vanished_rank_ = rank;
}

std::optional<Error> World::first_failure() const {
  if (!failure_ && vanished_rank_ < 0) return std::nullopt;
  if (!failure_) return Error(ErrorKind::Environment, here(vanished_rank_) + " never came back");
  const std::string rank = format("rank {}", failed_rank_);
  const std::string& message = failure_->message();
  return Error(failure_->kind(), message.starts_with(rank) ? message : rank + ": " + message, failure_->hint());
}

Group::Group(std::shared_ptr<World> world, std::vector<int> members)
    : world_(std::move(world)), members_(std::move(members)), offers_(members_.size()), rounds_(members_.size(), 0), pairs_(members_.size() * members_.size()) {}

void Group::collective(int rank, Offer offer, const std::function<void(std::span<const Offer>)>& work) {
  auto lock = world_->lock();
  const auto self = static_cast<size_t>(rank);
  offers_[self] = std::move(offer);
  const int64_t round = rounds_[self]++;
  if (++entered_ == size()) {
    entered_ = 0;
    if (const std::string text = disagreement(); !text.empty())
      world_->fail_and_throw(lock, world_rank(rank), Error(ErrorKind::Usage, text, "all ranks must call the same operations with equal sizes in the same order"));
    ++rounds_begun_;
  }
  world_->notify();  // also for exchanges that now wait in vain
  const auto absent = [&] {
    std::vector<int> ranks;
    for (int other = 0; other < size(); ++other)
      if (!in_open_round(other)) ranks.push_back(world_rank(other));
    return ranks;
  };
  world_->wait(lock, world_rank(rank), [&] { return rounds_begun_ > round; }, absent, [] { return std::string(); });

  lock.unlock();
  work(offers_);
  lock.lock();
  if (++left_ == size()) {
    left_ = 0;
    ++rounds_done_;
    world_->notify();
  }
  world_->wait(lock, [&] { return rounds_done_ > round; });  // the others may still read what this rank brought
}

std::string Group::disagreement() const {
  for (int rank = 1; rank < size(); ++rank) {
    const Offer &first = offers_[0], &other = offers_[static_cast<size_t>(rank)];
    if (first.call != other.call) return format("rank {} calls {}, but rank {} calls {}", world_rank(0), first.call, world_rank(rank), other.call);
  }
  for (int from = 0; from < size(); ++from)
    for (int to = 0; to < size(); ++to) {
      const Offer &sender = offers_[static_cast<size_t>(from)], &receiver = offers_[static_cast<size_t>(to)];
      if (sender.send_rows.empty()) return "";
      const int64_t sent = sender.send_rows[static_cast<size_t>(to)], expected = receiver.receive_rows[static_cast<size_t>(from)];
      if (sent != expected)
        return format("{}: rank {} sends {} rows to rank {}, which expects {}", sender.call, world_rank(from), sent, world_rank(to), expected);
    }
  return "";
}

std::shared_ptr<Group> Group::subgroup(int color, const std::vector<int>& members) {
  const auto lock = world_->lock();
  auto& group = subgroups_[{rounds_begun_, color}];
  if (!group) group = std::make_shared<Group>(world_, members);
  return group;
}

void Group::post(int from, const std::vector<std::pair<int, Parcel>>& parcels, const std::vector<int>& receive_from) {
  const auto lock = world_->lock();
  for (const auto& [to, parcel] : parcels) {
    pair(from, to).parcels.push_back(parcel);
    ++pair(from, to).sent;
  }
  for (int peer : receive_from) ++pair(peer, from).receives;
  world_->notify();
}

std::string Group::stuck_in_collective(int rank, int peer) const {
  if (!in_open_round(peer)) return "";
  return format("waits for rank {}, which waits for rank {} in {}", world_rank(peer), world_rank(rank), offers_[static_cast<size_t>(peer)].call);
}

Parcel Group::take(int rank, int from) {
  auto lock = world_->lock();
  auto& parcels = pair(from, rank).parcels;
  world_->wait(lock, world_rank(rank), [&] { return !parcels.empty(); }, [&] { return std::vector<int>{world_rank(from)}; },
               [&] { return stuck_in_collective(rank, from); });
  Parcel parcel = std::move(parcels.front());
  parcels.pop_front();
  return parcel;
}

void Group::wait_matched(int from, const std::vector<int>& peers) {
  auto lock = world_->lock();
  for (int peer : peers) {
    const int64_t sent = pair(from, peer).sent;
    world_->wait(lock, world_rank(from), [&] { return pair(from, peer).receives >= sent; }, [&] { return std::vector<int>{world_rank(peer)}; },
                 [&] { return stuck_in_collective(from, peer); });
  }
}

}  // namespace megatoken::local
