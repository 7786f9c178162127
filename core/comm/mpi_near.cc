#include "core/comm/mpi_near.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "core/base/hash.h"
#include "core/comm/sums.h"

namespace mstrain {

// Where a rank lays what it gives. The number is in the line of the first bytes, which arrive with it.
struct NearMemory::Place {
  std::atomic<int64_t> given;  // number of the collective, plus one; 0: none yet
  std::byte data[kMostBytes];
};

// From one rank to another: lines that go round, of which so many bytes were ever written and read. A message is its size, in a line,
// and its bytes, in as many as they need.
struct NearMemory::Lane {
  alignas(64) std::atomic<int64_t> written;
  alignas(64) std::atomic<int64_t> read;
  alignas(64) std::byte data[kLaneBytes];
};

struct NearMemory::Share {
  alignas(64) std::atomic<int64_t> ended;  // collectives whose data this rank has read
  std::atomic<uint64_t> mark;              // that it is the right rank's
  struct alignas(64) Line {
    Place place;
  };
  Line places[kPlaces];
  Lane lanes[kMostRanks][kLanes];  // by receiver: those of so many ranks as there are
};

namespace {

constexpr int64_t kLine = 64;
// At what others give, before an operation is made that waits for it: they take less than that.
constexpr int kGlances = 200;

int64_t lines(int64_t bytes) { return kLine + (bytes + kLine - 1) / kLine * kLine; }

uint64_t mark_of(const MpiGroup& group, int rank) {
  return hash_combine(group.id, static_cast<uint64_t>(rank) + 1);
}

void* map(int file, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

int64_t NearCall::bytes(int rank) const {
  switch (kind) {
    case Kind::kBarrier: return 0;
    case Kind::kReduce:
    case Kind::kGather: return in.bytes();
    case Kind::kBroadcast: return rank == root ? in.bytes() : 0;
  }
  __builtin_unreachable();
}

size_t NearMemory::bytes_of(int ranks) {
  return offsetof(Share, lanes) + static_cast<size_t>(ranks) * sizeof(Share::lanes[0]);
}

std::unique_ptr<NearMemory> NearMemory::make(const MpiGroup& group,
                                             const std::vector<ProcessPlace>& places) {
  const auto place_of = [&](int rank) -> const ProcessPlace& {
    return places[static_cast<size_t>(group.world[static_cast<size_t>(rank)])];
  };
  const int size = group.size();
  if (size == 1 || size > kMostRanks) {
    return nullptr;
  }
  const size_t bytes = bytes_of(size);
  const int own = memfd_create("mstrain", MFD_CLOEXEC);
  bool well = own >= 0 && ftruncate(own, static_cast<off_t>(bytes)) == 0;
  std::vector<Share*> shares(static_cast<size_t>(size));
  std::vector<int> files(shares.size());
  if (well) {
    shares[static_cast<size_t>(group.rank)] = static_cast<Share*>(map(own, bytes));
    well = shares[static_cast<size_t>(group.rank)] != nullptr;
  }
  if (well) {
    shares[static_cast<size_t>(group.rank)]->mark = mark_of(group, group.rank);
  }
  check_mpi(MPI_Allgather(&own, 1, MPI_INT, files.data(), 1, MPI_INT, group.comm), "MPI_Allgather");
  for (int i = 0; i < size && well; ++i) {
    if (i == group.rank) {
      continue;
    }
    well = files[static_cast<size_t>(i)] >= 0 && place_of(group.rank).sees(place_of(i));
    const int file =
        well ? open(fmt::format("/proc/{}/fd/{}", place_of(i).pid, files[static_cast<size_t>(i)])
                        .c_str(),
                    O_RDWR | O_CLOEXEC)
             : -1;
    Share*& share = shares[static_cast<size_t>(i)];
    share = file >= 0 ? static_cast<Share*>(map(file, bytes)) : nullptr;
    well = share != nullptr && share->mark == mark_of(group, i);
    if (file >= 0) {
      close(file);
    }
  }
  int all = well ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, group.comm), "MPI_Allreduce");
  if (own >= 0) {
    close(own);
  }
  std::unique_ptr<NearMemory> out(new NearMemory(group.rank, std::move(shares)));
  return all != 0 ? std::move(out) : nullptr;
}

NearMemory::~NearMemory() {
  const size_t bytes = bytes_of(static_cast<int>(shares_.size()));
  for (Share* share : shares_) {
    if (share != nullptr) {
      munmap(share, bytes);
    }
  }
}

NearMemory::Place& NearMemory::place(int rank, int64_t number) const {
  return shares_[static_cast<size_t>(rank)]->places[number % kPlaces].place;
}

bool NearMemory::can_give(int64_t number) {
  if (number != given_) {
    return false;
  }
  if (number >= read_ + kPlaces) {
    read_ = ended_;
    for (const Share* share : shares_) {
      read_ = std::min(read_, share->ended.load(std::memory_order_acquire));
    }
  }
  return number < read_ + kPlaces;
}

void NearMemory::give(int64_t number, const NearCall& call) {
  Place& own = place(rank_, number);
  if (const int64_t bytes = call.bytes(rank_); bytes > 0) {
    std::memcpy(own.data, call.in.data, static_cast<size_t>(bytes));
  }
  own.given.store(number + 1, std::memory_order_release);
  ++given_;
}

bool NearMemory::has_given(int rank, int64_t number) const {
  return place(rank, number).given.load(std::memory_order_acquire) == number + 1;
}

bool NearMemory::can_take(int64_t number) const {
  if (number != ended_) {
    return false;
  }
  for (int rank = 0; rank < static_cast<int>(shares_.size()); ++rank) {
    if (!has_given(rank, number)) {
      return false;
    }
  }
  return true;
}

void NearMemory::take(int64_t number, const NearCall& call) {
  const auto ranks = static_cast<int>(shares_.size());
  switch (call.kind) {
    case NearCall::Kind::kBarrier: break;
    case NearCall::Kind::kReduce:
      for (int rank = 0; rank < ranks; ++rank) {
        pieces_[static_cast<size_t>(rank)] =
            place(rank, number).data + call.first * size_of(call.in.dtype);
      }
      reduce_in_order(call.reduction, call.in.dtype, pieces_, /*initial=*/{}, call.out);
      break;
    case NearCall::Kind::kGather: {
      int64_t at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const int64_t count = call.counts[static_cast<size_t>(rank)];
        if (rank != rank_ && count > 0) {
          std::memcpy(element(call.out, at), place(rank, number).data,
                      static_cast<size_t>(count * size_of(call.out.dtype)));
        }
        at += count;
      }
      break;
    }
    case NearCall::Kind::kBroadcast:
      if (rank_ != call.root) {
        std::memcpy(call.out.data, place(call.root, number).data,
                    static_cast<size_t>(call.out.bytes()));
      }
      break;
  }
  ++ended_;
  shares_[static_cast<size_t>(rank_)]->ended.store(ended_, std::memory_order_release);
}

bool NearMemory::end_now(const NearCall& call, std::optional<int64_t>* given) {
  const int64_t number = begun_;
  if (ended_ < begun_ || !can_give(number)) {
    return false;
  }
  *given = begin();
  give(number, call);
  for (int i = 0; i < kGlances; ++i) {
    if (can_take(number)) {
      take(number, call);
      return true;
    }
  }
  return false;
}

int NearMemory::lane_of(const Message& message) {
  return (message.is_point ? 2 : 0) + (message.bytes > kLittleSent ? 1 : 0);
}

NearMemory::Lane& NearMemory::lane(const Message& message) const {
  const int from = message.sends ? rank_ : message.peer;
  const int to = message.sends ? message.peer : rank_;
  return shares_[static_cast<size_t>(from)]->lanes[to][lane_of(message)];
}

NearMemory::Ends& NearMemory::ends(const Message& message) {
  return ends_[static_cast<size_t>((message.peer * 2 + (message.sends ? 1 : 0)) * kLanes +
                                   lane_of(message))];
}

void NearMemory::begin(Message& message) {
  Ends& it = ends(message);
  message.begin = it.begun;
  it.begun += lines(message.bytes);
}

bool NearMemory::move_on(const Message& message) {
  Ends& it = ends(message);
  Lane& by = lane(message);
  const int64_t bytes = message.bytes;
  const int64_t length = bytes > kLittleSent ? kLaneBytes : kLittleLane;
  const int64_t end = message.begin + lines(bytes);
  std::byte* const header = by.data + message.begin % length;
  const int64_t at = (message.begin + kLine) % length;
  const int64_t first = std::min(bytes, length - at);
  if (message.begin != it.through) {
    return false;
  }
  if (message.sends) {
    if (end - by.read.load(std::memory_order_acquire) > length) {
      return false;
    }
    std::memcpy(header, &bytes, sizeof bytes);
    std::copy_n(message.data, first, by.data + at);
    std::copy_n(message.data + first, bytes - first, by.data);
    by.written.store(end, std::memory_order_release);
  } else {
    if (by.written.load(std::memory_order_acquire) <= message.begin) {
      return false;
    }
    int64_t sent = 0;
    std::memcpy(&sent, header, sizeof sent);
    if (sent != bytes) {
      throw CommError(fmt::format("a message of {} bytes is received as one of {}", sent, bytes));
    }
    std::copy_n(by.data + at, first, message.data);
    std::copy_n(by.data, bytes - first, message.data + first);
    by.read.store(end, std::memory_order_release);
  }
  it.through = end;
  return true;
}

bool NearMemory::move_now(Message message) {
  Ends& it = ends(message);
  message.begin = it.begun;
  if (!move_on(message)) {
    return false;
  }
  it.begun = it.through;
  return true;
}

MpiNear::MpiNear(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what,
                 const NearCall& call, std::optional<int64_t> number)
    : MpiOperation(engine, std::move(group), std::move(what)),
      call_(call),
      counts_(call.counts.begin(), call.counts.end()),
      number_(number),
      is_given_(number.has_value()) {
  call_.counts = counts_;
}

void MpiNear::begin() {
  if (!number_) {
    number_ = group_->near->begin();
  }
  look_on();
  look();
}

bool MpiNear::look() {
  NearMemory& near = *group_->near;
  if (!is_given_ && near.can_give(*number_)) {
    near.give(*number_, call_);
    is_given_ = true;
  }
  if (is_given_ && near.can_take(*number_)) {
    near.take(*number_, call_);
    look_no_more();
    return true;
  }
  int there = 0;
  for (int rank = 0; rank < group_->size(); ++rank) {
    there += near.has_given(rank, *number_) ? 1 : 0;
  }
  return std::exchange(there_, there) != there;
}

void MpiNear::await(std::set<int>& ranks) const {
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (!group_->near->has_given(rank, *number_)) {
      ranks.insert(rank);
    }
  }
}

}  // namespace mstrain
