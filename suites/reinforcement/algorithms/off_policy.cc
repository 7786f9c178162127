#include "suites/reinforcement/algorithms/off_policy.h"

#include "core/ops/build.h"
#include "core/ops/elementwise.h"

namespace mstrain::reinforcement {

void OffPolicy::common_fields(ConfigFields& v) {
  v("buffer_size", buffer_size, "steps that are kept, of all environments together",
    rule::at_least(1).at_most(1e9).elsewhere_called({"replay_size", "memory_size"}));
  v("buffer_on", buffer_on,
    "where they are kept. disk: in files of the run's directory, for more than memory holds",
    rule::one_of({"memory", "disk"}));
  v("learning_starts", learning_starts,
    "steps of all environments together, with actions by chance, before the first update",
    rule::at_least(0).elsewhere_called({"start_steps", "warmup_steps"}));
  v("train_every", train_every, "steps of every environment between two times of learning",
    rule::at_least(1).at_most(1e6).elsewhere_called({"train_freq", "train_frequency"}));
  v("updates", updates, "each time",
    rule::at_least(1).at_most(1e6).elsewhere_called({"gradient_steps"}));
  v("batch_size", batch_size, "steps of an update, or sequences (network.memory)",
    rule::at_least(1).at_most(1 << 24));
  v("parts", parts,
    "equal parts of a batch, whose gradients are added one after another: learners of any number "
    "that divides it have the same bits; auto: as many as there are learners",
    rule::at_least(1).at_most(4096));
  v("noise_hold", noise_hold,
    "steps that the chance in actions stays the same: what is held reaches further (Dabney et al. "
    "2021)",
    rule::at_least(1).at_most(1e6));
  v("discount", discount, "of what comes a step later",
    rule::at_least(0).at_most(1).elsewhere_called({"gamma"}));
  v("n_step", n_step, "steps whose rewards are counted before what follows is estimated",
    rule::at_least(1).at_most(1000).elsewhere_called({"n_steps"}));
  v("target_rate", target_rate,
    "how far the networks that make targets follow those that learn: 1: they become them",
    rule::positive().at_most(1).elsewhere_called({"tau", "polyak"}));
  v("target_interval", target_interval, "updates between two times that they follow",
    rule::at_least(1).elsewhere_called({"target_update_interval", "target_network_frequency"}));
  v("prioritised", prioritised,
    "steps are drawn in proportion to a power of their last error (Schaul et al. 2016), else alike",
    rule::elsewhere_called({"prioritized_replay", "prioritized"}));
  v("priority_exponent", priority_exponent, "prioritised: that power",
    rule::at_least(0).at_most(2).elsewhere_called({"alpha"}));
  v("importance", importance,
    "prioritised: how far weights correct for being drawn more often, at first; at the end wholly",
    rule::at_least(0).at_most(1).elsewhere_called({"beta"}));
}

Tensor huber(const Tensor& x) {
  const Tensor size = abs(x);
  return where(size <= 1, 0.5 * square(x), size - 0.5);
}

Params stop_gradient(const Params& params) {
  Params out;
  for (size_t i = 0; i < params.size(); ++i) {
    out.set(params.name(i), mstrain::stop_gradient(params.tensor(i)));
  }
  return out;
}

}  // namespace mstrain::reinforcement
