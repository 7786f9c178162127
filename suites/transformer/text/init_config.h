// The `model.init` section of a language model.
#pragma once

#include "core/base/config.h"

namespace mstrain {

struct InitConfig {
  double std = 0.02;
  std::optional<std::string> from;

  template <class V>
  void fields(V& v) {
    v("std", std, "standard deviation of weights; 1/sqrt(2 num_layers) of it before a residual sum",
      rule::at_least(0).elsewhere_called({"initializer_range", "init_method_std"}));
    v("from", from,
      "a Hugging Face model directory, a checkpoint or a run to begin with; the other keys of "
      "`model` are taken from it, and may be left out",
      rule::path().elsewhere_called(
          {"init_from", "model_name_or_path", "pretrained_model_name_or_path", "load"}));
  }
};

}  // namespace mstrain
