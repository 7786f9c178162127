#include "core/compile/partition_ways.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/compile/relayout.h"
#include "core/compile/rewrite.h"

namespace mstrain::partitioning {
namespace {

// Weights of what is not known when a way is chosen, in bytes of collectives: moving a weight, cutting a part out of memory,
// what is to be paid later for a result that is no replica, and for one that is where it was to be dealt out.
constexpr double kWeight = 1000, kCut = 1e-3, kLater = 0.1, kUnshared = 0.1;

}  // namespace

Ways::Ways(const MeshAxis& axis, const PartitionOptions& options)
    : axis_(axis),
      options_(options),
      stream_(options.scattered_along == axis.name ? &options.stream : nullptr) {}

bool Ways::dealt_to(const TensorType& whole, const Placement& placement) const {
  const Shape& dims = stream_ == nullptr ? Shape() : stream_->dims;
  return dims.rank() > 0 && placement.sharded(stream_->dim) && whole.shape.rank() >= dims.rank() &&
         std::equal(dims.begin(), dims.end(), whole.shape.begin());
}

bool Ways::dealt_from(const TensorType& whole, const Placement& placement) const {
  return stream_ != nullptr && stream_->dealt_out && placement.replicated() &&
         dealt_to(whole, sharded(stream_->dim));
}

std::vector<std::vector<Wish>> Ways::wishes_of(const Graph& graph,
                                               std::span<const Wish> outputs) const {
  std::vector<std::vector<Wish>> wishes(graph.size());
  for (NodeId id = 0; id < graph.size(); ++id) {
    wishes[id].resize(graph.node(id).outputs.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value& value = graph.outputs()[i];
    if (outputs[i] && !outputs[i]->partial()) {
      wishes[value.node][value.output] = outputs[i];
    }
  }
  for (NodeId id = static_cast<NodeId>(graph.size()); id-- > 0;) {
    const Node& node = graph.node(id);
    const bool apart = node.op->kind == OpKind::kElementwise || node.op->kind == OpKind::kMovement;
    if (!apart || node.op->layout == nullptr || !wishes[id][0] || !wishes[id][0]->sharded()) {
      continue;
    }
    const Types types = graph.types(node.inputs);
    for (const Way& way : of(node, types)) {
      if (way.outputs[0] != *wishes[id][0]) {
        continue;
      }
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        Wish& wish = wishes[node.inputs[i].node][node.inputs[i].output];
        wish = !wish && way.inputs[i].sharded() ? way.inputs[i] : wish;
      }
      break;
    }
  }
  return wishes;
}

std::vector<Way> Ways::of(const Node& node, std::span<const TensorType> types) const {
  const LayoutRequest request{*node.op, node.attrs, types, node.outputs, axis_};
  std::vector<Way> ways{request.whole()};
  for (Way& way : node.op->layout(request)) {
    if (fits(way, request)) {
      ways.push_back(std::move(way));
    }
  }
  return ways;
}

// Those with the name that is asked for, where they have names.
std::vector<Way> Ways::asked_for(std::vector<Way> ways, const Node& node) const {
  if (options_.way.empty()) {
    return ways;
  }
  std::set<std::string_view> names;
  for (const Way& way : ways) {
    names.insert(way.name);
  }
  names.erase("");
  if (names.empty()) {
    return ways;
  }
  if (!names.contains(options_.way)) {
    throw ConfigError(fmt::format("{}: {} ranks cannot share this {} by {}; say {}, at {}",
                                  options_.way_key, axis_.size, node.op->name, options_.way,
                                  fmt::join(names, " or "), to_string(node.where)));
  }
  std::erase_if(ways, [&](const Way& way) { return way.name != options_.way; });
  return ways;
}

double Ways::cost_of(const Held& held, const Placement& to) const {
  if (held.placement == to || held.elsewhere.contains(to)) {
    return 0;
  }
  const std::optional<double> number =
      held.placement.partial() ? std::nullopt : constant_value(held.part);
  if (number) {
    return to.partial() && *number != 0 ? kNever : 0;
  }
  const double bytes = relayout_bytes(held.whole, held.placement, to, axis_.size);
  if (held.placement.replicated() && to.sharded()) {
    return kCut * static_cast<double>(held.whole.bytes());
  }
  if (held.placement.partial() && to.sharded() && !dealt_to(held.whole, to)) {
    return 2.1 * bytes;  // what is not wanted in parts comes together again
  }
  return held.weight ? kWeight * bytes : bytes;
}

double Ways::later(const TensorType& whole, const Placement& placement, const Wish& wish) const {
  if (dealt_from(whole, placement)) {
    return kUnshared * static_cast<double>(whole.bytes());
  }
  const double bytes = relayout_bytes(whole, placement, wish.value_or(kReplicated), axis_.size);
  return wish ? bytes : dealt_to(whole, placement) ? 0 : kLater * bytes;
}

Way Ways::best(const Node& node, std::span<const TensorType> types, const Helds& operands,
               std::span<const Wish> wishes) const {
  std::vector<Way> ways = asked_for(of(node, types), node);
  Way* best = &ways[0];
  double least = kNever;
  for (Way& way : ways) {
    double cost = way.bytes;
    for (size_t i = 0; i < operands.size(); ++i) {
      cost += cost_of(*operands[i], way.inputs[i]);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      cost += later(node.outputs[i], way.outputs[i], wishes[i]);
    }
    if (cost < least) {
      least = cost;
      best = &way;
    }
  }
  return std::move(*best);
}

}  // namespace mstrain::partitioning
