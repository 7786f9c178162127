#include "core/compile/loss_heads.h"

#include <algorithm>
#include <utility>

#include "core/compile/rewrite.h"
#include "core/ops/linear_cross_entropy.h"

namespace mstrain {
namespace {

int64_t rows_of_chunk(int64_t rows, int64_t row_bytes, int64_t chunks,
                      const BackendLimits& limits) {
  const int64_t unit = limits.chunk_rows;
  if (chunks == kAutoChunks) {
    const int64_t most = std::max<int64_t>(limits.chunk_bytes / row_bytes, 1);
    chunks = (rows + most - 1) / most;
  }
  const int64_t even = (rows + chunks - 1) / chunks;
  const int64_t whole = (even + unit - 1) / unit * unit;
  return chunks > 1 && even > 4 * unit ? std::min(whole, rows) : even;
}

}  // namespace

LossHeads::LossHeads(const Graph& graph, int64_t chunks, const BackendLimits& limits)
    : graph_(graph), chunks_(chunks), limits_(limits), live_(graph.live()), uses_(uses_of(graph)) {
  find_nodes();
  find_dependents();
  for (LossHead& head : heads_) {
    join_gradient(head);
  }
  std::erase_if(heads_, [](const LossHead& head) { return !head.loss && !head.gradient; });
  for (LossHead& head : heads_) {
    set_chunk(head);
    if (head.gradient && head.chunk < head.rows) {
      find_addend(head);
    }
  }
}

std::vector<NodeId> LossHeads::order() const {
  std::vector<NodeId> order;
  std::vector<bool> placed(graph_.size(), false);
  const auto place = [&](NodeId id) {
    if (!placed[id]) {
      placed[id] = true;
      order.push_back(id);
    }
  };
  for (NodeId id = 0; id < graph_.size(); ++id) {
    for (const LossHead& head : heads_) {
      if (head.place() == id) {
        for (NodeId before : needed_by(head)) {
          place(before);
        }
      }
    }
    place(id);
  }
  return order;
}

void LossHeads::find_nodes() {
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_.node(id);
    const auto& in = node.inputs;
    const auto input = [&](size_t i) {
      return i < in.size() ? std::optional(in[i]) : std::nullopt;
    };
    if (live_[id] && node.op == &kLinearCrossEntropy) {
      heads_.push_back(
          {.loss = id, .x = in[0], .weight = in[1], .targets = in[2], .bias = input(3)});
    } else if (live_[id] && node.op == &kLinearCrossEntropyGrad) {
      heads_.push_back({.gradient = id,
                        .x = in[1],
                        .weight = in[2],
                        .targets = in[3],
                        .bias = input(5),
                        .g = in[0],
                        .logsumexp = in[4]});
    }
  }
}

void LossHeads::find_dependents() {
  after_.assign(graph_.size(), false);
  for (const LossHead& head : heads_) {
    after_[head.place()] = true;
  }
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const auto& in = graph_.node(id).inputs;
    after_[id] = after_[id] ||
                 std::any_of(in.begin(), in.end(), [&](const Value& v) { return after_[v.node]; });
  }
}

// Takes a gradient into the head of its loss where its g is known before.
void LossHeads::join_gradient(LossHead& gradient) {
  if (gradient.loss || after_[gradient.g->node]) {
    return;
  }
  for (LossHead& head : heads_) {
    if (head.loss && !head.gradient && gradient.logsumexp == Value{*head.loss, 1} &&
        head.x == gradient.x && head.weight == gradient.weight &&
        head.targets == gradient.targets && head.bias == gradient.bias &&
        graph_.node(*head.loss).attrs == graph_.node(*gradient.gradient).attrs) {
      head.gradient = std::exchange(gradient.gradient, std::nullopt);
      head.g = gradient.g;
      return;
    }
  }
}

void LossHeads::set_chunk(LossHead& head) const {
  const TensorType& x = graph_.type(head.x);
  head.rows = graph_.type(head.targets).elements();
  head.chunk = head.rows;
  // Sums over chunks of 16-bit numbers would be rounded once for each.
  const bool sums_exactly = x.dtype == Dtype::kF32 || x.dtype == Dtype::kF64;
  if (head.rows > 0 && (sums_exactly || !head.gradient)) {
    const int64_t classes =
        graph_.type(head.weight).elements() / std::max<int64_t>(x.shape.back(), 1);
    const int64_t row_bytes = std::max<int64_t>(classes, 1) * size_of(x.dtype);
    head.chunk = rows_of_chunk(head.rows, row_bytes, chunks_, limits_);
  }
}

// The value behind reshapes that nothing else reads.
Value LossHeads::origin(Value value) const {
  while (used_once(value) && graph_.node(value.node).op->name == "reshape") {
    value = graph_.node(value.node).inputs[0];
  }
  return value;
}

// dW + addend, of which neither is read elsewhere.
void LossHeads::find_addend(LossHead& head) const {
  const Value weight_gradient{*head.gradient, 1};
  for (NodeId id = *head.gradient; id < graph_.size() && used_once(weight_gradient); ++id) {
    const Node& node = graph_.node(id);
    if (!live_[id] || node.op->name != "add") {
      continue;
    }
    for (const size_t i : {0, 1}) {
      const Value& other = node.inputs[1 - i];
      if (origin(node.inputs[i]) == weight_gradient && used_once(origin(other)) &&
          !after_[other.node]) {
        head.addend = other;
        head.addition = id;
        return;
      }
    }
  }
}

// In the order of the graph.
std::vector<NodeId> LossHeads::needed_by(const LossHead& head) const {
  std::vector<bool> needed(graph_.size(), false);
  for (const auto& value :
       {std::optional(head.x), std::optional(head.weight), std::optional(head.targets), head.bias,
        head.g, head.addend, head.loss ? std::nullopt : head.logsumexp}) {
    if (value) {
      needed[value->node] = true;
    }
  }
  std::vector<NodeId> nodes;
  for (NodeId id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
    if (needed[id]) {
      nodes.push_back(id);
      for (const Value& value : graph_.node(id).inputs) {
        needed[value.node] = true;
      }
    }
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace mstrain
