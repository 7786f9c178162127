#include "core/comm/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/base/hash.h"
#include "core/comm/mpi_near.h"
#include "core/comm/mpi_operations.h"
#include "core/comm/sums.h"

namespace mstrain {
namespace {

// As errors call it; whoever asks may have said the operation.
std::string named(std::string_view operation, std::string_view what) {
  return what.starts_with(operation) ? std::string(what) : fmt::format("{} {}", operation, what);
}

// One transfer a rank, of counts[r] elements that follow each other.
std::vector<MpiTransfer> pieces(const Elements& all, std::span<const int64_t> counts) {
  std::vector<MpiTransfer> out;
  out.reserve(counts.size());
  auto* at = static_cast<std::byte*>(all.data);
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t bytes = counts[i] * size_of(all.dtype);
    out.push_back({static_cast<int>(i), at, bytes});
    at += bytes;
  }
  return out;
}

void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (to != from && bytes > 0) {
    std::memmove(to, from, static_cast<size_t>(bytes));
  }
}

int64_t sum(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

void check_counts(std::span<const int64_t> counts, int size, int64_t all, std::string_view what) {
  check(static_cast<int>(counts.size()) == size && sum(counts) == all,
        "{}: {} counts that sum up to {}, of {} ranks and {} elements", what, counts.size(),
        sum(counts), size, all);
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiEngine> engine, std::shared_ptr<MpiGroup> group)
    : engine_(std::move(engine)), group_(std::move(group)) {}

MpiCommunicator::~MpiCommunicator() {
  if (group_ != engine_->world()) {
    engine_->release(group_);
  }
}

int MpiCommunicator::rank() const { return group_->rank; }
int MpiCommunicator::size() const { return group_->size(); }
std::string_view MpiCommunicator::name() const { return group_->name; }

Event MpiCommunicator::start(std::shared_ptr<MpiOperation> operation) {
  engine_->start(operation);
  return Event(std::move(operation));
}

bool MpiCommunicator::is_near(int64_t bytes) const {
  return group_->near != nullptr && bytes <= NearMemory::kMostBytes;
}

Event MpiCommunicator::start(const NearCall& call, std::string_view operation,
                             std::string_view what) {
  std::optional<int64_t> given;
  const auto end_now = [&] {
    const bool has_ended = group_->near->end_now(call, &given);
    group_->begun += has_ended ? 1 : 0;
    return has_ended;
  };
  if (engine_->at_once(*group_, operation, what, end_now)) {
    return {};
  }
  return start(std::make_shared<MpiNear>(*engine_, group_, named(operation, what), call, given));
}

bool MpiCommunicator::is_through(const Elements& data, int peer, bool sends,
                                 std::string_view what) {
  const int64_t bytes = data.bytes();
  return group_->near != nullptr && bytes > 0 && bytes <= NearMemory::kMostSent &&
         engine_->at_once(*group_, sends ? "send" : "receive", what, [&] {
           return group_->near->move_now(
               {peer, static_cast<std::byte*>(data.data), bytes, sends, /*is_point=*/true});
         });
}

Event MpiCommunicator::all_reduce(Elements in, Elements out, Reduction reduction,
                                  std::string_view what) {
  check(in.count == out.count && in.dtype == out.dtype, "{}: unlike operands", what);
  if (size() == 1 || in.count == 0) {
    copy_bytes(out.data, in.data, in.bytes());
    return {};
  }
  if (is_near(in.bytes() * (size() - 1))) {
    return start({.kind = NearCall::Kind::kReduce, .in = in, .out = out, .reduction = reduction},
                 "all_reduce", what);
  }
  std::string name = named("all_reduce", what);
  if (reduction == Reduction::kFastSum && MpiFastSum::has(in.dtype)) {
    return start(std::make_shared<MpiFastSum>(*engine_, group_, std::move(name), in, out));
  }
  if (in.bytes() * (size() - 1) <= kLittleToReduce) {
    return start(
        std::make_shared<MpiReduce>(*engine_, group_, std::move(name), in, out, reduction));
  }
  return start(std::make_shared<MpiReduce>(*engine_, group_, std::move(name), in, out,
                                           even_pieces(in, size()), reduction, /*gathers=*/true));
}

Event MpiCommunicator::reduce_scatter(Elements in, Elements out, std::span<const int64_t> counts,
                                      Reduction reduction, std::string_view what) {
  check_counts(counts, size(), in.count, what);
  check(counts[static_cast<size_t>(rank())] == out.count && in.dtype == out.dtype,
        "{}: unlike operands", what);
  if (size() == 1 || in.count == 0) {
    copy_bytes(out.data, in.data, in.bytes());
    return {};
  }
  if (is_near(in.bytes())) {
    return start({.kind = NearCall::Kind::kReduce,
                  .in = in,
                  .out = out,
                  .first = sum(counts.first(static_cast<size_t>(rank()))),
                  .reduction = reduction},
                 "reduce_scatter", what);
  }
  return start(std::make_shared<MpiReduce>(*engine_, group_, named("reduce_scatter", what), in, out,
                                           std::vector<int64_t>(counts.begin(), counts.end()),
                                           reduction, /*gathers=*/false));
}

Event MpiCommunicator::all_gather(Elements in, Elements out, std::span<const int64_t> counts,
                                  std::string_view what) {
  check_counts(counts, size(), out.count, what);
  check(counts[static_cast<size_t>(rank())] == in.count && in.dtype == out.dtype,
        "{}: unlike operands", what);
  const int64_t before = sum(counts.first(static_cast<size_t>(rank())));
  copy_bytes(static_cast<std::byte*>(out.data) + before * size_of(out.dtype), in.data, in.bytes());
  if (size() == 1 || out.count == 0) {
    return {};
  }
  if (is_near(*std::max_element(counts.begin(), counts.end()) * size_of(in.dtype))) {
    return start({.kind = NearCall::Kind::kGather, .in = in, .out = out, .counts = counts},
                 "all_gather", what);
  }
  const std::vector<MpiTransfer> receives = pieces(out, counts);
  std::vector<MpiTransfer> sends;
  sends.reserve(counts.size());
  for (int i = 0; i < size(); ++i) {
    sends.push_back({i, static_cast<std::byte*>(in.data), in.bytes()});
  }
  return start(
      std::make_shared<MpiExchange>(*engine_, group_, named("all_gather", what), sends, receives));
}

Event MpiCommunicator::all_to_all(Elements in, Elements out, std::span<const int64_t> sends,
                                  std::span<const int64_t> receives, std::string_view what) {
  check_counts(sends, size(), in.count, what);
  check_counts(receives, size(), out.count, what);
  check(in.dtype == out.dtype, "{}: unlike operands", what);
  const std::vector<MpiTransfer> from = pieces(in, sends);
  const std::vector<MpiTransfer> to = pieces(out, receives);
  const auto own = static_cast<size_t>(rank());
  check(from[own].bytes == to[own].bytes, "{}: sends itself another count than it receives", what);
  copy_bytes(to[own].data, from[own].data, to[own].bytes);
  return start(
      std::make_shared<MpiExchange>(*engine_, group_, named("all_to_all", what), from, to));
}

Event MpiCommunicator::broadcast(Elements inout, int root, std::string_view what) {
  if (size() == 1 || inout.count == 0) {
    return {};
  }
  if (is_near(inout.bytes())) {
    return start({.kind = NearCall::Kind::kBroadcast, .in = inout, .out = inout, .root = root},
                 "broadcast", what);
  }
  return start(
      std::make_shared<MpiBroadcast>(*engine_, group_, named("broadcast", what), inout, root));
}

Event MpiCommunicator::send(Elements in, int peer, std::string_view what) {
  check_peer(peer, what);
  if (is_through(in, peer, /*sends=*/true, what)) {
    return {};
  }
  std::vector<MpiTransfer> sends(static_cast<size_t>(size()));
  sends[static_cast<size_t>(peer)] = {peer, static_cast<std::byte*>(in.data), in.bytes()};
  return start(std::make_shared<MpiExchange>(*engine_, group_, named("send", what), sends,
                                             std::span<const MpiTransfer>(),
                                             MpiOperation::Kind::kPoint));
}

Event MpiCommunicator::receive(Elements out, int peer, std::string_view what) {
  check_peer(peer, what);
  if (is_through(out, peer, /*sends=*/false, what)) {
    return {};
  }
  std::vector<MpiTransfer> receives(static_cast<size_t>(size()));
  receives[static_cast<size_t>(peer)] = {peer, static_cast<std::byte*>(out.data), out.bytes()};
  return start(std::make_shared<MpiExchange>(*engine_, group_, named("receive", what),
                                             std::span<const MpiTransfer>(), receives,
                                             MpiOperation::Kind::kPoint));
}

void MpiCommunicator::barrier(std::string_view what) {
  if (size() > 1 && is_near(0)) {
    start({.kind = NearCall::Kind::kBarrier}, "barrier", what).wait();
  } else {
    start(std::make_shared<MpiBarrier>(*engine_, group_, named("barrier", what))).wait();
  }
}

void MpiCommunicator::check_peer(int peer, std::string_view what) const {
  check(peer >= 0 && peer < size() && peer != rank(), "{}: rank {} of {} has no peer {}", what,
        rank(), size(), peer);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int colour, std::string name) {
  std::vector<int32_t> colours(static_cast<size_t>(size()));
  colours[static_cast<size_t>(rank())] = colour;
  const std::vector<int64_t> ones(colours.size(), 1);
  const Elements all{colours.data(), size(), Dtype::kI32};
  all_gather({&colours[static_cast<size_t>(rank())], 1, Dtype::kI32}, all, ones, "split " + name)
      .wait();
  std::vector<int> ranks;
  for (int i = 0; i < size(); ++i) {
    if (colours[static_cast<size_t>(i)] == colour) {
      ranks.push_back(i);
    }
  }
  // Groups of one split differ in their colour, those of several in their number.
  const uint64_t id = Hasher().add(group_->id).add(splits_++).add(colour).finish().lo;
  return std::make_unique<MpiCommunicator>(
      engine_, engine_->make_group(*group_, ranks, id, std::move(name)));
}

}  // namespace mstrain
