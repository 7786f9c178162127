// Differentiation and batching of recorded programs, from the rules of each operation.
#include <algorithm>
#include <map>

#include "core/ir/error_place.h"
#include "core/ops/build.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

Trace& open_trace() {
  Trace* trace = Trace::innermost();
  check(trace != nullptr, "a derivative is taken outside of a trace");
  return *trace;
}

// Tensors of a node of `trace`, as rules want them.
struct NodeTensors {
  Tensors inputs;
  Tensors outputs;
  NodeTensors(const Trace& trace, NodeId id) {
    const Node& node = trace.graph().node(id);
    for (const Value& value : node.inputs) {
      inputs.push_back(trace.tensor_of(value));
    }
    for (uint32_t i = 0; i < node.outputs.size(); ++i) {
      outputs.push_back(trace.tensor_of({id, i}));
    }
  }
};

// Marks the nodes in [first, last] that depend on `roots`.
std::vector<bool> dependents(const Trace& trace, NodeId first, NodeId last,
                             const std::vector<Value>& roots) {
  std::vector<bool> depends(last - first + 1, false);
  for (const Value& root : roots) {
    if (root.node <= last) {
      depends[root.node - first] = true;
    }
  }
  for (NodeId id = first; id <= last; ++id) {
    for (const Value& value : trace.graph().node(id).inputs) {
      if (value.node >= first && depends[value.node - first]) {
        depends[id - first] = true;
        break;
      }
    }
  }
  return depends;
}

bool any(std::span<const Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.defined(); });
}

// Cotangents (one per entry of `inputs`) of f(inputs), as a program that is derived abstractly and then replayed, so
// that nothing of f that the result does not need is recorded or run.
Tensors pull_through(const std::function<Tensors(std::span<const Tensor>)>& f,
                     std::span<const Tensor> inputs, std::span<const Tensor> cotangents) {
  Types types;
  Tensors given;
  for (const Tensor& input : inputs) {
    types.push_back(input.type());
    given.push_back(input);
  }
  std::vector<size_t> nonzero;
  for (size_t i = 0; i < cotangents.size(); ++i) {
    if (cotangents[i].defined()) {
      types.push_back(cotangents[i].type());
      given.push_back(cotangents[i]);
      nonzero.push_back(i);
    }
  }
  std::vector<bool> present(inputs.size());
  Tensors captures;
  const GraphPtr program = trace_program(
      types,
      [&](std::span<const Tensor> arguments) {
        const auto primals = arguments.first(inputs.size());
        const Tensors outputs = f(primals);
        Tensors ct(outputs.size());
        for (size_t i = 0; i < nonzero.size(); ++i) {
          ct[nonzero[i]] = arguments[inputs.size() + i];
        }
        const Tensors pulled = pull_back(outputs, ct, primals);
        Tensors results;
        for (size_t i = 0; i < pulled.size(); ++i) {
          present[i] = pulled[i].defined();
          if (pulled[i].defined()) {
            results.push_back(pulled[i]);
          }
        }
        return results;
      },
      &captures);
  given.insert(given.end(), captures.begin(), captures.end());
  const Tensors results = replay(*program, given);
  Tensors cotangents_of_inputs(inputs.size());
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (present[i]) {
      cotangents_of_inputs[i] = results[next++];
    }
  }
  return cotangents_of_inputs;
}

// Reverse mode of an operation that states only a forward rule: the rule is linear in the tangents, so its transpose is
// found by pulling back through it.
Tensors vjp_by_transposing(const Application& node, std::span<const Tensor> cotangents) {
  Tensors zeros;  // the rule's result does not depend on the values of tangents
  std::vector<size_t> which;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (is_floating(node.inputs[i].dtype())) {
      zeros.push_back(zeros_like(node.inputs[i]));
      which.push_back(i);
    }
  }
  const Tensors pulled = pull_through(
      [&](std::span<const Tensor> given) {
        Tensors tangents(node.inputs.size());
        for (size_t i = 0; i < which.size(); ++i) {
          tangents[which[i]] = given[i];
        }
        return or_zeros(node.op.jvp(node, tangents), node.outputs);
      },
      zeros, cotangents);
  Tensors result(node.inputs.size());
  for (size_t i = 0; i < which.size(); ++i) {
    result[which[i]] = pulled[i];
  }
  return result;
}

Tensors vjp_of(const Application& node, std::span<const Tensor> cotangents) {
  if (node.op.vjp != nullptr) {
    return node.op.vjp(node, cotangents);
  }
  if (node.op.jvp != nullptr && node.op.jvp != jvp_by_decomposition) {
    return vjp_by_transposing(node, cotangents);
  }
  check(node.op.decompose != nullptr, "{} has no reverse-mode derivative", node.op.name);
  return vjp_by_decomposition(node, cotangents);
}

Tensors jvp_of(const Application& node, std::span<const Tensor> tangents) {
  if (node.op.jvp != nullptr) {
    return node.op.jvp(node, tangents);
  }
  check(node.op.decompose != nullptr, "{} has no forward-mode derivative", node.op.name);
  return jvp_by_decomposition(node, tangents);
}

void check_type(const OpDef& op, std::string_view rule, const Tensor& derivative,
                const Tensor& primal) {
  check(!derivative.defined() || derivative.type() == primal.type(),
        "{}: its {} gives {} for a value of {}", op.name, rule,
        derivative.defined() ? to_string(derivative.type()) : "", to_string(primal.type()));
}

}  // namespace

Tensors pull_back(std::span<const Tensor> outputs, std::span<const Tensor> cotangents,
                  std::span<const Tensor> wrt) {
  Trace& trace = open_trace();
  std::map<Value, Tensor> pulled;
  std::vector<Value> roots;
  NodeId first = ~NodeId{0};
  NodeId last = 0;
  for (const Tensor& tensor : wrt) {
    if (const auto value = tensor.value_in(trace)) {
      roots.push_back(*value);
      first = std::min(first, value->node);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto value = outputs[i].value_in(trace);
    if (value && cotangents[i].defined()) {
      pulled[*value] = add_or_zero(pulled[*value], cotangents[i]);
      last = std::max(last, value->node);
    }
  }
  if (!roots.empty() && !pulled.empty() && last >= first) {
    const std::vector<bool> depends = dependents(trace, first, last, roots);
    std::vector<bool> is_root(depends.size(), false);
    for (const Value& root : roots) {
      if (root.node <= last) {
        is_root[root.node - first] = true;
      }
    }
    for (NodeId id = last + 1; id-- > first;) {
      if (!depends[id - first] || is_root[id - first]) {
        continue;
      }
      const NodeTensors tensors(trace, id);
      Tensors ct;
      for (uint32_t i = 0; i < tensors.outputs.size(); ++i) {
        const auto found = pulled.find({id, i});
        ct.push_back(found == pulled.end() ? Tensor() : found->second);
      }
      if (!any(ct)) {
        continue;
      }
      const Node& node = trace.graph().node(id);
      const PlaceScope place({StepPart::kBackward, node.place.scope});
      const SourceLocation called_from = node.where;
      const WhereScope where(called_from);
      const Application application{*node.op, node.attrs, tensors.inputs, tensors.outputs};
      const Tensors results = vjp_of(application, ct);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Value input = node.inputs[i];
        if (results[i].defined() && is_floating(tensors.inputs[i].dtype()) && input.node >= first &&
            depends[input.node - first]) {
          check_type(*node.op, "reverse rule", results[i], tensors.inputs[i]);
          pulled[input] = add_or_zero(pulled[input], results[i]);
        }
      }
      for (uint32_t i = 0; i < tensors.outputs.size(); ++i) {
        pulled.erase({id, i});
      }
    }
  }
  Tensors result;
  for (const Tensor& tensor : wrt) {
    const auto value = tensor.value_in(trace);
    const auto found = value ? pulled.find(*value) : pulled.end();
    result.push_back(found == pulled.end() ? Tensor() : found->second);
  }
  return result;
}

Tensors push_forward(std::span<const Tensor> inputs, std::span<const Tensor> tangents,
                     std::span<const Tensor> outputs) {
  Trace& trace = open_trace();
  std::map<Value, Tensor> pushed;
  NodeId first = ~NodeId{0};
  NodeId last = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const auto value = inputs[i].value_in(trace); value && tangents[i].defined()) {
      pushed[*value] = tangents[i];
      first = std::min(first, value->node);
    }
  }
  for (const Tensor& output : outputs) {
    if (const auto value = output.value_in(trace)) {
      last = std::max(last, value->node);
    }
  }
  for (NodeId id = first; !pushed.empty() && id <= last; ++id) {
    const Node& node = trace.graph().node(id);
    Tensors given;
    for (const Value& value : node.inputs) {
      const auto found = pushed.find(value);
      given.push_back(found == pushed.end() ? Tensor() : found->second);
    }
    if (!any(given)) {
      continue;
    }
    const NodeTensors tensors(trace, id);
    const PlaceScope place = PlaceScope::again(node.place);
    const SourceLocation called_from = node.where;
    const WhereScope where(called_from);
    const Tensors results = jvp_of({*node.op, node.attrs, tensors.inputs, tensors.outputs}, given);
    for (uint32_t i = 0; i < results.size(); ++i) {
      if (results[i].defined() && is_floating(tensors.outputs[i].dtype())) {
        check_type(*node.op, "forward rule", results[i], tensors.outputs[i]);
        pushed[{id, i}] = results[i];
      }
    }
  }
  Tensors result;
  for (const Tensor& output : outputs) {
    const auto value = output.value_in(trace);
    const auto found = value ? pushed.find(*value) : pushed.end();
    result.push_back(found == pushed.end() ? Tensor() : found->second);
  }
  return result;
}

Tensors vjp_by_decomposition(const Application& node, std::span<const Tensor> cotangents) {
  return pull_through(
      [&](std::span<const Tensor> inputs) { return node.op.decompose(node.attrs, inputs); },
      node.inputs, cotangents);
}

Tensors jvp_by_decomposition(const Application& node, std::span<const Tensor> tangents) {
  Types types;
  Tensors given(node.inputs.begin(), node.inputs.end());
  std::vector<size_t> nonzero;
  for (size_t i = 0; i < tangents.size(); ++i) {
    if (tangents[i].defined()) {
      given.push_back(tangents[i]);
      nonzero.push_back(i);
    }
  }
  for (const Tensor& tensor : given) {
    types.push_back(tensor.type());
  }
  const size_t count = node.inputs.size();
  std::vector<bool> present(node.outputs.size());
  Tensors captures;
  const GraphPtr program = trace_program(
      types,
      [&](std::span<const Tensor> arguments) {
        Tensors t(count);
        for (size_t i = 0; i < nonzero.size(); ++i) {
          t[nonzero[i]] = arguments[count + i];
        }
        const Tensors outputs = node.op.decompose(node.attrs, arguments.first(count));
        const Tensors pushed = push_forward(arguments.first(count), t, outputs);
        Tensors results;
        for (size_t i = 0; i < pushed.size(); ++i) {
          present[i] = pushed[i].defined();
          if (pushed[i].defined()) {
            results.push_back(pushed[i]);
          }
        }
        return results;
      },
      &captures);
  given.insert(given.end(), captures.begin(), captures.end());
  const Tensors results = replay(*program, given);
  Tensors all(node.outputs.size());
  size_t next = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (present[i]) {
      all[i] = results[next++];
    }
  }
  return all;
}

Tensors batch_by_decomposition(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                               std::span<const bool> batched, int64_t size) {
  Types types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorType type = inputs[i].type();
    type.shape = batched[i] ? type.shape.without(0) : type.shape;
    types.push_back(type);
  }
  Tensors captures;
  const GraphPtr program = trace_program(
      types, [&](std::span<const Tensor> arguments) { return op.decompose(attrs, arguments); },
      &captures);
  Tensors given(inputs.begin(), inputs.end());
  given.insert(given.end(), captures.begin(), captures.end());
  std::unique_ptr<bool[]> all(new bool[given.size()]());
  std::copy(batched.begin(), batched.end(), all.get());
  return replay_batched(*program, given, std::span(all.get(), given.size()), size);
}

Tensors replay_batched(const Graph& graph, std::span<const Tensor> inputs,
                       std::span<const bool> batched, int64_t size) {
  const std::vector<bool> live = graph.live();
  std::vector<Tensors> results(graph.size());
  std::vector<char> is_batched(graph.size(), 0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    results[graph.inputs()[i].node] = {inputs[i]};
    is_batched[graph.inputs()[i].node] = batched[i] ? 1 : 0;
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (!live[id] || node.op == &kInputOp) {
      continue;
    }
    Tensors arguments;
    std::unique_ptr<bool[]> flags(new bool[node.inputs.size() + 1]());
    bool any_batched = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& value = node.inputs[i];
      arguments.push_back(results[value.node][value.output]);
      flags[i] = is_batched[value.node] != 0;
      any_batched = any_batched || flags[i];
    }
    const PlaceScope place = PlaceScope::again(node.place);
    const WhereScope where(node.where);
    if (!any_batched) {
      results[id] = apply(*node.op, arguments, node.attrs, node.where);
      continue;
    }
    check(node.op->batch != nullptr || node.op->decompose != nullptr, "{} has no batching rule",
          node.op->name);
    const BatchRule rule = node.op->batch != nullptr ? node.op->batch : batch_by_decomposition;
    results[id] =
        rule(*node.op, node.attrs, arguments, std::span(flags.get(), node.inputs.size()), size);
    is_batched[id] = 1;
    for (size_t i = 0; i < results[id].size(); ++i) {
      const TensorType expected{node.outputs[i].dtype,
                                node.outputs[i].shape.with_inserted(0, size)};
      check(results[id][i].type() == expected, "{}: its batching rule gives {} instead of {}",
            node.op->name, to_string(results[id][i].type()), to_string(expected));
    }
  }
  Tensors outputs;
  for (const Value& value : graph.outputs()) {
    const Tensor& output = results[value.node][value.output];
    outputs.push_back(is_batched[value.node] != 0 ? output : repeat_leading(output, size));
  }
  return outputs;
}

}  // namespace mstrain
