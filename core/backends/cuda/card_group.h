// Ranks whose cards exchange among themselves, by NCCL.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/backends/cuda/driver.h"
#include "core/backends/cuda/exchange_watch.h"

namespace mstrain::cuda {

// What all groups of a process have in common: the stream that exchanges run on, one after another, so that all ranks do theirs in the
// order of their programs, which is one; and who watches over them.
class Cards {
 public:
  // Of the ranks of `job`, which all make one.
  Cards(std::unique_ptr<Communicator> job, double timeout_s);
  ~Cards();
  Cards(const Cards&) = delete;
  Cards& operator=(const Cards&) = delete;

  Queue& queue() { return *queue_; }
  ExchangeWatch& watch() { return *watch_; }

 private:
  std::unique_ptr<Communicator> job_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<ExchangeWatch> watch_;
};

// One of NCCL's connections.
class CardConnection {
 public:
  // Of `ranks` cards, of which each gives the same id. Returns when all have done so.
  CardConnection(std::shared_ptr<Cards> cards, const NcclLibrary::Id& id, int ranks, int rank,
                 const Exchange& meeting);
  ~CardConnection();
  CardConnection(const CardConnection&) = delete;
  CardConnection& operator=(const CardConnection&) = delete;

  // Gives `calls`, which are one of NCCL's groups, to `queue` behind `after`. Returns when NCCL has them, with the event of their end.
  Event give(Queue& queue, const Event& after, Exchange exchange,
             const std::function<void(NcclLibrary::Comm, Driver::Handle)>& calls);

 private:
  std::shared_ptr<Cards> cards_;
  NcclLibrary::Comm comm_ = nullptr;
};

// Collectives of memory on cards. Calls are as those of Communicator, begin behind `after`, and return events of the card.
class CardGroup {
 public:
  // `host`: the same ranks; it stays. Connects with the first call.
  CardGroup(std::shared_ptr<Cards> cards, Communicator& host);

  int rank() const { return host_.rank(); }
  int size() const { return host_.size(); }
  // Whether sums of such elements, in any order, are made on their way.
  static bool adds_up(Dtype dtype) { return nccl_type(dtype).has_value(); }

  Event all_reduce(Elements in, Elements out, const Event& after, std::string_view what);
  // Equal pieces.
  Event reduce_scatter(Elements in, Elements out, const Event& after, std::string_view what);
  Event all_gather(Elements in, Elements out, std::span<const int64_t> counts, const Event& after,
                   std::string_view what);
  Event all_to_all(Elements in, Elements out, std::span<const int64_t> sends,
                   std::span<const int64_t> receives, const Event& after, std::string_view what);
  // `in` goes to one rank, `out` comes from one: this one is both or neither.
  Event pass(Elements in, int to, Elements out, int from, const Event& after,
             std::string_view what);
  // Kernels behind what was given before.
  Event then(const std::function<void(Queue&)>& launch);

 private:
  CardConnection& connection();
  Event give(Exchange exchange, const Event& after,
             const std::function<void(NcclLibrary::Comm, Driver::Handle)>& calls);

  std::shared_ptr<Cards> cards_;
  Communicator& host_;
  std::unique_ptr<CardConnection> connection_;
};

// From each rank of a group to each other one: a connection and a stream for each direction of two, so that what goes there and what
// comes back do not wait for each other.
class CardLanes {
 public:
  // All ranks of `host` make one.
  CardLanes(std::shared_ptr<Cards> cards, Communicator& host);
  Event send(Elements in, int peer, const Event& after, std::string_view what);
  Event receive(Elements out, int peer, const Event& after, std::string_view what);

 private:
  struct Lane {
    std::unique_ptr<Queue> queue;
    std::unique_ptr<CardConnection> connection;
  };
  static constexpr int kSender = 0, kReceiver = 1;  // ranks of a lane

  Communicator& host_;
  std::vector<Lane> to_, from_;  // by peer
};

}  // namespace mstrain::cuda
