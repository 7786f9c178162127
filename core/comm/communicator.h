// A group of ranks that exchange numbers: threads of one process, processes under MPI, or nobody (recording).
//
// Whatever carries them, collectives are asynchronous: a call begins and returns an event, complete when `out` may be read and
// `in` may be changed. Every rank of a group begins the same collectives, with the same counts, in the same order; sends and
// receives match by peer and order. One thread at a time calls a communicator.
//
// Sums are formed in the order of ranks, ((x_0 + x_1) + x_2) + …, so that they do not depend on who is fast: Reduction::kFastSum
// leaves the order to whatever carries the numbers.
//
// A peer that is gone or late ends a wait with CommError, which names it and the collective. The group is then of no more use:
// every later call fails in the same way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/runtime/device.h"
#include "core/runtime/dtype.h"

namespace mstrain {

// What a rank says when others fail it.
class CommError : public Error {
 public:
  using Error::Error;
};

enum class Reduction : uint8_t { kSum, kFastSum, kMax, kMin };

// Elements in memory that the caller keeps until the event is complete.
struct Elements {
  void* data = nullptr;
  int64_t count = 0;
  Dtype dtype = Dtype::kF32;
  int64_t bytes() const { return count * size_of(dtype); }
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;  // in the group
  virtual int size() const = 0;
  virtual std::string_view name() const = 0;  // "data", for people

  // `what` names the call in errors and traces: the operation and its scope. It is copied.
  // out[i] of every rank = the reduction of in[i] over ranks. `in` and `out` may be the same memory.
  virtual Event all_reduce(Elements in, Elements out, Reduction reduction,
                           std::string_view what) = 0;
  // in = one piece for each rank, counts[r] elements for rank r; out = the reduction of this rank's piece.
  virtual Event reduce_scatter(Elements in, Elements out, std::span<const int64_t> counts,
                               Reduction reduction, std::string_view what) = 0;
  // out = counts[r] elements of each rank r, one after another. `in` may be its place in `out`.
  virtual Event all_gather(Elements in, Elements out, std::span<const int64_t> counts,
                           std::string_view what) = 0;
  // sends[r] elements go to rank r, receives[r] come from it, each one after another.
  virtual Event all_to_all(Elements in, Elements out, std::span<const int64_t> sends,
                           std::span<const int64_t> receives, std::string_view what) = 0;
  virtual Event broadcast(Elements inout, int root, std::string_view what) = 0;
  virtual Event send(Elements in, int peer, std::string_view what) = 0;
  virtual Event receive(Elements out, int peer, std::string_view what) = 0;
  // Returns when all ranks have called it.
  virtual void barrier(std::string_view what) = 0;

  // A group of those ranks that give the same colour, ordered by rank; every rank calls it.
  virtual std::unique_ptr<Communicator> split(int colour, std::string name) = 0;
};

}  // namespace mstrain
