#include "core/backends/cuda/card_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <numeric>

#include "core/backends/cuda/device.h"

namespace mstrain::cuda {
namespace {

size_t bytes_of(const Elements& x) { return static_cast<size_t>(x.bytes()); }

// As errors call it; whoever asks may have said the operation.
std::string named(std::string_view operation, std::string_view what, const Communicator& host) {
  return what.starts_with(operation) ? fmt::format("{} of {}", what, host.name())
                                     : fmt::format("{} {} of {}", operation, what, host.name());
}

// The shadow of a collective: one number to everybody, or a sum of one.
template <class Call>
Exchange shadowed(Communicator& host, std::string_view operation, std::string_view what,
                  const Call& call) {
  struct Memory {
    std::vector<int32_t> mine, all;
    std::vector<int64_t> ones;
  };
  const auto ranks = static_cast<size_t>(host.size());
  auto memory = std::make_shared<Memory>(Memory{
      std::vector<int32_t>(ranks), std::vector<int32_t>(ranks), std::vector<int64_t>(ranks, 1)});
  const Event met = call(Elements{memory->mine.data(), 1, Dtype::kI32},
                         Elements{memory->mine.data(), host.size(), Dtype::kI32},
                         Elements{memory->all.data(), host.size(), Dtype::kI32},
                         std::span<const int64_t>(memory->ones));
  return {named(operation, what, host), std::make_shared<const Shadow>(met, std::move(memory))};
}

Exchange shadow_of_reduction(Communicator& host, std::string_view what) {
  return shadowed(host, "all_reduce", what, [&](Elements one, Elements, Elements, auto) {
    return host.all_reduce(one, one, Reduction::kFastSum, what);
  });
}

Exchange shadow_of_gather(Communicator& host, std::string_view what) {
  return shadowed(host, "all_gather", what,
                  [&](Elements one, Elements, Elements all, std::span<const int64_t> ones) {
                    return host.all_gather(one, all, ones, what);
                  });
}

// What a rank says at its end to the one before it. The memory outlives the messages.
constexpr std::string_view kEnd = "the end of exchanges between cards";
std::byte said{}, heard{};

}  // namespace

Cards::Cards(std::unique_ptr<Communicator> job, double timeout_s)
    : job_(std::move(job)), queue_(make_queue()) {
  const int behind = (job_->rank() + 1) % job_->size();
  watch_ = std::make_unique<ExchangeWatch>(timeout_s,
                                           job_->receive({&heard, 1, Dtype::kU8}, behind, kEnd));
}

Cards::~Cards() {
  watch_.reset();
  try {
    const int before = (job_->rank() + job_->size() - 1) % job_->size();
    job_->send({&said, 1, Dtype::kU8}, before, kEnd);
  } catch (
      const Error&) {  // NOLINT(bugprone-empty-catch): a job that failed has told those who wait
  }
}

CardConnection::CardConnection(std::shared_ptr<Cards> cards, const NcclLibrary::Id& id, int ranks,
                               int rank, const Exchange& meeting)
    : cards_(std::move(cards)) {
  bind_context();
  check_spoilt();
  NcclLibrary::Config config;
  const int result = nccl().connect(&comm_, ranks, id, rank, &config);
  check_nccl(result, "ncclCommInitRankConfig");
  cards_->watch().begin(comm_);
  cards_->watch().settle(comm_, result, "ncclCommInitRankConfig", meeting);
}

CardConnection::~CardConnection() {
  if (!cards_->watch().release(comm_)) {
    return;
  }
  bind_context();
  if (std::uncaught_exceptions() > 0) {
    nccl().abort(comm_);  // others may not come to their end
    return;
  }
  int result = nccl().finalize(comm_);
  while (result == NcclLibrary::kInProgress && nccl().state(comm_, &result) == 0) {
    std::this_thread::yield();
  }
  result == NcclLibrary::kDone ? nccl().destroy(comm_) : nccl().abort(comm_);
}

Event CardConnection::give(Queue& queue, const Event& after, Exchange exchange,
                           const std::function<void(NcclLibrary::Comm, Driver::Handle)>& calls) {
  check_spoilt();
  const std::lock_guard lock(queue.mutex);
  queue.wait(after, /*needed=*/true);
  exchange.begun = queue.record();
  check_nccl(nccl().group_start(), "ncclGroupStart");
  calls(comm_, stream_of(queue));
  cards_->watch().settle(comm_, nccl().group_end(), "ncclGroupEnd", exchange);
  Event ended = exchange.ended = queue.record();
  cards_->watch().add(comm_, std::move(exchange));
  return ended;
}

CardGroup::CardGroup(std::shared_ptr<Cards> cards, Communicator& host)
    : cards_(std::move(cards)), host_(host) {}

CardConnection& CardGroup::connection() {
  if (connection_ == nullptr) {
    NcclLibrary::Id id{};
    if (rank() == 0) {
      check_nccl(nccl().make_id(&id), "ncclGetUniqueId");
    }
    host_.broadcast({id.bytes, sizeof id.bytes, Dtype::kI8}, 0, "connection of cards").wait();
    connection_ = std::make_unique<CardConnection>(cards_, id, size(), rank(),
                                                   shadow_of_gather(host_, "connection of cards"));
  }
  return *connection_;
}

Event CardGroup::give(Exchange exchange, const Event& after,
                      const std::function<void(NcclLibrary::Comm, Driver::Handle)>& calls) {
  return connection().give(cards_->queue(), after, std::move(exchange), calls);
}

Event CardGroup::all_reduce(Elements in, Elements out, const Event& after, std::string_view what) {
  connection();
  return give(shadow_of_reduction(host_, what), after, [&](auto comm, auto stream) {
    check_nccl(nccl().all_reduce(in.data, out.data, static_cast<size_t>(in.count),
                                 *nccl_type(in.dtype), NcclLibrary::kSum, comm, stream),
               "ncclAllReduce");
  });
}

Event CardGroup::reduce_scatter(Elements in, Elements out, const Event& after,
                                std::string_view what) {
  connection();
  Exchange shadow =
      shadowed(host_, "reduce_scatter", what,
               [&](Elements one, Elements mine, Elements all, std::span<const int64_t> ones) {
                 one.data = all.data;
                 return host_.reduce_scatter(mine, one, ones, Reduction::kFastSum, what);
               });
  return give(std::move(shadow), after, [&](auto comm, auto stream) {
    check_nccl(nccl().reduce_scatter(in.data, out.data, static_cast<size_t>(out.count),
                                     *nccl_type(in.dtype), NcclLibrary::kSum, comm, stream),
               "ncclReduceScatter");
  });
}

Event CardGroup::all_gather(Elements in, Elements out, std::span<const int64_t> counts,
                            const Event& after, std::string_view what) {
  connection();
  const bool even = std::ranges::all_of(counts, [&](int64_t each) { return each == in.count; });
  auto* const to = static_cast<std::byte*>(out.data);
  const int64_t size = size_of(in.dtype);
  Event copied = after;
  if (!even) {
    copied = then([&](Queue& queue) {
      queue.wait(after, /*needed=*/true);
      auto* const own =
          to + std::accumulate(counts.begin(), counts.begin() + rank(), int64_t{0}) * size;
      if (own != in.data && in.count > 0) {
        queue.copy(own, in.data, in.bytes());
      }
    });
  }
  return give(shadow_of_gather(host_, what), copied, [&](auto comm, auto stream) {
    if (even) {
      check_nccl(nccl().all_gather(in.data, to, bytes_of(in), NcclLibrary::kBytes, comm, stream),
                 "ncclAllGather");
      return;
    }
    std::byte* at = to;
    for (int r = 0; r < host_.size(); ++r) {
      const int64_t bytes = counts[static_cast<size_t>(r)] * size;
      if (r != rank() && in.count > 0) {
        check_nccl(nccl().send(in.data, bytes_of(in), NcclLibrary::kBytes, r, comm, stream),
                   "ncclSend");
      }
      if (r != rank() && bytes > 0) {
        check_nccl(
            nccl().receive(at, static_cast<size_t>(bytes), NcclLibrary::kBytes, r, comm, stream),
            "ncclRecv");
      }
      at += bytes;
    }
  });
}

Event CardGroup::all_to_all(Elements in, Elements out, std::span<const int64_t> sends,
                            std::span<const int64_t> receives, const Event& after,
                            std::string_view what) {
  connection();
  Exchange shadow =
      shadowed(host_, "all_to_all", what,
               [&](Elements, Elements mine, Elements all, std::span<const int64_t> ones) {
                 return host_.all_to_all(mine, all, ones, ones, what);
               });
  return give(std::move(shadow), after, [&](auto comm, auto stream) {
    const auto* from = static_cast<const std::byte*>(in.data);
    auto* to = static_cast<std::byte*>(out.data);
    for (int r = 0; r < host_.size(); ++r) {
      const auto sent = static_cast<size_t>(sends[static_cast<size_t>(r)] * size_of(in.dtype));
      const auto comes = static_cast<size_t>(receives[static_cast<size_t>(r)] * size_of(in.dtype));
      if (sent > 0) {
        check_nccl(nccl().send(from, sent, NcclLibrary::kBytes, r, comm, stream), "ncclSend");
      }
      if (comes > 0) {
        check_nccl(nccl().receive(to, comes, NcclLibrary::kBytes, r, comm, stream), "ncclRecv");
      }
      from += sent;
      to += comes;
    }
  });
}

Event CardGroup::pass(Elements in, int to, Elements out, int from, const Event& after,
                      std::string_view what) {
  connection();
  return give(shadow_of_gather(host_, what), after, [&](auto comm, auto stream) {
    check_nccl(nccl().send(in.data, bytes_of(in), NcclLibrary::kBytes, to, comm, stream),
               "ncclSend");
    check_nccl(nccl().receive(out.data, bytes_of(out), NcclLibrary::kBytes, from, comm, stream),
               "ncclRecv");
  });
}

Event CardGroup::then(const std::function<void(Queue&)>& launch) {
  Queue& queue = cards_->queue();
  const std::lock_guard lock(queue.mutex);
  launch(queue);
  return queue.record();
}

CardLanes::CardLanes(std::shared_ptr<Cards> cards, Communicator& host)
    : host_(host), to_(static_cast<size_t>(host.size())), from_(static_cast<size_t>(host.size())) {
  const auto ranks = to_.size();
  const auto own = static_cast<size_t>(host.rank());
  std::vector<NcclLibrary::Id> mine(ranks), ids(ranks * ranks);  // ids: by sender, receiver
  for (size_t i = 0; i < ranks; ++i) {
    if (i != own) {
      check_nccl(nccl().make_id(&mine[i]), "ncclGetUniqueId");
    }
  }
  const auto bytes = static_cast<int64_t>(ranks * sizeof(NcclLibrary::Id));
  const std::vector<int64_t> counts(ranks, bytes);
  host.all_gather({mine.data(), bytes, Dtype::kI8}, {ids.data(), bytes * host.size(), Dtype::kI8},
                  counts, "connections of cards")
      .wait();
  const Exchange meeting = shadow_of_gather(host, "connections of cards");
  // In an order that all ranks have: two that meet have met all before.
  for (size_t sender = 0; sender < ranks; ++sender) {
    for (size_t receiver = 0; receiver < ranks; ++receiver) {
      if (sender == receiver || (sender != own && receiver != own)) {
        continue;
      }
      Lane& lane = sender == own ? to_[receiver] : from_[sender];
      lane.connection = std::make_unique<CardConnection>(
          cards, ids[sender * ranks + receiver], 2, sender == own ? kSender : kReceiver, meeting);
      lane.queue = make_queue();
    }
  }
}

Event CardLanes::send(Elements in, int peer, const Event& after, std::string_view what) {
  auto memory = std::make_shared<std::byte>();
  const Event met = host_.send({memory.get(), 1, Dtype::kU8}, peer, what);
  Exchange exchange{fmt::format("{} to rank {}", named("send", what, host_), peer),
                    std::make_shared<const Shadow>(met, std::move(memory))};
  const Lane& lane = to_[static_cast<size_t>(peer)];
  return lane.connection->give(
      *lane.queue, after, std::move(exchange), [&](auto comm, auto stream) {
        check_nccl(nccl().send(in.data, bytes_of(in), NcclLibrary::kBytes, kReceiver, comm, stream),
                   "ncclSend");
      });
}

Event CardLanes::receive(Elements out, int peer, const Event& after, std::string_view what) {
  auto memory = std::make_shared<std::byte>();
  const Event met = host_.receive({memory.get(), 1, Dtype::kU8}, peer, what);
  Exchange exchange{fmt::format("{} from rank {}", named("receive", what, host_), peer),
                    std::make_shared<const Shadow>(met, std::move(memory))};
  const Lane& lane = from_[static_cast<size_t>(peer)];
  return lane.connection->give(
      *lane.queue, after, std::move(exchange), [&](auto comm, auto stream) {
        check_nccl(
            nccl().receive(out.data, bytes_of(out), NcclLibrary::kBytes, kSender, comm, stream),
            "ncclRecv");
      });
}

}  // namespace mstrain::cuda
