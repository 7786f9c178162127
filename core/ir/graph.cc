#include "core/ir/graph.h"

#include <algorithm>

namespace mstrain {
namespace {

Types infer_input(std::span<const TensorType>, const Attrs& attrs) {
  return {TensorType{attrs.dtype("dtype"), attrs.ints("shape")}};
}

}  // namespace

constinit const OpDef kInputOp{.name = "input",
                               .kind = OpKind::kSource,
                               .dtypes = DtypeClass::kAny,
                               .infer = infer_input,
                               .jvp = zero_derivative,
                               .distinct = true};

std::string_view name_of(StepPart part) {
  constexpr std::string_view kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<size_t>(part)];
}

std::string to_string(const Place& place) {
  if (place.scope.empty()) {
    return std::string(place.part == StepPart::kForward ? "" : name_of(place.part));
  }
  return place.part == StepPart::kBackward ? fmt::format("backward.{}", place.scope) : place.scope;
}

// Of this process only: an operation is its address.
uint64_t Graph::hash_of(const OpDef& op, std::span<const Value> inputs, const Attrs& attrs) const {
  uint64_t hash = reinterpret_cast<uintptr_t>(&op);
  for (const Value& value : inputs) {
    hash = hash_combine(hash, (uint64_t{value.node} << 32) | value.output);
  }
  return hash_combine(hash, attrs.hash());
}

NodeId Graph::add(const OpDef& op, std::vector<Value> inputs, Attrs attrs, Types outputs,
                  Place place, const SourceLocation& where) {
  const auto id = static_cast<NodeId>(nodes_.size());
  if (!op.distinct) {
    const uint64_t hash = hash_of(op, inputs, attrs);
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      const Node& node = nodes_[it->second];
      if (node.op == &op && node.inputs == inputs && node.attrs == attrs) {
        return it->second;
      }
    }
    by_hash_.emplace(hash, id);
  }
  nodes_.push_back(
      {&op, std::move(inputs), std::move(attrs), std::move(outputs), std::move(place), where});
  return id;
}

Value Graph::add_input(const TensorType& type) {
  const Attrs attrs{{"index", static_cast<int64_t>(inputs_.size())},
                    {"dtype", type.dtype},
                    {"shape", type.shape}};
  inputs_.push_back({add(kInputOp, {}, attrs, {type}), 0});
  return inputs_.back();
}

Types Graph::types(std::span<const Value> values) const {
  Types types;
  for (const Value& value : values) {
    types.push_back(type(value));
  }
  return types;
}

std::vector<bool> Graph::live() const {
  std::vector<bool> live(nodes_.size(), false);
  for (const Value& value : outputs_) {
    live[value.node] = true;
  }
  for (size_t id = nodes_.size(); id-- > 0;) {
    if (live[id]) {
      for (const Value& value : nodes_[id].inputs) {
        live[value.node] = true;
      }
    }
  }
  return live;
}

namespace {

// Live nodes and inputs, numbered in order: the canonical form that hash and equality compare.
std::vector<int64_t> canonical_numbers(const Graph& graph) {
  std::vector<bool> wanted = graph.live();
  for (const Value& value : graph.inputs()) {
    wanted[value.node] = true;
  }
  std::vector<int64_t> numbers(graph.size(), -1);
  int64_t next = 0;
  for (size_t id = 0; id < graph.size(); ++id) {
    if (wanted[id]) {
      numbers[id] = next++;
    }
  }
  return numbers;
}

}  // namespace

uint64_t Graph::hash() const {
  const std::vector<int64_t> numbers = canonical_numbers(*this);
  uint64_t hash = inputs_.size();
  const auto combine_value = [&](const Value& value) {
    hash = hash_combine(hash, (static_cast<uint64_t>(numbers[value.node]) << 32) | value.output);
  };
  for (size_t id = 0; id < nodes_.size(); ++id) {
    if (numbers[id] >= 0) {
      const Node& node = nodes_[id];
      hash = hash_combine(hash, hash_bytes(node.op->name).lo);
      std::for_each(node.inputs.begin(), node.inputs.end(), combine_value);
      hash = hash_combine(hash, node.attrs.hash());
      hash = hash_combine(hash, static_cast<uint64_t>(node.place.part));
    }
  }
  std::for_each(outputs_.begin(), outputs_.end(), combine_value);
  return hash;
}

bool operator==(const Graph& a, const Graph& b) {
  if (&a == &b) {
    return true;
  }
  if (a.inputs_.size() != b.inputs_.size() || a.outputs_.size() != b.outputs_.size()) {
    return false;
  }
  const std::vector<int64_t> numbers_a = canonical_numbers(a);
  const std::vector<int64_t> numbers_b = canonical_numbers(b);
  const auto same_values = [&](const std::vector<Value>& x, const std::vector<Value>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](const Value& v, const Value& w) {
      return numbers_a[v.node] == numbers_b[w.node] && v.output == w.output;
    });
  };
  size_t j = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (numbers_a[i] < 0) {
      continue;
    }
    while (j < b.size() && numbers_b[j] < 0) {
      ++j;
    }
    if (j == b.size()) {
      return false;
    }
    const Node& x = a.nodes_[i];
    const Node& y = b.nodes_[j++];
    if (x.op != y.op || x.place.part != y.place.part || !(x.attrs == y.attrs) ||
        !same_values(x.inputs, y.inputs)) {
      return false;
    }
  }
  while (j < b.size() && numbers_b[j] < 0) {
    ++j;
  }
  return j == b.size() && same_values(a.inputs_, b.inputs_) && same_values(a.outputs_, b.outputs_);
}

}  // namespace mstrain
