// Little that ranks of one machine exchange, through memory that they share. In a collective each rank lays what it gives into a place of
// its own and says so there, and whoever sees that all have reads it. What is sent lies in a lane from one rank to another, one message
// behind the other, until it is received: nobody's work is needed on its way. What is there before somebody asks costs no request and
// no wait. Private to core/comm/mpi_*.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/comm/mpi_engine.h"

namespace mstrain {

inline std::byte* element(const Elements& elements, int64_t index) {
  return static_cast<std::byte*>(elements.data) + index * size_of(elements.dtype);
}

// What a rank gives and gets. Memory is the caller's.
struct NearCall {
  enum class Kind : uint8_t { kBarrier, kReduce, kGather, kBroadcast };

  Kind kind = Kind::kBarrier;
  Elements in, out;   // kBroadcast: both are the same
  int64_t first = 0;  // kReduce: of `in`, what is added up into `out` begins here
  // kGather: elements of each rank; this one's are in `out` already.
  std::span<const int64_t> counts = {};
  Reduction reduction = Reduction::kSum;
  int root = 0;

  // That the rank gives.
  int64_t bytes(int rank) const;
};

// The memory of a group. In turns, as all of the engine.
class NearMemory {
 public:
  static constexpr int64_t kMostBytes = 32 << 10;  // that a rank gives to a collective
  static constexpr int kMostRanks = 16;            // each looks at all others

  // All ranks call it. Null, and so on all of them, where not all can share memory.
  static std::unique_ptr<NearMemory> make(const MpiGroup& group,
                                          const std::vector<ProcessPlace>& places);
  ~NearMemory();
  NearMemory(const NearMemory&) = delete;
  NearMemory& operator=(const NearMemory&) = delete;

  // Collectives have numbers, from 0 on in the order in which they begin on every rank; they are given, and end, in this order.
  int64_t begin() { return begun_++; }
  // Whether it is this one's turn, and every rank has read what lay in its place.
  bool can_give(int64_t number);
  void give(int64_t number, const NearCall& call);
  bool has_given(int rank, int64_t number) const;
  // Whether it is this one's turn to end, and all have given.
  bool can_take(int64_t number) const;
  void take(int64_t number, const NearCall& call);

  static constexpr int64_t kMostSent = 1 << 20;  // bytes of a message

  // A message of this rank. Those of a lane follow each other by where they begin: with an earlier one's beginning and bytes, as sender and
  // receiver both know.
  struct Message {
    int peer = 0;
    std::byte* data = nullptr;
    int64_t bytes = 0;
    bool sends = false;
    bool is_point = false;
    int64_t begin = 0;
  };
  void begin(Message& message);
  // Whether it is through when this returns. Throws CommError where what is received has another size.
  bool move_on(const Message& message);
  // A message that begins and ends at once. False: it would not, and has not begun.
  bool move_now(Message message);
  // Gives and takes the next collective where all others give before long. False: `given` is its number where this rank has given.
  bool end_now(const NearCall& call, std::optional<int64_t>* given);

 private:
  static constexpr int64_t kPlaces = 4;
  static constexpr int64_t kLaneBytes = 2 << 20;
  // What is used again stays in caches.
  static constexpr int64_t kLittleSent = 8 << 10, kLittleLane = 64 << 10;
  static constexpr int kLanes = 4;  // of points and collectives, of little and of more
  struct Place;
  struct Lane;
  struct Share;
  // Where the messages begun so far end, and those that are through.
  struct Ends {
    int64_t begun = 0, through = 0;
  };

  NearMemory(int rank, std::vector<Share*> shares)
      : rank_(rank),
        shares_(std::move(shares)),
        pieces_(shares_.size()),
        ends_(2 * kLanes * shares_.size()) {}
  static size_t bytes_of(int ranks);  // of a share
  Place& place(int rank, int64_t number) const;
  Lane& lane(const Message& message) const;
  Ends& ends(const Message& message);
  static int lane_of(const Message& message);

  int rank_;
  std::vector<Share*> shares_;  // by rank
  std::vector<const void*> pieces_;
  int64_t begun_ = 0, given_ = 0, ended_ = 0;
  int64_t read_ = 0;        // collectives that all ranks have ended, when somebody last looked
  std::vector<Ends> ends_;  // by peer, direction and lane
};

// A collective that did not end where it began.
class MpiNear final : public MpiOperation {
 public:
  // `number`: of one that has been given already.
  MpiNear(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what,
          const NearCall& call, std::optional<int64_t> number);
  void begin() override;
  void advance(int) override {}
  bool look() override;
  void await(std::set<int>& ranks) const override;

 private:
  NearCall call_;
  std::vector<int64_t> counts_;
  std::optional<int64_t> number_;
  bool is_given_;
  int there_ = 0;  // ranks, at the last look
};

}  // namespace mstrain
