#include "core/ir/layout.h"

namespace mstrain {

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::kReplicated: return "replicated";
    case Placement::Kind::kSharded: return fmt::format("sharded({})", placement.dim);
    case Placement::Kind::kPartial:
      return placement.fold == Reduction::kMax   ? "partial(max)"
             : placement.fold == Reduction::kMin ? "partial(min)"
                                                 : "partial(sum)";
  }
  return {};
}

TensorType part_of(const TensorType& whole, const Placement& placement, int64_t ranks) {
  TensorType part = whole;
  if (placement.sharded()) {
    int64_t& dim = part.shape[placement.dim];
    dim = (dim + ranks - 1) / ranks;
  }
  return part;
}

bool fits(const Way& way, const LayoutRequest& request) {
  const auto divide = [&](std::span<const TensorType> types,
                          std::span<const Placement> placements) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (placements[i].sharded() && types[i].shape[placements[i].dim] % request.axis.size != 0) {
        return false;
      }
    }
    return true;
  };
  return way.uneven || (divide(request.inputs, way.inputs) && divide(request.outputs, way.outputs));
}

}  // namespace mstrain
