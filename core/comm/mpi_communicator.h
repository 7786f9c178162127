// The communicator of processes under MPI (mpi_process.h). Collectives are made of messages between two ranks each, in pieces
// of at most a gibibyte, so that counts have no bound, uneven and empty pieces cost nothing, and whoever is late is known; sums
// are formed in the order of ranks, piece by piece, while the next piece is on its way. An all_reduce of
// Reduction::kFastSum is MPI's own, for the types that MPI adds up. Collectives of little go through memory where all ranks of a group
// are of one machine (mpi_near.h).
#pragma once

#include <memory>
#include <string>

#include "core/comm/communicator.h"

namespace mstrain {

class MpiEngine;
class MpiOperation;
struct MpiGroup;
struct NearCall;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<MpiEngine> engine, std::shared_ptr<MpiGroup> group);
  ~MpiCommunicator() override;

  int rank() const override;
  int size() const override;
  std::string_view name() const override;

  Event all_reduce(Elements in, Elements out, Reduction reduction, std::string_view what) override;
  Event reduce_scatter(Elements in, Elements out, std::span<const int64_t> counts,
                       Reduction reduction, std::string_view what) override;
  Event all_gather(Elements in, Elements out, std::span<const int64_t> counts,
                   std::string_view what) override;
  Event all_to_all(Elements in, Elements out, std::span<const int64_t> sends,
                   std::span<const int64_t> receives, std::string_view what) override;
  Event broadcast(Elements inout, int root, std::string_view what) override;
  Event send(Elements in, int peer, std::string_view what) override;
  Event receive(Elements out, int peer, std::string_view what) override;
  void barrier(std::string_view what) override;
  std::unique_ptr<Communicator> split(int colour, std::string name) override;

 private:
  Event start(std::shared_ptr<MpiOperation> operation);
  // Whether so much goes through memory that the ranks share.
  bool is_near(int64_t bytes) const;
  // Whether a message began and ended at once.
  bool is_through(const Elements& data, int peer, bool sends, std::string_view what);
  Event start(const NearCall& call, std::string_view operation, std::string_view what);
  void check_peer(int peer, std::string_view what) const;

  std::shared_ptr<MpiEngine> engine_;
  std::shared_ptr<MpiGroup> group_;
  int64_t splits_ = 0;
};

}  // namespace mstrain
