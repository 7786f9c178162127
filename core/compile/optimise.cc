#include <fmt/ranges.h>

#include <algorithm>

#include "core/compile/fuse.h"
#include "core/compile/passes.h"
#include "core/ir/verify.h"

namespace mstrain {
namespace {

struct NamedPass {
  std::string_view name;
  int level;  // from which it runs
  GraphPtr (*run)(const Graph&, const OptimiseOptions&);
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
  return chunk_loss(graph, options.loss_chunks);
}
GraphPtr lowering(const Graph& graph, const OptimiseOptions& options) {
  return lower(graph, options.backend);
}

constexpr NamedPass kPasses[] = {
    {"inline_programs", 0, plain<inline_programs>},
    {"simplify", 1, plain<simplify>},
    {"sum_into_scatter", 1, plain<sum_into_scatter>},
    {"chunk_loss", 1, chunking},
    {"simplify", 1, plain<simplify>},  // what came together since
    {"fuse_products", 2, fusing<fuse_products>},
    {"merge_updates", 2, fusing<merge_updates>},
    {"lower", 0, lowering},
    {"fuse", 2, fusing<fuse>},
    {"lower", 2, lowering},  // groups that the backend has no kernel for
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
      {"updates", "the updates of all parameters, where gradients are clipped together"}};
  rules.insert(rules.end(), group_rules().begin(), group_rules().end());
  return rules;
}

GraphPtr optimise(const Graph& graph, const OptimiseOptions& options) {
  check_rules(options.fusion);
  GraphPtr result;
  for (const NamedPass& it : kPasses) {
    if (options.level >= it.level) {
      result = checked(it.name, it.run(result == nullptr ? graph : *result, options));
    }
  }
  return result;
}

}  // namespace mstrain
