// How ranks hold the tensors of one program, and share its work.
//
// A tensor has one placement for each axis of the mesh. Programs are divided along one axis at a time (core/compile/
// partition.h): what a rank then has is a program again, which the next axis divides. So a rule sees one axis.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/comm/mesh.h"
#include "core/ir/op.h"

namespace mstrain {

// What the ranks along one axis have of a tensor.
struct Placement {
  enum class Kind : uint8_t {
    kReplicated,  // all of it, the same on each
    kSharded,  // part r of dim `dim`, which is cut into equal parts; the last ones may be filled up with anything
    kPartial  // terms of `fold` that together are the tensor: a tensor of its type each
  };
  Kind kind = Kind::kReplicated;
  int dim = 0;
  Reduction fold = Reduction::kSum;

  bool replicated() const { return kind == Kind::kReplicated; }
  bool sharded() const { return kind == Kind::kSharded; }
  bool sharded(int along) const { return sharded() && dim == along; }
  bool partial() const { return kind == Kind::kPartial; }
  friend auto operator<=>(const Placement&, const Placement&) = default;
};

inline constexpr Placement kReplicated{};
constexpr Placement sharded(int dim) { return {Placement::Kind::kSharded, dim, Reduction::kSum}; }
constexpr Placement partial(Reduction fold = Reduction::kSum) {
  return {Placement::Kind::kPartial, 0, fold};
}

// "replicated", "sharded(1)", "partial(sum)"
std::string to_string(const Placement& placement);

// By axis of the mesh; axes beyond its end hold replicas.
using Layout = std::vector<Placement>;

// What one rank has of a tensor: a sharded dim of n elements has ceil(n / ranks).
TensorType part_of(const TensorType& whole, const Placement& placement, int64_t ranks);

// What a rank does with its parts. `axis` is that of the request. Written with operations.
using PartProgram = std::function<Tensors(std::span<const Tensor> parts, const MeshAxis& axis)>;

// One way in which ranks can share an application: what they must have of its inputs, and what they then get of its outputs.
struct Way {
  std::vector<Placement> inputs, outputs;
  Attrs attrs;               // of the operation on the parts
  PartProgram program = {};  // instead of the operation, where a rank does something else
  // Dims that the number of ranks does not divide are welcome: what fills up the last parts reaches no other element, and
  // is itself finite where it was.
  bool uneven = false;
  // By which a program can be asked to take it (PartitionOptions::way); empty: of no choice.
  std::string_view name = {};
  double bytes = 0;  // that `program` sends, beside what brings inputs into place
};

// Types are of whole tensors.
struct LayoutRequest {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const TensorType> inputs, outputs;
  const MeshAxis& axis;

  // The way in which everything is replicated: always one, and never listed by rules.
  Way whole() const {
    return {.inputs = std::vector<Placement>(inputs.size()),
            .outputs = std::vector<Placement>(outputs.size()),
            .attrs = attrs};
  }
};

// Whether the dims of the tensors allow a way.
bool fits(const Way& way, const LayoutRequest& request);

}  // namespace mstrain
