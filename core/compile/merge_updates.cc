// All parameters' updates as one: one loop over memory instead of hundreds of kernels.
#include <algorithm>
#include <map>

#include "core/compile/fuse.h"
#include "core/compile/rewrite.h"

namespace mstrain {
namespace {

constexpr size_t kTensors = 4;  // of a parameter among the inputs; as many scalars follow
constexpr size_t kResults = 3;

// What updates must share to become one.
struct Shared {
  std::vector<Value> scalars;
  double beta1, beta2, eps;
  friend auto operator<=>(const Shared&, const Shared&) = default;
};

struct Updates {
  std::vector<NodeId> decayed, plain;
  double weight_decay = 0;  // of the decayed ones
};

class Merger {
 public:
  Merger(const Graph& graph, FusionLog* log)
      : graph_(graph), log_(log), live_(graph.live()), read_(graph.size(), false) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (const Value& value : graph.node(id).inputs) {
        read_[value.node] = read_[value.node] || live_[id];
      }
    }
  }

  GraphPtr run() {
    std::map<Shared, Updates> all;
    std::vector<bool> merged(graph_.size(), false);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (!live_[id] || node.op->name != "adamw") {
        continue;
      }
      const std::string why = refusal(node, id);
      Updates& updates = all[shared_by(node)];
      if (!why.empty() || !add(updates, id)) {
        refuse(node, why.empty() ? "they decay by other rates" : why);
        continue;
      }
      merged[id] = true;
    }
    return write(all, merged);
  }

 private:
  Shared shared_by(const Node& node) const {
    return {{node.inputs.end() - kTensors, node.inputs.end()},
            node.attrs.number("beta1"),
            node.attrs.number("beta2"),
            node.attrs.number("eps")};
  }

  // Without a factor that depends on all gradients, each gradient would only wait for the others in memory.
  std::string refusal(const Node& node, NodeId id) const {
    if (node.inputs.size() != 2 * kTensors) {
      return "several parameters already";
    }
    const Node& scale = graph_.node(node.inputs[node.inputs.size() - 3].node);
    if (scale.op == &kInputOp || scale.inputs.empty()) {
      return "gradients would be kept until the last one";
    }
    return read_[id] ? "something reads its result" : "";
  }

  void refuse(const Node& node, const std::string& why) const {
    if (log_ != nullptr) {
      log_->add_refusal("adamw", "adamw", why, to_string(node.place));
    }
  }

  bool add(Updates& updates, NodeId id) const {
    const Attrs& attrs = graph_.node(id).attrs;
    if (attrs.integer("decayed") == 0) {
      updates.plain.push_back(id);
      return true;
    }
    const double decay = attrs.number("weight_decay");
    if (!updates.decayed.empty() && updates.weight_decay != decay) {
      return false;
    }
    updates.weight_decay = decay;
    updates.decayed.push_back(id);
    return true;
  }

  // Updates come last, since nothing reads their results.
  GraphPtr write(const std::map<Shared, Updates>& all, const std::vector<bool>& merged) {
    std::vector<NodeId> order;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!merged[id]) {
        order.push_back(id);
      }
    }
    std::map<const Node*, const std::pair<const Shared, Updates>*> group_of;
    for (const auto& group : all) {
      for (const auto* members : {&group.second.decayed, &group.second.plain}) {
        for (NodeId id : *members) {
          order.push_back(id);
          group_of[&graph_.node(id)] = &group;
        }
      }
    }
    Tensors made;  // by the update that stands for the members of a group
    size_t next = 0;
    return rewrite(
        graph_,
        [&](const RewriteNode& it) -> std::optional<Tensors> {
          const auto group = group_of.find(&it.node);
          if (group == group_of.end()) {
            return std::nullopt;
          }
          if (next == made.size()) {
            made = update(group->second->first, group->second->second, it);
            next = 0;
          }
          const auto own = made.begin() + static_cast<int64_t>(next);
          next += kResults;
          return Tensors(own, own + kResults);
        },
        order);
  }

  // Results of all members, in their order; `it`: the first one.
  Tensors update(const Shared& shared, const Updates& updates, const RewriteNode& it) const {
    Tensors inputs;
    const auto add = [&](const Value& value) {
      inputs.push_back(it.rebuilt[value.node][value.output]);
    };
    for (const auto* members : {&updates.decayed, &updates.plain}) {
      for (NodeId id : *members) {
        std::for_each_n(graph_.node(id).inputs.begin(), kTensors, add);
      }
    }
    std::for_each(shared.scalars.begin(), shared.scalars.end(), add);
    const size_t count = updates.decayed.size() + updates.plain.size();
    if (log_ != nullptr && count > 1) {
      log_->add_group(fmt::format("{} updates of adamw", count), to_string(it.node.place));
    }
    const Attrs attrs = it.node.attrs.with("weight_decay", updates.weight_decay)
                            .with("decayed", static_cast<int64_t>(updates.decayed.size()));
    return apply(*it.node.op, inputs, attrs, it.node.where);
  }

  const Graph& graph_;
  FusionLog* log_;
  std::vector<bool> live_;
  std::vector<bool> read_;  // by a node
};

}  // namespace

GraphPtr merge_updates(const Graph& graph, const FuseOptions& options) {
  if (options.off.contains("updates")) {
    return rewrite(graph, [](const RewriteNode&) { return std::nullopt; });
  }
  return Merger(graph, options.log).run();
}

}  // namespace mstrain
