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
GraphPtr chunking(const Graph& graph, const OptimiseOptions& options) {
  return chunk_loss(graph, options.loss_chunks);
}
GraphPtr lowering(const Graph& graph, const OptimiseOptions& options) {
  return lower(graph, options.backend);
}

constexpr NamedPass kPasses[] = {
    {"inline_programs", 0, plain<inline_programs>},
    {"simplify", 1, plain<simplify>},
    {"simplify", 1, plain<simplify>},  // moves that the first round brought together
    {"fuse_products", 2, plain<fuse_products>},
    {"chunk_loss", 1, chunking},
    {"lower", 0, lowering},
};

// Builds with assertions check every pass.
GraphPtr checked([[maybe_unused]] std::string_view pass, GraphPtr graph) {
#ifndef NDEBUG
  verify(*graph, pass);
#endif
  return graph;
}

}  // namespace

GraphPtr optimise(const Graph& graph, const OptimiseOptions& options) {
  GraphPtr result;
  for (const NamedPass& it : kPasses) {
    if (options.level >= it.level) {
      result = checked(it.name, it.run(result == nullptr ? graph : *result, options));
    }
  }
  return result;
}

}  // namespace mstrain
