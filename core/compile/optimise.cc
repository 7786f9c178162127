#include <fmt/ranges.h>

#include <algorithm>

#include "core/compile/fetch_ahead.h"
#include "core/compile/fuse.h"
#include "core/compile/passes.h"
#include "core/compile/widen.h"
#include "core/ir/verify.h"
#include "core/ops/linear_cross_entropy.h"

namespace mstrain {
namespace {

struct NamedPass {
  std::string_view name;
  int level;  // from which it runs
  GraphPtr (*run)(const Graph&, const OptimiseOptions&);
  bool (*has_work)(const Graph&, const OptimiseOptions&) = nullptr;  // null: always
};

template <GraphPtr (*pass)(const Graph&)>
GraphPtr plain(const Graph& graph, const OptimiseOptions&) {
  return pass(graph);
}
template <GraphPtr (*pass)(const Graph&, const FuseOptions&)>
GraphPtr fusing(const Graph& graph, const OptimiseOptions& options) {
  return pass(graph, options.fusion);
}
GraphPtr chunking(const Graph& graph, const OptimiseOptions& options) {
  return chunk_loss(graph, options.loss_chunks, options.fusion.limits);
}
GraphPtr offloading(const Graph& graph, const OptimiseOptions& options) {
  return offload_saved(graph, *options.offloaded_bytes);
}
GraphPtr lowering(const Graph& graph, const OptimiseOptions& options) {
  return lower(graph, options.backend);
}

template <class Predicate>
bool any_node(const Graph& graph, const Predicate& holds) {
  const std::vector<bool> live = graph.live();
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (live[id] && holds(graph.node(id))) {
      return true;
    }
  }
  return false;
}

// What the passes that are for a few operations look for. A pass without work would only copy the program.
bool has_programs(const Graph& graph, const OptimiseOptions&) {
  return any_node(graph, [](const Node& node) { return !node.op->inlined.empty(); });
}
bool has_heads(const Graph& graph, const OptimiseOptions&) {
  return any_node(graph, [](const Node& node) {
    return node.op == &kLinearCrossEntropy || node.op == &kLinearCrossEntropyGrad;
  });
}
bool has_unsupported(const Graph& graph, const OptimiseOptions& options) {
  return any_node(graph, [&](const Node& node) {
    return node.op != &kInputOp && node.op->loop == nullptr &&
           !has_kernel(options.backend, *node.op, node.attrs, graph.types(node.inputs),
                       node.outputs);
  });
}

bool offloads(const Graph&, const OptimiseOptions& options) {
  return options.offloaded_bytes && has_host_memory(options.backend);
}

constexpr NamedPass kPasses[] = {
    {"inline_programs", 0, plain<inline_programs>, has_programs},
    {"simplify", 1, plain<simplify>},
    {"sum_into_scatter", 1, plain<sum_into_scatter>},
    {"chunk_loss", 1, chunking, has_heads},
    {"simplify", 1, plain<simplify>},  // what came together since
    {"fuse_products", 2, fusing<fuse_products>},
    {"merge_updates", 2, fusing<merge_updates>},
    {"lower", 0, lowering},
    {"fuse", 2, fusing<fuse>},
    {"lower", 2, lowering, has_unsupported},  // groups that the backend has no kernel for
    {"offload_saved", 0, offloading, offloads},
};

// Builds with assertions check every pass.
GraphPtr checked([[maybe_unused]] std::string_view pass, GraphPtr graph) {
#ifndef NDEBUG
  verify(*graph, pass);
#endif
  return graph;
}

void check_rules(const FuseOptions& options) {
  const std::vector<FusionRule> rules = fusion_rules();
  for (const std::string& name : options.off) {
    std::vector<std::string_view> names;
    for (const FusionRule& rule : rules) {
      names.push_back(rule.name);
    }
    check(std::find(names.begin(), names.end(), name) != names.end(),
          "there is no rule of fusion called '{}'; there are {}", name, fmt::join(names, ", "));
  }
}

}  // namespace

std::vector<FusionRule> fusion_rules() {
  std::vector<FusionRule> rules = {
      {"bias", "a product with the vector that is added to its rows"},
      {"addend", "a product with the tensor that is added to it and read nowhere else"},
      {"scale", "a product with the number that it is multiplied by"},
      {"activation", "a product with the activation that alone reads it"},
      {"kept", "a product with an activation, where others read the product, too"},
      {"derivative", "a product with the derivative of an activation that it is multiplied by"},
      {"updates", "the updates of all parameters, where gradients are clipped together"}};
  rules.insert(rules.end(), group_rules().begin(), group_rules().end());
  return rules;
}

GraphPtr optimise(const Graph& graph, const OptimiseOptions& given) {
  OptimiseOptions options = given;
  options.fusion.limits = options.backend->limits;
  check_rules(options.fusion);
  GraphPtr result;
  for (const NamedPass& it : kPasses) {
    const Graph& so_far = result == nullptr ? graph : *result;
    if (options.level >= it.level && (it.has_work == nullptr || it.has_work(so_far, options))) {
      result = checked(it.name, it.run(so_far, options));
    }
  }
  return result;
}

}  // namespace mstrain
