// The section `network`: what stands between an observation and the heads of an algorithm.
#pragma once

#include <vector>

#include "core/base/config.h"
#include "core/nn/activation.h"

namespace mstrain::reinforcement {

struct NetworkConfig {
  std::vector<int64_t> hidden{64, 64};
  Activation activation = Activation::kTanh;
  int64_t memory = 0;

  template <class V>
  void fields(V& v) {
    v("hidden", hidden, "widths of the hidden layers; every head has its own",
      rule::at_least(1).at_most(65536).elsewhere_called({"net_arch", "hidden_sizes"}));
    v("activation", activation, "after each of them",
      rule::one_of({"gelu", "gelu_new", "relu", "silu", "tanh"})
          .elsewhere_called({"activation_fn"}));
    v("memory", memory,
      "units of a GRU in front of the hidden layers, which remembers what was seen in an episode; "
      "policy and value each have their own; 0: none",
      rule::at_least(0).at_most(65536).elsewhere_called({"lstm_hidden_size", "rnn_hidden_size"}));
  }
};

}  // namespace mstrain::reinforcement
