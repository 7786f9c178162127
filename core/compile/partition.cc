#include "core/compile/partition.h"

#include <algorithm>
#include <cmath>

#include "core/compile/partition_pieces.h"
#include "core/compile/passes.h"
#include "core/compile/relayout.h"
#include "core/compile/rewrite.h"
#include "core/ops/build.h"
#include "core/ops/dot_general.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain {

using namespace partitioning;

namespace {

class Partitioner {
 public:
  Partitioner(const MeshAxis& axis, const PartitionOptions& options)
      : axis_(axis), options_(options), ways_(axis, options), pieces_{axis, options.pieces} {}

  struct Result {
    GraphPtr program;
    std::vector<Placement> outputs;
  };
  Result run(const Graph& graph, std::span<const Placement> inputs, std::span<const Wish> outputs,
             std::span<const bool> weights) {
    Trace trace(Trace::Mode::kAbstract);
    Helds given;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const TensorType& whole = graph.type(graph.inputs()[i]);
      const Placement placement = i < inputs.size() ? inputs[i] : kReplicated;
      check(!placement.sharded() || placement.dim < whole.shape.rank(),
            "input {} is {} along {}, but has the dims {}", i, to_string(placement), axis_.name,
            to_string(whole.shape));
      const TensorType part = part_of(whole, placement, axis_.size);
      given.push_back(std::make_shared<Held>(
          Held{whole, placement, trace.input(part), i < weights.size() && weights[i]}));
    }
    Helds results = walk(graph, given, outputs);
    // A sum that one output wants made is terms no more, which another may want of it.
    for (size_t i = 0; i < std::min(results.size(), outputs.size()); ++i) {
      if (outputs[i] && ways_.cost_of(*results[i], *outputs[i]) == kNever) {
        results = walk(graph, given, {});
        break;
      }
    }
    Tensors parts;
    std::vector<Placement> placements;
    for (size_t i = 0; i < results.size(); ++i) {
      const Wish wish = i < outputs.size() ? outputs[i] : Wish();
      placements.push_back(wish.value_or(results[i]->placement));
      const Node& from = graph.node(graph.outputs()[i].node);
      const PlaceScope place(from.place);
      parts.push_back(brought(*results[i], placements.back(), from));
    }
    return {trace.finish(parts), placements};
  }

 private:
  bool has_programs(const Graph& graph) const {
    const std::vector<bool> live = graph.live();
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (live[id] && !graph.node(id).op->inlined.empty()) {
        return true;
      }
    }
    return false;
  }

  // The values of the outputs of `given`, recorded in the innermost trace.
  Helds walk(const Graph& given, const Helds& inputs, std::span<const Wish> outputs) {
    const GraphPtr inlined = has_programs(given) ? inline_programs(given) : nullptr;
    const Graph& graph = inlined == nullptr ? given : *kept_.emplace_back(inlined);
    const std::vector<std::vector<Wish>> wishes = ways_.wishes_of(graph, outputs);
    const std::vector<std::vector<int>> uses = uses_of(graph);
    std::vector<Helds> values(graph.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[graph.inputs()[i].node] = {inputs[i]};
    }
    const std::vector<bool> live = graph.live();
    for (NodeId id = 0; id < graph.size(); ++id) {
      const Node& node = graph.node(id);
      if (!live[id] || node.op == &kInputOp) {
        continue;
      }
      Helds operands;
      for (const Value& value : node.inputs) {
        operands.push_back(values[value.node][value.output]);
      }
      const PlaceScope place(node.place);
      values[id] = apply_node(node, graph.types(node.inputs), operands, wishes[id]);
      if (options_.pieces > 1 && node.op == &kDotGeneral && uses[id][0] != 1) {
        values[id][0]->product.reset();
      }
    }
    Helds results;
    for (const Value& value : graph.outputs()) {
      results.push_back(values[value.node][value.output]);
    }
    return results;
  }

  Helds apply_node(const Node& node, const Types& types, const Helds& operands,
                   std::span<const Wish> wishes) {
    if (node.op->loop != nullptr) {
      return apply_loop(node, operands);
    }
    if (node.op->kind == OpKind::kControl) {
      return hand_on(node, operands);
    }
    if (node.op->layout == nullptr) {
      return apply_unruled(node, types, operands, wishes);
    }
    const Way way = ways_.best(node, types, operands, wishes);
    const bool in_pieces = options_.pieces > 1 && node.op == &kDotGeneral && !way.program;
    if (in_pieces) {
      pieces_.gather(*operands[0], way.inputs[0], node);
    }
    Tensors parts;
    for (size_t i = 0; i < operands.size(); ++i) {
      parts.push_back(brought(*operands[i], way.inputs[i], node));
    }
    if (!in_pieces) {
      return held(node, way, apply_way(node, way, parts), operands);
    }
    Tensor product = pieces_.product_of_gathered(node, *operands[0], way.inputs[0], parts[1]);
    Helds results = held(
        node, way, product.defined() ? Tensors{product} : apply_way(node, way, parts), operands);
    results[0]->product = Product{&node, parts};
    return results;
  }

  Tensors apply_way(const Node& node, const Way& way, std::span<const Tensor> parts) const {
    Tensors results =
        way.program ? way.program(parts, axis_) : apply(*node.op, parts, way.attrs, node.where);
    for (size_t i = 0; i < results.size(); ++i) {
      const TensorType expected = part_of(node.outputs[i], way.outputs[i], axis_.size);
      check(results[i].type() == expected,
            "{}: its layout rule gives {} where {} of {} is {}, at {}", node.op->name,
            to_string(results[i].type()), to_string(way.outputs[i]), to_string(node.outputs[i]),
            to_string(expected), to_string(node.where));
      results[i] = finitely_filled(results[i], node.outputs[i], way.outputs[i]);
    }
    return results;
  }

  // Rules ask that of each other (Way::uneven), and cannot tell an infinity of another number.
  Tensor finitely_filled(const Tensor& part, const TensorType& whole, const Placement& as) const {
    const std::optional<double> number = as.sharded() ? constant_value(part) : std::nullopt;
    return number && !std::isfinite(*number)
               ? layout::without_filling(part, as.dim, whole.shape[as.dim], axis_)
               : part;
  }

  Helds held(const Node& node, const Way& way, const Tensors& parts, const Helds& operands) const {
    const OpKind kind = node.op->kind;
    const bool keeps = kind == OpKind::kElementwise || kind == OpKind::kMovement;
    const bool of_weight =
        (kind == OpKind::kElementwise || kind == OpKind::kIndex) && !operands.empty() &&
        operands[0]->weight &&
        std::all_of(operands.begin() + 1, operands.end(),
                    [](const HeldPtr& operand) { return operand->whole.shape.rank() == 0; });
    const bool made =
        parts.size() == 1 && way.outputs[0].replicated() &&
        (kind == OpKind::kSource || kind == OpKind::kRandom ||
         (keeps && std::all_of(operands.begin(), operands.end(), [](const HeldPtr& operand) {
            return operand->made_by != nullptr;
          })));
    Helds results;
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool weight = of_weight && node.outputs[i].shape == operands[0]->whole.shape;
      results.push_back(
          std::make_shared<Held>(Held{node.outputs[i], way.outputs[i], parts[i], weight,
                                      made ? &node : nullptr, made ? operands : Helds()}));
    }
    return results;
  }

  // `value` as `to`, for `user`.
  Tensor brought(Held& value, const Placement& to, const Node& user) {
    if (value.placement == to) {
      return value.part;
    }
    const auto found = value.elsewhere.find(to);
    if (found != value.elsewhere.end()) {
      return found->second;
    }
    if (ways_.cost_of(value, to) == kNever) {
      fail("{}: a value {} is {} along {} and cannot become {}, at {}", user.op->name,
           to_string(value.whole), to_string(value.placement), axis_.name, to_string(to),
           to_string(user.where));
    }
    Tensor made = made_as(value, to, user);
    if (!made.defined() && value.product && value.placement.partial()) {
      made = pieces_.summed(value, to);
    }
    if (!made.defined()) {
      made = relayout(value.part, value.whole, value.placement, to, axis_);
    }
    return value.elsewhere[to] = made;
  }

  // Without any collective; empty where that is not possible.
  Tensor made_as(Held& value, const Placement& to, const Node& user) {
    const TensorType part = part_of(value.whole, to, axis_.size);
    if (!value.placement.partial()) {
      if (const auto number = constant_value(value.part)) {
        return finitely_filled(filled(part, *number), value.whole, to);
      }
    }
    if (value.made_by == nullptr || !to.sharded()) {
      return {};
    }
    Types types;
    for (const HeldPtr& operand : value.made_of) {
      types.push_back(operand->whole);
    }
    for (const Way& way : ways_.of(*value.made_by, types)) {
      if (way.outputs[0] == to) {
        Tensors parts;
        for (size_t i = 0; i < value.made_of.size(); ++i) {
          parts.push_back(brought(*value.made_of[i], way.inputs[i], user));
        }
        return apply_way(*value.made_by, way, parts)[0];
      }
    }
    return {};
  }

  // What hands values on, each as it is.
  Helds hand_on(const Node& node, const Helds& operands) {
    Tensors parts;
    for (const HeldPtr& operand : operands) {
      parts.push_back(operand->part);
    }
    const Tensors results = apply(*node.op, parts, node.attrs, node.where);
    Helds helds;
    for (size_t i = 0; i < results.size(); ++i) {
      helds.push_back(std::make_shared<Held>(
          Held{operands[i]->whole, operands[i]->placement, results[i], operands[i]->weight}));
    }
    return helds;
  }

  // A composite is what it consists of; anything else may have replicas only.
  Helds apply_unruled(const Node& node, const Types& types, const Helds& operands,
                      std::span<const Wish> wishes) {
    if (node.op->decompose != nullptr) {
      Tensors captures;
      const GraphPtr body = trace_program(
          types, [&](std::span<const Tensor> in) { return node.op->decompose(node.attrs, in); },
          &captures);
      if (!body->outputs().empty()) {
        return walk(*kept_.emplace_back(body), operands, wishes);
      }
    }
    Tensors parts;
    for (const HeldPtr& operand : operands) {
      if (!operand->placement.replicated()) {
        fail("{} has no layout rule: it takes replicas, and {} is {} along {}, at {}",
             node.op->name, to_string(operand->whole), to_string(operand->placement), axis_.name,
             to_string(node.where));
      }
      parts.push_back(operand->part);
    }
    const LayoutRequest request{*node.op, node.attrs, types, node.outputs, axis_};
    const Way whole = request.whole();
    return held(node, whole, apply_way(node, whole, parts), operands);
  }

  // A turn must leave the carries as it found them. Each may change its layout once, to that which a turn gives it, and is
  // replicated where that was not the end of it.
  Helds apply_loop(const Node& node, const Helds& operands) {
    const LoopForm form = node.op->loop(node.attrs);
    const auto carries = static_cast<size_t>(form.carries);
    const size_t fixed = carries + static_cast<size_t>(form.constants);
    std::vector<Placement> entering;
    const std::unique_ptr<bool[]> weights(new bool[operands.size() + 1]);
    for (size_t i = 0; i < operands.size(); ++i) {
      Placement placement = operands[i]->placement;
      // Nothing is the terms of a sum too, and often becomes them.
      if (i < carries && operands[i]->whole.dtype != Dtype::kBool &&
          constant_value(operands[i]->part) == 0) {
        placement = partial();
      }
      if (i >= fixed && placement.sharded()) {
        placement = placement.dim == 0 ? kReplicated : sharded(placement.dim - 1);
      }
      entering.push_back(placement);
      weights[i] = i >= carries && operands[i]->weight;
    }
    const std::span<const bool> marked(weights.get(), operands.size());
    std::vector<int> changes(carries, 0);
    for (bool again = true; again;) {
      again = false;
      const std::vector<Placement> left = run(*form.body, entering, {}, marked).outputs;
      for (size_t i = 0; i < carries; ++i) {
        if (left[i] == entering[i]) {
          continue;
        }
        const Placement next = changes[i] == 0 ? left[i] : kReplicated;
        const bool stays = entering[i].sharded() && (left[i].replicated() || left[i].partial());
        if (stays || changes[i] == 2 || ways_.cost_of(*operands[i], next) == kNever) {
          continue;
        }
        again = again || next != entering[i];
        entering[i] = next;
        ++changes[i];
      }
    }
    std::vector<Wish> wanted(entering.begin(), entering.begin() + form.carries);
    const Result body = run(*form.body, entering, wanted, marked);
    Attrs attrs = node.attrs;
    const auto replace = [&](const GraphPtr& old, const GraphPtr& program) {
      for (const auto& [name, value] : node.attrs.items()) {
        if (const auto* graph = std::get_if<GraphPtr>(&value); graph != nullptr && *graph == old) {
          attrs.set(name, program);
        }
      }
    };
    replace(form.body, body.program);
    if (form.condition != nullptr) {
      const Wish same[] = {kReplicated};
      replace(form.condition, run(*form.condition, entering, same, marked).program);
    }
    Tensors parts;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Placement& one = entering[i];
      parts.push_back(brought(*operands[i], i >= fixed ? stacked(one) : one, node));
    }
    const Tensors results = apply(*node.op, parts, attrs, node.where);
    Helds helds;
    for (size_t i = 0; i < results.size(); ++i) {
      const bool kept = i >= body.outputs.size();
      const Placement& one = kept ? entering[i - body.outputs.size()] : body.outputs[i];
      helds.push_back(std::make_shared<Held>(
          Held{node.outputs[i], i < carries ? one : stacked(one), results[i]}));
    }
    return helds;
  }

  // Of all turns together.
  static Placement stacked(const Placement& one) {
    return one.sharded() ? sharded(one.dim + 1) : one;
  }

  const MeshAxis& axis_;
  const PartitionOptions& options_;
  Ways ways_;
  Pieces pieces_;
  std::vector<GraphPtr> kept_;  // values name nodes of theirs
};

Placement along(const Layout& layout, size_t axis) {
  return axis < layout.size() ? layout[axis] : kReplicated;
}

}  // namespace

Partitioned partition(const Graph& graph, const Mesh& mesh, const PartitionOptions& options) {
  Partitioned result{nullptr, std::vector<Layout>(graph.outputs().size())};
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    const MeshAxis& axis = mesh.axes[a];
    std::vector<Placement> placements(graph.outputs().size());
    if (axis.size > 1) {
      std::vector<Placement> inputs;
      const std::unique_ptr<bool[]> weights(new bool[options.inputs.size() + 1]);
      for (const Layout& layout : options.inputs) {
        weights[inputs.size()] = along(layout, a).sharded();
        inputs.push_back(along(layout, a));
      }
      std::vector<Wish> outputs;
      for (const std::optional<Layout>& layout : options.outputs) {
        outputs.push_back(layout ? Wish(along(*layout, a)) : Wish());
      }
      Partitioner partitioner(axis, options);
      auto [program, found] =
          partitioner.run(result.program == nullptr ? graph : *result.program, inputs, outputs,
                          std::span<const bool>(weights.get(), inputs.size()));
      result.program = std::move(program);
      placements = std::move(found);
    }
    for (size_t i = 0; i < placements.size(); ++i) {
      result.outputs[i].push_back(placements[i]);
    }
  }
  if (result.program == nullptr) {
    result.program = std::make_shared<const Graph>(graph);
  }
  return result;
}

}  // namespace mstrain
