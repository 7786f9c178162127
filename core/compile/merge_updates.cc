// All parameters' updates as one: one loop over memory instead of hundreds of kernels.
#include <map>

#include "core/compile/fuse.h"
#include "core/compile/rewrite.h"

namespace mstrain {
namespace {

constexpr size_t kTensors = 4;  // of a parameter among the inputs; as many scalars follow

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
      log_->add_refusal("adamw", "adamw", why, node.scope);
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
    Trace trace(Trace::Mode::kAbstract);
    std::vector<Tensors> results(graph_.size());
    for (const Value& value : graph_.inputs()) {
      results[value.node] = {trace.input(graph_.type(value))};
    }
    const auto inputs_of = [&](const Node& node, size_t count) {
      Tensors inputs;
      for (size_t i = 0; i < count; ++i) {
        inputs.push_back(results[node.inputs[i].node][node.inputs[i].output]);
      }
      return inputs;
    };
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (!live_[id] || node.op == &kInputOp || merged[id]) {
        continue;
      }
      const NameScope scope = NameScope::absolute(node.scope);
      results[id] = trace.record(*node.op, inputs_of(node, node.inputs.size()), node.attrs,
                                 node.outputs, node.where);
    }
    for (const auto& [shared, updates] : all) {
      std::vector<NodeId> members = updates.decayed;
      members.insert(members.end(), updates.plain.begin(), updates.plain.end());
      if (members.empty()) {
        continue;
      }
      const Node& first = graph_.node(members[0]);
      Tensors inputs;
      for (NodeId id : members) {
        const Tensors own = inputs_of(graph_.node(id), kTensors);
        inputs.insert(inputs.end(), own.begin(), own.end());
      }
      for (const Value& value : shared.scalars) {
        inputs.push_back(results[value.node][value.output]);
      }
      const NameScope scope = NameScope::absolute(first.scope);
      const Attrs attrs = first.attrs.with("weight_decay", updates.weight_decay)
                              .with("decayed", static_cast<int64_t>(updates.decayed.size()));
      const Tensors made = apply(*first.op, inputs, attrs, first.where);
      for (size_t i = 0; i < members.size(); ++i) {
        results[members[i]].assign(made.begin() + static_cast<int64_t>(3 * i),
                                   made.begin() + static_cast<int64_t>(3 * i + 3));
      }
      if (log_ != nullptr && members.size() > 1) {
        log_->add_group(fmt::format("{} updates of adamw", members.size()), first.scope);
      }
    }
    Tensors outputs;
    for (const Value& value : graph_.outputs()) {
      outputs.push_back(results[value.node][value.output]);
    }
    return trace.finish(outputs);
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
