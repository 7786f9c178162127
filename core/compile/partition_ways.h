// What a rank has of each value while a program is divided, the ways in which an operation can be shared, and what each costs.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "core/compile/partition.h"

namespace mstrain::partitioning {

using Wish = std::optional<Placement>;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Of a product, which is computed anew in pieces where its result is exchanged.
struct Product {
  const Node* node;
  Tensors operands;
};

// What a rank has of a value.
struct Held {
  TensorType whole;
  Placement placement;
  Tensor part;
  bool weight = false;  // a part of an input, or one in another type
  // Made of nothing but numbers and keys: a part of it is made as such, not cut out of the whole. Else null.
  const Node* made_by = nullptr;
  std::vector<std::shared_ptr<Held>> made_of = {};
  std::map<Placement, Tensor> elsewhere = {};  // by other placements
  std::optional<Product> product = {};         // that it is, and that one operation reads
  Tensors gathered = {};                       // in pieces along `rows`, where it was exchanged so
  int rows = -1;
};
using HeldPtr = std::shared_ptr<Held>;
using Helds = std::vector<HeldPtr>;

// The ways along one axis. Both arguments must outlive it.
class Ways {
 public:
  Ways(const MeshAxis& axis, const PartitionOptions& options);

  // Those that the dims allow; the first is that of replicas.
  std::vector<Way> of(const Node& node, std::span<const TensorType> types) const;
  // The one that moves the fewest bytes, among those that the options ask for. Throws Error where the dims do not allow those.
  Way best(const Node& node, std::span<const TensorType> types, const Helds& operands,
           std::span<const Wish> wishes) const;

  // Bytes, weighed, of bringing `held` to `to`; kNever where that is not possible.
  double cost_of(const Held& held, const Placement& to) const;

  // What layouts of outputs want of the values that become them, through operations that keep elements apart: by node, output.
  std::vector<std::vector<Wish>> wishes_of(const Graph& graph, std::span<const Wish> outputs) const;

 private:
  std::vector<Way> asked_for(std::vector<Way> ways, const Node& node) const;
  double later(const TensorType& whole, const Placement& placement, const Wish& wish) const;
  // Whether terms of a sum, or replicas, are dealt out over the ranks as parts of the stream.
  bool dealt_to(const TensorType& whole, const Placement& placement) const;
  bool dealt_from(const TensorType& whole, const Placement& placement) const;

  const MeshAxis& axis_;
  const PartitionOptions& options_;
  const Stream* stream_;  // null: nothing is dealt out along this axis
};

}  // namespace mstrain::partitioning
