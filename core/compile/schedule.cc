#include "core/compile/schedule.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/ops/collective.h"
#include "core/ops/offload.h"

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
        kept_(graph.size(), false),
        late_(graph.size(), false) {
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
      late_[id] = is_gather(root(id)) || graph_.node(root(id)).op == &fetch_op();
    }
    for (const Value& value : graph.outputs()) {
      kept_[root(value.node)] = true;
    }
    find_what_gathers_are_made_of();
  }

  std::vector<NodeId> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (live_[id] && !late_[id]) {
        place_with_gathers(id);
      }
    }
    for (const Value& value : graph_.outputs()) {
      place_with_gathers(value.node);
    }
    start_gathers_early();
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

  bool is_collective(NodeId id) const { return graph_.node(id).op->kind == OpKind::kCollective; }

  // Whether other work can go on under it.
  bool goes_on(NodeId id) const {
    return is_collective(id) && !waits_in_place(graph_.node(id).attrs);
  }

  // What makes much of little, of other ranks' parts: there is no hurry to have it, but to send for it.
  bool is_gather(NodeId id) const {
    const Node& node = graph_.node(id);
    return is_collective(id) && bytes_of(node) > graph_.type(node.inputs[0]).bytes();
  }

  bool is_cheap(NodeId id) const {
    const OpKind kind = graph_.node(id).op->kind;
    return kind == OpKind::kMovement || kind == OpKind::kElementwise;
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
    if (node.op == &stow_op()) {
      return 0;  // the device's, of which there is little
    }
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

  // Moves and arithmetic on parts that only what is late reads are late themselves.
  void find_what_gathers_are_made_of() {
    if (std::find(late_.begin(), late_.end(), true) == late_.end()) {
      return;
    }
    std::vector<bool> is_read(graph_.size(), false);
    std::vector<bool> is_read_in_turn(graph_.size(), false);
    for (const Value& value : graph_.outputs()) {
      is_read_in_turn[value.node] = true;
    }
    for (NodeId id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
      if (!live_[id]) {
        continue;
      }
      late_[id] = late_[id] || (is_cheap(id) && is_read[id] && !is_read_in_turn[id]);
      for (const Value& value : graph_.node(id).inputs) {
        is_read[value.node] = true;
        is_read_in_turn[value.node] = is_read_in_turn[value.node] || !late_[id];
      }
    }
  }

  // Runs a node, and before it what it needs of what is gathered.
  void place_with_gathers(NodeId id) {
    if (done_[id]) {
      return;
    }
    for (const Value& value : graph_.node(id).inputs) {
      place_with_gathers(value.node);
    }
    place(id);
  }

  // Runs a node, then whatever has become ready and needs no memory.
  void place(NodeId first) {
    std::vector<NodeId> next{first};
    while (!next.empty()) {
      const NodeId id = next.back();
      next.pop_back();
      if (done_[id] || !is_ready(id) ||
          (id != first &&
           (late_[id] || is_too_early(id) || (root(id) == id && !needs_no_memory(id))))) {
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
      if (!goes_on(id)) {
        consider(id);
      } else if (const std::optional<NodeId> before = std::exchange(awaited_, id)) {
        consider(*before);
      }
    }
  }

  // Whether a node reads what the last collective brings: that is not asked for before another one is on its way, or before
  // it is the node's turn.
  bool is_too_early(NodeId id) const {
    if (!awaited_) {
      return false;
    }
    const auto& inputs = graph_.node(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Value& value) { return root(value.node) == *awaited_; });
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

  // A gather begins before what reads the one before it, where what it is made of can be there by then. So numbers travel
  // under the work on those that came before, and two are there at a time.
  void start_gathers_early() {
    if (std::find(late_.begin(), late_.end(), true) == late_.end()) {
      return;
    }
    std::vector<size_t> place(graph_.size(), 0);  // in the order, counted by twos from 2
    for (size_t i = 0; i < order_.size(); ++i) {
      place[order_[i]] = 2 * i + 2;
    }
    std::vector<std::vector<NodeId>> early(order_.size());  // what goes before each of the order
    constexpr size_t kNobody = SIZE_MAX;
    size_t reader = kNobody;  // the first of the gather before
    for (const NodeId id : order_) {
      if (!is_gather(id)) {
        continue;
      }
      std::vector<NodeId> moved;
      if (goes_on(id) && reader % 2 == 0 && reader < place[id] &&
          can_be_early(id, reader, place, moved)) {
        for (const NodeId node : moved) {
          place[node] = reader - 1;
          early[reader / 2 - 1].push_back(node);
        }
      }
      reader = kNobody;
      for (const NodeId next : readers_[id]) {
        reader = std::min(reader, place[next]);
      }
    }
    std::vector<NodeId> order;
    for (size_t i = 0; i < order_.size(); ++i) {
      order.insert(order.end(), early[i].begin(), early[i].end());
      if (place[order_[i]] % 2 == 0) {
        order.push_back(order_[i]);
      }
    }
    order_ = std::move(order);
  }

  // Whether `id` can run before `limit`, with all that it needs and that comes later: moves and arithmetic on parts. Those are
  // appended to `moved`, in their order.
  bool can_be_early(NodeId id, size_t limit, const std::vector<size_t>& place,
                    std::vector<NodeId>& moved) const {
    for (const Value& value : graph_.node(id).inputs) {
      const bool there = place[value.node] < limit ||
                         std::find(moved.begin(), moved.end(), value.node) != moved.end();
      if (!there && (!is_cheap(value.node) || !can_be_early(value.node, limit, place, moved))) {
        return false;
      }
    }
    moved.push_back(id);
    return true;
  }

  const Graph& graph_;
  std::vector<bool> live_, done_;
  std::vector<std::vector<NodeId>> readers_;       // of a node's memory
  std::vector<int> unread_;                        // readers that have not run
  std::vector<std::vector<NodeId>> moves_before_;  // among a node's inputs, not placed yet
  std::vector<bool> kept_;                         // whose memory outlives its readers
  std::vector<bool> late_;  // gathers, moves of what they bring, and what they alone are made of
  std::optional<NodeId> awaited_;  // the last collective
  std::vector<NodeId> order_;
};

}  // namespace

std::vector<NodeId> schedule(const Graph& graph, const std::vector<bool>& donated) {
  return Scheduler(graph, donated).run();
}

}  // namespace mstrain
