// The part of a step that updates parameters has hundreds of operations that are over before they have begun: norms of small
// gradients, their sums, updates. They are put in levels: what stands in one asks nothing of the others there, and becomes one.
#include <algorithm>
#include <limits>
#include <map>

#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/compile/widen.h"
#include "core/ops/offload.h"
#include "core/ops/together.h"

namespace mstrain {
namespace {

// What may be in memory longer, since it is read later, in bytes: next to nothing.
constexpr int64_t kMostLonger = int64_t{16} << 20;
// Of a value on its way from one level to the next: of a level all are in memory at once.
constexpr int64_t kMostBetween = int64_t{2} << 20;
// The level of what stays as it was, behind all others.
constexpr int kLast = std::numeric_limits<int>::max();

class Joiner {
 public:
  Joiner(const Graph& graph, const Backend* backend)
      : graph_(graph), backend_(backend), live_(graph.live()), level_(graph.size(), -1) {}

  GraphPtr run() {
    const bool moves = find_levels() && bytes_longer() <= kMostLonger;
    if (!moves) {
      return rewrite(graph_, [](const RewriteNode&) { return std::nullopt; });
    }
    std::vector<NodeId> order, later;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      (level_[id] < 0 ? order : later).push_back(id);
    }
    // Members of a level one after another, behind all else of it.
    std::vector<bool> member(graph_.size(), false);
    for (NodeId id : later) {
      member[id] = level_[id] < kLast && is_member(id);
    }
    std::stable_sort(later.begin(), later.end(), [&](NodeId a, NodeId b) {
      return std::pair(level_[a], bool(member[a])) < std::pair(level_[b], bool(member[b]));
    });
    std::map<const Node*, std::vector<NodeId>> first_of;  // all members of a level, by the first
    std::map<int, std::vector<NodeId>> levels;
    for (NodeId id : later) {
      if (member[id]) {
        levels[level_[id]].push_back(id);
      }
    }
    std::vector<bool> joined(graph_.size(), false);
    for (const auto& [level, members] : levels) {
      if (members.size() > 1) {
        first_of[&graph_.node(members[0])] = members;
        for (NodeId id : members) {
          joined[id] = true;
          of_node_.insert(&graph_.node(id));
        }
      }
    }
    order.insert(order.end(), later.begin(), later.end());
    Tensors made;  // by the operation that stands for a level, not yet given out
    return rewrite(
        graph_,
        [&](const RewriteNode& it) -> std::optional<Tensors> {
          if (!of_node_.contains(&it.node)) {
            return std::nullopt;
          }
          if (const auto first = first_of.find(&it.node); first != first_of.end()) {
            made = together(first->second, it);
          }
          const auto count = static_cast<int64_t>(it.node.outputs.size());
          Tensors own(made.begin(), made.begin() + count);
          made.erase(made.begin(), made.begin() + count);
          return own;
        },
        order);
  }

 private:
  bool updates(NodeId id) const {
    const Node& node = graph_.node(id);
    return live_[id] && node.op != &kInputOp && node.place.part == StepPart::kUpdate;
  }
  // What has no kernel of its own: views, constants.
  bool is_free(const Node& node) const {
    if (node.op->order != Order::kOther || node.op->kind == OpKind::kSource) {
      return true;
    }
    std::vector<ViewType> views;
    for (const TensorType& type : graph_.types(node.inputs)) {
      views.push_back(ViewType::dense(type));
    }
    bool free = node.op->alias != nullptr;
    for (size_t i = 0; free && i < node.outputs.size(); ++i) {
      free = node.op->alias(node.attrs, views, i).has_value();
    }
    return free;
  }

  // False where something other than an update reads what an update makes, or where ranks or the host's memory take part, whose
  // order is chosen already.
  bool find_levels() {
    const std::vector<bool> leaves_much = find_large();
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      const bool update = updates(id);
      const bool is_placed = node.op->among_ranks || node.op->loop != nullptr ||
                             node.op == &stow_op() || node.op == &fetch_op();
      if (update && is_placed) {
        return false;
      }
      int level = leaves_much[id] ? kLast : 0;
      for (const Value& value : node.inputs) {
        const int from = level_[value.node];
        if (live_[id] && from >= 0 && !update) {
          return false;
        }
        const bool later = from >= 0 && from < kLast && !is_free(graph_.node(value.node));
        level = std::max(level, from + (later ? 1 : 0));
      }
      if (update) {
        level_[id] = level;
      }
    }
    return true;
  }

  // The updates that leave other updates more than may be in memory for all parameters at once.
  std::vector<bool> find_large() const {
    std::vector<bool> result(graph_.size(), false);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      for (const Value& value : graph_.node(id).inputs) {
        if (updates(id) && updates(value.node) && !is_free(graph_.node(value.node)) &&
            graph_.type(value).bytes() > kMostBetween) {
          result[value.node] = true;
        }
      }
    }
    return result;
  }

  // Of what nothing reads, before the updates move, after the rest of the step.
  int64_t bytes_longer() const {
    NodeId end = 0;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      end = live_[id] && level_[id] < 0 ? id : end;
    }
    std::map<Value, NodeId> last;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (live_[id]) {
        for (const Value& value : graph_.node(id).inputs) {
          last[value] = id;
        }
      }
    }
    int64_t bytes = 0;
    for (const auto& [value, reader] : last) {
      const Node& from = graph_.node(value.node);
      if (level_[reader] >= 0 && reader < end && from.op != &kInputOp && !is_free(from)) {
        bytes += graph_.type(value).bytes();
      }
    }
    return bytes;
  }

  struct Body {
    GraphPtr graph;
    std::vector<Value> inputs;  // of the program
  };
  Body body_of(std::span<const NodeId> members) const {
    auto body = std::make_shared<Graph>();
    std::map<Value, Value> inputs;
    Body result{nullptr, {}};
    std::vector<Value> outputs;
    for (NodeId id : members) {
      const Node& node = graph_.node(id);
      std::vector<Value> own;
      for (const Value& value : node.inputs) {
        const auto [known, fresh] = inputs.try_emplace(value);
        if (fresh) {
          known->second = body->add_input(graph_.type(value));
          result.inputs.push_back(value);
        }
        own.push_back(known->second);
      }
      const NodeId made = body->add(*node.op, own, node.attrs, node.outputs);
      for (uint32_t i = 0; i < node.outputs.size(); ++i) {
        outputs.push_back({made, i});
      }
    }
    body->set_outputs(outputs);
    result.graph = body;
    return result;
  }

  bool is_member(NodeId id) const {
    const Node& node = graph_.node(id);
    if (is_free(node)) {
      return false;
    }
    const Body body = body_of(std::span(&id, 1));
    return has_kernel(backend_, together_op(), {{"body", body.graph}},
                      body.graph->types(body.graph->inputs()), node.outputs);
  }

  Tensors together(std::span<const NodeId> members, const RewriteNode& it) const {
    const Body body = body_of(members);
    Tensors inputs;
    for (const Value& value : body.inputs) {
      inputs.push_back(it.rebuilt[value.node][value.output]);
    }
    return apply(together_op(), inputs, {{"body", body.graph}}, it.node.where);
  }

  const Graph& graph_;
  const Backend* backend_;
  std::vector<bool> live_;
  std::vector<int> level_;  // by node; -1: of the rest of the step
  std::set<const Node*> of_node_;
};

}  // namespace

GraphPtr run_together(const Graph& graph, const Backend* backend) {
  return Joiner(graph, backend).run();
}

}  // namespace mstrain
