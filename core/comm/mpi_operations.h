// Collectives as sequences of MPI's requests. Private to core/comm/mpi_*.
#pragma once

#include <span>
#include <vector>

#include "core/comm/mpi_engine.h"
#include "core/comm/mpi_near.h"

namespace mstrain {

// Bytes that go to or come from a rank of the group.
struct MpiTransfer {
  int peer = 0;
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

// Every rank sends to and receives from others what they have agreed on. Few messages are under way at a time; the rank after
// this one comes first, so that not all send to the same. What is little goes through memory, where the group shares some.
class MpiExchange final : public MpiOperation {
 public:
  // By rank of the group.
  MpiExchange(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what,
              std::span<const MpiTransfer> sends, std::span<const MpiTransfer> receives,
              Kind kind = Kind::kCollective);
  void begin() override;
  void advance(int token) override;
  bool look() override;
  void await(std::set<int>& ranks) const override;

 private:
  enum Token : int { kSent, kReceived };
  void send_next();
  void receive_next();

  std::vector<NearMemory::Message> near_;      // that are not through
  std::vector<MpiTransfer> sends_, receives_;  // others, in the order in which they begin
  size_t sent_ = 0, received_ = 0;             // begun
};

// Pieces of `in`, one for each rank, are added up in the order of ranks by the rank that each is for; where `gathers`, all ranks
// get all sums. Blocks of a piece follow each other: while one is added up, the next is on its way.
class MpiReduce final : public MpiOperation {
 public:
  // `in`: pieces of counts[r] elements; `out`: this rank's, or all of them, and then it may be `in`.
  MpiReduce(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what, Elements in,
            Elements out, std::vector<int64_t> counts, Reduction reduction, bool gathers);
  // Of little: all of `in` is every rank's piece, so that numbers travel once. `out` may be `in`.
  MpiReduce(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what, Elements in,
            Elements out, Reduction reduction);
  void begin() override;
  void advance(int token) override;

 private:
  // With each of the others.
  struct Lane {
    int64_t posted = 0, sent = 0;  // blocks of its piece that are under way or gone
    bool complete[2] = {};         // of those under way, by parity
  };
  enum Step : int { kSend, kReceive, kSendSum, kReceiveSum };
  static int token(Step step, int peer, int64_t block);

  int64_t blocks(int rank) const;
  int64_t elements(int rank, int64_t block) const;
  int64_t offset(int rank, int64_t block) const;
  std::byte* landing(int peer, int64_t block);
  void make_landing();
  void send_block(int peer);
  void receive_block(int64_t block);
  void add_up(int64_t block);

  Elements in_, out_;
  std::vector<int64_t> counts_, starts_;
  Reduction reduction_;
  bool gathers_;
  int64_t block_;  // elements
  std::vector<std::byte> landing_;
  std::vector<std::byte> sent_;  // what is sent, where it would be overwritten
  std::vector<Lane> lanes_;      // by rank
  int missing_[2] = {};          // blocks that are still to come, by parity of their number
  int64_t summed_ = 0;           // blocks of this rank's piece
};

// Blocks go down a tree: whoever has one sends it on while the next is on its way.
class MpiBroadcast final : public MpiOperation {
 public:
  MpiBroadcast(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what, Elements inout,
               int root);
  void begin() override;
  void advance(int token) override;

 private:
  int64_t bytes(int64_t block) const;
  void receive_next();
  void send_next(size_t child);

  Elements inout_;
  int64_t block_, blocks_;  // bytes of one, and their number
  int parent_ = -1;         // -1: this is the root
  std::vector<int> children_;
  std::vector<int64_t> sent_;  // blocks, by child: begun
  int64_t received_ = 0;       // begun
  std::vector<bool> here_;     // by block
};

// In round k each rank tells the one 2^k after it that it, and all those that it has heard of, are there.
class MpiBarrier final : public MpiOperation {
 public:
  using MpiOperation::MpiOperation;
  void begin() override;
  void advance(int) override;

 private:
  void begin_round();

  int distance_ = 1;
  int missing_ = 0;  // messages of the round
};

// MPI's own.
class MpiFastSum final : public MpiOperation {
 public:
  // Whether MPI adds up such elements.
  static bool has(Dtype dtype);
  MpiFastSum(MpiEngine& engine, std::shared_ptr<MpiGroup> group, std::string what, Elements in,
             Elements out);
  void begin() override;
  void advance(int) override {}

 private:
  Elements in_, out_;
};

}  // namespace mstrain
