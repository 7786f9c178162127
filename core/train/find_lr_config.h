// The `find_lr` section: how run.mode find_lr looks for a learning rate.
#pragma once

#include "core/base/config.h"

namespace mstrain {

struct FindLrConfig {
  double lowest = 1e-7;
  double highest = 10;
  int64_t steps = 200;
  double divergence = 4;

  template <class V>
  void fields(V& v) {
    v("lowest", lowest, "learning rate of the first step", rule::positive());
    v("highest", highest, "of the last step; between them it grows by the same factor every step",
      rule::positive());
    v("steps", steps, "how many, where the loss does not diverge before",
      rule::at_least(10).at_most(1000000));
    v("divergence", divergence, "times its least value so far: a smoothed loss above that ends it",
      rule::above(1));
  }
};

}  // namespace mstrain
