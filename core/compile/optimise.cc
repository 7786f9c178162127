#include "core/compile/passes.h"
#include "core/ir/verify.h"

namespace mstrain {
namespace {

using Pass = GraphPtr (*)(const Graph&);

struct NamedPass {
  std::string_view name;
  int level;  // from which it runs
  Pass pass;
};

constexpr NamedPass kPasses[] = {
    {"inline_programs", 0, inline_programs},
    {"simplify", 1, simplify},
    {"simplify", 1, simplify},  // moves that the first round brought together
    {"fuse_products", 2, fuse_products},
};

// Builds with assertions check every pass.
GraphPtr checked([[maybe_unused]] std::string_view pass, GraphPtr graph) {
#ifndef NDEBUG
  verify(*graph, pass);
#endif
  return graph;
}

}  // namespace

GraphPtr optimise(const Graph& graph, int level, Backend backend) {
  GraphPtr result;
  for (const NamedPass& it : kPasses) {
    if (level >= it.level) {
      result = checked(it.name, it.pass(result == nullptr ? graph : *result));
    }
  }
  return checked("lower", lower(*result, backend));
}

}  // namespace mstrain
