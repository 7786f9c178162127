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

struct Node {
  const OpDef* op = nullptr;
  std::vector<Value> inputs;
  Attrs attrs;
  Types outputs;
  // For errors and profiles only; not part of the node's identity.
  SourceLocation where;
  std::string scope;
};

class Graph {
 public:
  // The node for `op` of `inputs`: an existing equal one or a new one. Node ids grow, so that inputs precede users.
  // `outputs` must be what op.infer gives.
  NodeId add(const OpDef& op, std::vector<Value> inputs, Attrs attrs, Types outputs,
             const SourceLocation& where = {}, std::string scope = {});

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

  // Structural, the same in every process. Two graphs are equal when their live nodes, inputs and outputs are.
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
