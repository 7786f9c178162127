#include "suites/reinforcement/algorithms/epsilon_greedy.h"

#include "core/ops/elementwise.h"
#include "core/ops/slicing.h"

namespace mstrain::reinforcement {

void EpsilonGreedy::fields(ConfigFields& v) {
  v("epsilon", epsilon, "share of actions that are taken by chance, at first",
    rule::at_least(0).at_most(1).elsewhere_called({"exploration_initial_eps", "start_e"}));
  v("final_epsilon", final_epsilon, "and later",
    rule::at_least(0).at_most(1).elsewhere_called({"exploration_final_eps", "end_e"}));
  v("exploration", exploration, "share of the run over which it falls",
    rule::positive().at_most(1).elsewhere_called({"exploration_fraction"}));
}

Tensor EpsilonGreedy::act(const Tensor& best_n1, int64_t actions, const Tensor& noise_n2,
                          const Tensor& explore) {
  const int64_t n = noise_n2.dim(0);
  const Tensor whether_n1 = noise_n2[{Slice{0, n}, Slice{0, 1}}];
  const Tensor which_n1 = noise_n2[{Slice{0, n}, Slice{1, 2}}];
  const auto last = static_cast<double>(actions - 1);
  const Tensor any_n1 = minimum(floor(which_n1 * static_cast<double>(actions)), last);
  return where(whether_n1 < explore, any_n1, best_n1);
}

}  // namespace mstrain::reinforcement
