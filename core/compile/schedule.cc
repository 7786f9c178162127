#include "core/compile/schedule.h"

#include <algorithm>

namespace mstrain {
namespace {

// Results of up to this size are nothing beside what they are made of.
constexpr int64_t kSmallBytes = 4096;

class Scheduler {
 public:
  Scheduler(const Graph& graph, const std::vector<bool>& donated)
      : graph_(graph),
        live_(graph.live()),
        done_(graph.size(), false),
        readers_(graph.size()),
        unread_(graph.size(), 0),
        moves_before_(graph.size()),
        kept_(graph.size(), false) {
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      kept_[graph.inputs()[i].node] = i >= donated.size() || !donated[i];
    }
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (!live_[id]) {
        continue;
      }
      for (NodeId source : memory_of(id)) {
        readers_[source].push_back(id);
        ++unread_[source];
      }
      for (const Value& value : graph.node(id).inputs) {
        if (root(value.node) != value.node) {
          moves_before_[id].push_back(value.node);
        }
      }
      done_[id] = is_given(graph.node(id));
    }
    for (const Value& value : graph.outputs()) {
      kept_[root(value.node)] = true;
    }
  }

  std::vector<NodeId> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (live_[id] && !done_[id]) {
        place(id);
      }
    }
    return std::move(order_);
  }

 private:
  static bool is_given(const Node& node) {
    return node.op == &kInputOp || node.op->kind == OpKind::kSource;
  }

  // The node whose memory `id` shows: moves are mostly strides.
  NodeId root(NodeId id) const {
    while (graph_.node(id).op->kind == OpKind::kMovement && graph_.node(id).inputs.size() == 1) {
      id = graph_.node(id).inputs[0].node;
    }
    return id;
  }

  // The distinct nodes whose memory a node reads; none for a move.
  std::vector<NodeId> memory_of(NodeId id) const {
    std::vector<NodeId> sources;
    if (root(id) == id) {
      for (const Value& value : graph_.node(id).inputs) {
        sources.push_back(root(value.node));
      }
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    }
    return sources;
  }

  static int64_t bytes_of(const Node& node) {
    int64_t bytes = 0;
    for (const TensorType& type : node.outputs) {
      bytes += type.bytes();
    }
    return bytes;
  }

  bool is_ready(NodeId id) const {
    const auto& inputs = graph_.node(id).inputs;
    return std::all_of(inputs.begin(), inputs.end(),
                       [&](const Value& value) { return done_[value.node]; });
  }

  bool needs_no_memory(NodeId id) const {
    int64_t freed = kSmallBytes;
    for (NodeId source : memory_of(id)) {
      freed += unread_[source] == 1 && !kept_[source] ? bytes_of(graph_.node(source)) : 0;
    }
    return bytes_of(graph_.node(id)) <= freed;
  }

  // Runs a node, then whatever has become ready and needs no memory.
  void place(NodeId first) {
    std::vector<NodeId> next{first};
    while (!next.empty()) {
      const NodeId id = next.back();
      next.pop_back();
      if (done_[id] || !is_ready(id) || (id != first && root(id) == id && !needs_no_memory(id))) {
        continue;
      }
      done_[id] = true;
      order_.push_back(id);
      const auto consider = [&](NodeId source) {
        for (auto it = readers_[source].rbegin(); it != readers_[source].rend(); ++it) {
          place_moves_before(*it);
          if (!done_[*it]) {
            next.push_back(*it);
          }
        }
      };
      for (NodeId source : memory_of(id)) {
        if (--unread_[source] == 1 && bytes_of(graph_.node(source)) > kSmallBytes) {
          consider(source);
        }
      }
      consider(id);
    }
  }

  // Moves take no time: they are placed with what reads them.
  void place_moves_before(NodeId id) {
    std::erase_if(moves_before_[id], [&](NodeId move) { return place_move(move); });
  }

  // False where its memory is not there yet.
  bool place_move(NodeId id) {
    std::vector<NodeId> moves;
    while (!done_[id] && root(id) != id) {
      moves.push_back(id);
      id = graph_.node(id).inputs[0].node;
    }
    if (!done_[id]) {
      return false;
    }
    for (auto it = moves.rbegin(); it != moves.rend(); ++it) {
      done_[*it] = true;
      order_.push_back(*it);
    }
    return true;
  }

  const Graph& graph_;
  std::vector<bool> live_, done_;
  std::vector<std::vector<NodeId>> readers_;       // of a node's memory
  std::vector<int> unread_;                        // readers that have not run
  std::vector<std::vector<NodeId>> moves_before_;  // among a node's inputs, not placed yet
  std::vector<bool> kept_;                         // whose memory outlives its readers
  std::vector<NodeId> order_;
};

}  // namespace

std::vector<NodeId> schedule(const Graph& graph, const std::vector<bool>& donated) {
  return Scheduler(graph, donated).run();
}

}  // namespace mstrain
