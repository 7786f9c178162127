#include "core/compile/partition.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/compile/passes.h"
#include "core/compile/product_rows.h"
#include "core/compile/relayout.h"
#include "core/compile/rewrite.h"
#include "core/ops/build.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

using Wish = std::optional<Placement>;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Weights of what is not known when a way is chosen, in bytes of collectives: moving a weight, cutting a part out of memory,
// what is to be paid later for a result that is no replica, and for one that is where it was to be dealt out.
constexpr double kWeight = 1000, kCut = 1e-3, kLater = 0.1, kUnshared = 0.1;

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

struct Scatter {
  const Stream* stream = nullptr;  // null: nowhere
  bool to(const TensorType& whole, const Placement& placement) const {
    const Shape& dims = stream == nullptr ? Shape() : stream->dims;
    return dims.rank() > 0 && placement.sharded(stream->dim) && whole.shape.rank() >= dims.rank() &&
           std::equal(dims.begin(), dims.end(), whole.shape.begin());
  }
  bool from(const TensorType& whole, const Placement& placement) const {
    return stream != nullptr && stream->dealt_out && placement.replicated() &&
           to(whole, sharded(stream->dim));
  }
};

class Partitioner {
 public:
  Partitioner(const MeshAxis& axis, const PartitionOptions& options)
      : axis_(axis),
        options_(options),
        scatter_{options.scattered_along == axis.name ? &options.stream : nullptr} {}

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
    const Helds results = walk(graph, given, outputs);
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
    const Graph& graph = inlined == nullptr ? given : *inlined;
    const std::vector<std::vector<Wish>> wishes = wishes_of(graph, outputs);
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

  // What layouts of outputs want of the values that become them, through operations that keep elements apart.
  std::vector<std::vector<Wish>> wishes_of(const Graph& graph,
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
      const bool apart =
          node.op->kind == OpKind::kElementwise || node.op->kind == OpKind::kMovement;
      if (!apart || node.op->layout == nullptr || !wishes[id][0] || !wishes[id][0]->sharded()) {
        continue;
      }
      const Types types = graph.types(node.inputs);
      for (const Way& way : ways_of(node, types)) {
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

  // The ways that the dims allow; the first is that of replicas.
  std::vector<Way> ways_of(const Node& node, std::span<const TensorType> types) const {
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
  std::vector<Way> asked_for(std::vector<Way> ways, const Node& node) const {
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
      fail("{}: {} ranks cannot share this {} by {}; say {}, at {}", options_.way_key, axis_.size,
           node.op->name, options_.way, fmt::join(names, " or "), to_string(node.where));
    }
    std::erase_if(ways, [&](const Way& way) { return way.name != options_.way; });
    return ways;
  }

  double cost_of(const Held& held, const Placement& to) const {
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
    if (held.placement.partial() && to.sharded() && !scatter_.to(held.whole, to)) {
      return 2.1 * bytes;  // what is not wanted in parts comes together again
    }
    return held.weight ? kWeight * bytes : bytes;
  }

  double later(const TensorType& whole, const Placement& placement, const Wish& wish) const {
    if (scatter_.from(whole, placement)) {
      return kUnshared * static_cast<double>(whole.bytes());
    }
    const double bytes = relayout_bytes(whole, placement, wish.value_or(kReplicated), axis_.size);
    return wish ? bytes : scatter_.to(whole, placement) ? 0 : kLater * bytes;
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
    const std::vector<Way> ways = asked_for(ways_of(node, types), node);
    const Way* best = &ways[0];
    double least = kNever;
    for (const Way& way : ways) {
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
    const bool in_pieces = options_.pieces > 1 && node.op == &kDotGeneral && !best->program;
    if (in_pieces) {
      gather_in_pieces(*operands[0], best->inputs[0], node);
    }
    Tensors parts;
    for (size_t i = 0; i < operands.size(); ++i) {
      parts.push_back(brought(*operands[i], best->inputs[i], node));
    }
    if (!in_pieces) {
      return held(node, *best, apply_way(node, *best, parts), operands);
    }
    Tensor product = product_of_gathered(node, *operands[0], best->inputs[0], parts[1]);
    Helds results =
        held(node, *best, product.defined() ? Tensors{product} : apply_way(node, *best, parts),
             operands);
    results[0]->product = Product{&node, parts};
    return results;
  }

  static TensorType with_rows(TensorType whole, int dim, int64_t rows) {
    whole.shape[dim] = rows;
    return whole;
  }

  // The first operand of a product becomes `to` in pieces, where it has rows and is not there yet.
  void gather_in_pieces(Held& a, const Placement& to, const Node& node) const {
    const auto rows = a.placement.sharded() && to.replicated() && !a.elsewhere.contains(to)
                          ? row_dim(dot_dims(node.attrs), a.part.shape(), a.placement.dim, -1)
                          : std::nullopt;
    if (rows) {
      for (const Tensor& piece : pieces_of(a.part, rows->a, options_.pieces)) {
        const TensorType whole = with_rows(a.whole, rows->a, piece.dim(rows->a));
        a.gathered.push_back(relayout(piece, whole, a.placement, to, axis_));
      }
      a.rows = rows->a;
      a.elsewhere[to] = concat(a.gathered, a.rows);
    }
  }

  // Piece by piece; empty where `a` did not come so, or its pieces are no rows of this product.
  Tensor product_of_gathered(const Node& node, const Held& a, const Placement& as,
                             const Tensor& b) const {
    if (a.gathered.empty() || a.placement == as) {
      return {};
    }
    const auto rows = row_dim(dot_dims(node.attrs), a.whole.shape, a.placement.dim, -1);
    if (!rows || rows->a != a.rows) {
      return {};
    }
    Tensors products;
    for (const Tensor& piece : a.gathered) {
      products.push_back(apply(*node.op, Tensors{piece, b}, node.attrs, node.where)[0]);
    }
    return concat(products, rows->out);
  }

  // A product's terms become a sum in pieces; empty where it has no rows besides those of `to`.
  Tensor summed_in_pieces(const Held& value, const Placement& to) const {
    const auto& [node, operands] = *value.product;
    const auto rows =
        row_dim(dot_dims(node->attrs), operands[0].shape(), -1, to.sharded() ? to.dim : -1);
    if (!rows) {
      return {};
    }
    const PlaceScope place(node->place);
    Tensors sums;
    for (const Tensor& piece : pieces_of(operands[0], rows->a, options_.pieces)) {
      const Tensor terms =
          apply(*node->op, Tensors{piece, operands[1]}, node->attrs, node->where)[0];
      const TensorType whole = with_rows(value.whole, rows->out, piece.dim(rows->a));
      sums.push_back(relayout(terms, whole, value.placement, to, axis_));
    }
    return concat(sums, rows->out);
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
    }
    return results;
  }

  Helds held(const Node& node, const Way& way, const Tensors& parts, const Helds& operands) const {
    const OpKind kind = node.op->kind;
    const bool keeps = kind == OpKind::kElementwise || kind == OpKind::kMovement;
    const bool weight = kind == OpKind::kElementwise && operands.size() == 1 && operands[0]->weight;
    const bool made =
        parts.size() == 1 && way.outputs[0].replicated() &&
        (kind == OpKind::kSource || kind == OpKind::kRandom ||
         (keeps && std::all_of(operands.begin(), operands.end(), [](const HeldPtr& operand) {
            return operand->made_by != nullptr;
          })));
    Helds results;
    for (size_t i = 0; i < parts.size(); ++i) {
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
    if (cost_of(value, to) == kNever) {
      fail("{}: a value {} is {} along {} and cannot become {}, at {}", user.op->name,
           to_string(value.whole), to_string(value.placement), axis_.name, to_string(to),
           to_string(user.where));
    }
    Tensor made = made_as(value, to, user);
    if (!made.defined() && value.product && value.placement.partial()) {
      made = summed_in_pieces(value, to);
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
        return filled(part, *number);
      }
    }
    if (value.made_by == nullptr || !to.sharded()) {
      return {};
    }
    Types types;
    for (const HeldPtr& operand : value.made_of) {
      types.push_back(operand->whole);
    }
    for (const Way& way : ways_of(*value.made_by, types)) {
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
        return walk(*body, operands, wishes);
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
        if (stays || changes[i] == 2 || cost_of(*operands[i], next) == kNever) {
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
  Scatter scatter_;
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
