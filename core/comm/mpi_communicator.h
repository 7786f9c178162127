// The communicator of processes under MPI (mpi_process.h). Collectives are made of messages between two ranks each, in pieces
// of at most a gibibyte, so that counts have no bound, uneven and empty pieces cost nothing, and whoever is late is known; sums
// are formed in the order of ranks, piece by piece, while the next piece is on its way. Broadcasts, barriers and
// an all_reduce of Reduction::kFastSum are MPI's own, the latter for the types that MPI adds up.
#pragma once

#include <memory>
#include <string>

#include "core/comm/communicator.h"

namespace mstrain {

class MpiEngine;
class MpiOperation;
struct MpiGroup;

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
  void check_peer(int peer, std::string_view what) const;

  std::shared_ptr<MpiEngine> engine_;
  std::shared_ptr<MpiGroup> group_;
  int64_t splits_ = 0;
};

}  // namespace mstrain
