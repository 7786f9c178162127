#include "core/comm/mesh.h"

#include <fmt/core.h>

namespace mstrain {

int64_t Mesh::ranks() const {
  int64_t product = 1;
  for (const MeshAxis& axis : axes) {
    product *= axis.size;
  }
  return product;
}

int64_t Mesh::size(std::string_view name) const {
  for (const MeshAxis& axis : axes) {
    if (axis.name == name) {
      return axis.size;
    }
  }
  return 1;
}

int64_t Mesh::coordinate(int64_t rank, std::string_view name) const {
  int64_t below = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->name == name) {
      return rank / below % axis->size;
    }
    below *= axis->size;
  }
  return 0;
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
  int64_t below = mesh_.ranks();
  for (const MeshAxis& axis : mesh_.axes) {
    below /= axis.size;
    // Whoever differs in this digit alone: the rank without it.
    const int64_t above = rank_ / (below * axis.size);
    groups_.push_back(world_->split(static_cast<int>(above * below + rank_ % below), axis.name));
  }
}

Communicator& Ranks::along(std::string_view name) {
  for (size_t i = 0; i < mesh_.axes.size(); ++i) {
    if (mesh_.axes[i].name == name) {
      return *groups_[i];
    }
  }
  fail("the mesh of {} has no axis {}", mesh_.describe(), name);
}

}  // namespace mstrain
