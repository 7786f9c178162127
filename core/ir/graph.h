// A program: an append-only, hash-consed list of nodes. Equal nodes are one node, so that identity is structure and
// common subexpressions never exist twice. Nodes never change; passes build new graphs.
#pragma once

#include <deque>
#include <unordered_map>

#include "core/base/hash.h"
#include "core/ir/op.h"

namespace mstrain {

using NodeId = uint32_t;

// Output `output` of node `node`.
struct Value {
  NodeId node = 0;
  uint32_t output = 0;
  friend auto operator<=>(const Value&, const Value&) = default;
};

// The part of a training step that a node belongs to. Memory and fusion go by it.
enum class StepPart : uint8_t { kForward, kBackward, kUpdate };
std::string_view name_of(StepPart part);  // "forward", "backward", "update"

// Where a node stands: in the step, and in the model as people see it ("h.3.mlp"). No pass reads scopes.
struct Place {
  StepPart part = StepPart::kForward;
  std::string scope;
};
// "h.3.mlp", "backward.h.3.mlp", "update".
std::string to_string(const Place& place);

struct Node {
  const OpDef* op = nullptr;
  std::vector<Value> inputs;
  Attrs attrs;
  Types outputs;
  Place place;
  SourceLocation where;  // for errors
};

class Graph {
 public:
  // The node for `op` of `inputs`: an existing equal one, whatever its place (what several parts of a step need is
  // computed where the first of them does), or a new one. Node ids grow, so that inputs precede users. `outputs` must be
  // what op.infer gives.
  NodeId add(const OpDef& op, std::vector<Value> inputs, Attrs attrs, Types outputs,
             Place place = {}, const SourceLocation& where = {});

  // A new input of the program.
  Value add_input(const TensorType& type);
  void set_outputs(std::vector<Value> outputs) { outputs_ = std::move(outputs); }

  size_t size() const { return nodes_.size(); }
  const Node& node(NodeId id) const { return nodes_[id]; }
  const TensorType& type(Value value) const { return nodes_[value.node].outputs[value.output]; }
  Types types(std::span<const Value> values) const;
  const std::vector<Value>& inputs() const { return inputs_; }
  const std::vector<Value>& outputs() const { return outputs_; }

  // Whether a node is needed for the outputs.
  std::vector<bool> live() const;

  // Structural, the same in every process. Two graphs are equal when their live nodes with the parts of the step that
  // these belong to, inputs and outputs are.
  uint64_t hash() const;
  friend bool operator==(const Graph& a, const Graph& b);

 private:
  uint64_t hash_of(const OpDef& op, std::span<const Value> inputs, const Attrs& attrs) const;

  std::deque<Node> nodes_;
  std::unordered_multimap<uint64_t, NodeId> by_hash_;
  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
};

// The operation of a program's inputs: attributes `index`, `dtype`, `shape`.
extern const OpDef kInputOp;

}  // namespace mstrain
