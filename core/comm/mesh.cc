#include "core/comm/mesh.h"

#include <fmt/core.h>

#include <algorithm>

namespace mstrain {

int64_t Mesh::ranks() const {
  int64_t product = 1;
  for (const MeshAxis& axis : axes) {
    product *= axis.size;
  }
  return product;
}

int64_t Mesh::size(std::string_view name) const {
  if (name == kZeroAxis) {
    return zero_group == 0 ? size(kDataAxis) : zero_group;
  }
  if (name == kReplicaAxis) {
    return size(kDataAxis) / size(kZeroAxis);
  }
  const auto axis =
      std::find_if(axes.begin(), axes.end(), [&](const MeshAxis& it) { return it.name == name; });
  return axis == axes.end() ? 1 : axis->size;
}

int64_t Mesh::coordinate(int64_t rank, std::string_view name) const {
  return rank / stride(name) % size(name);
}

int64_t Mesh::stride(std::string_view name) const {
  if (name == kZeroAxis) {
    return stride(kDataAxis);
  }
  if (name == kReplicaAxis) {
    return stride(kDataAxis) * size(kZeroAxis);
  }
  int64_t below = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend() && axis->name != name; ++axis) {
    below *= axis->size;
  }
  return below;
}

std::string Mesh::describe() const {
  std::string text;
  for (const MeshAxis& axis : axes) {
    if (axis.size > 1) {
      text += fmt::format("{}{} {}", text.empty() ? "" : " × ", axis.name, axis.size);
    }
  }
  return text.empty() ? "one rank" : text;
}

Ranks::Ranks(Mesh mesh, std::unique_ptr<Communicator> world)
    : mesh_(std::move(mesh)), world_(std::move(world)), rank_(world_->rank()) {
  check(world_->size() == mesh_.ranks(), "a mesh of {} does not hold {} ranks", mesh_.describe(),
        world_->size());
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh_.axes) {
    names.push_back(axis.name);
  }
  if (mesh_.zero_group > 0) {
    names.insert(names.end(), {std::string(kZeroAxis), std::string(kReplicaAxis)});
  }
  for (const std::string& name : names) {
    // Whoever differs in this digit alone: the rank with a zero for it.
    const int64_t first = rank_ - coordinate(name) * mesh_.stride(name);
    groups_.emplace(name, world_->split(static_cast<int>(first), name));
  }
}

Communicator& Ranks::along(std::string_view name) {
  const auto found = groups_.find(name);
  check(found != groups_.end(), "the mesh of {} has no axis {}", mesh_.describe(), name);
  return *found->second;
}

}  // namespace mstrain
