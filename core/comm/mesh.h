// Ranks as a grid with named axes. Collectives name an axis: the group is the ranks that differ in it alone, so that equal
// programs stand on all ranks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/communicator.h"

namespace mstrain {

inline constexpr std::string_view kDataAxis = "data";
inline constexpr std::string_view kTensorAxis = "tensor";
inline constexpr std::string_view kContextAxis = "context";
inline constexpr std::string_view kPipelineAxis = "pipeline";
// Parts of `data`: neighbours that keep one copy of the state in parts, and those with the same part of other copies.
inline constexpr std::string_view kZeroAxis = "zero";
inline constexpr std::string_view kReplicaAxis = "replica";

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// Rank = the coordinates as digits, the first axis the highest. An axis that is not listed has size 1.
struct Mesh {
  std::vector<MeshAxis> axes;
  int64_t zero_group = 0;  // size of `zero`, a divisor of that of `data`; 0: all of them

  int64_t ranks() const;
  int64_t size(std::string_view axis) const;
  int64_t coordinate(int64_t rank, std::string_view axis) const;
  // From a rank to its neighbour along an axis.
  int64_t stride(std::string_view axis) const;
  // "data 4 × tensor 2"; "one rank"
  std::string describe() const;
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// One rank's place in a mesh, with a communicator for each axis. Null in a Context where a run has one rank.
class Ranks {
 public:
  // Splits `world`, which has mesh.ranks() ranks; every rank calls it.
  Ranks(Mesh mesh, std::unique_ptr<Communicator> world);

  const Mesh& mesh() const { return mesh_; }
  int rank() const { return rank_; }
  int64_t coordinate(std::string_view axis) const { return mesh_.coordinate(rank_, axis); }
  Communicator& world() { return *world_; }
  // Throws Error for an axis that the mesh does not list; of `zero` and `replica`, where zero_group is 0.
  Communicator& along(std::string_view axis);

  // Ends the last work among these ranks that a device was given: what comes next waits for it there, so that all ranks do
  // theirs in one order, whatever queues it is in.
  Event last_work;

 private:
  Mesh mesh_;
  std::unique_ptr<Communicator> world_;
  int rank_;
  std::map<std::string, std::unique_ptr<Communicator>, std::less<>> groups_;  // by axis
};

}  // namespace mstrain
