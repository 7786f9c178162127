// The key of `model.init` that the models of all suites have.
#pragma once

#include <optional>
#include <string>

#include "core/base/config.h"

namespace mstrain {

struct InitFrom {
  std::optional<std::string> from;

  template <class V>
  void fields(V& v) {
    v("from", from,
      "a Hugging Face model directory, a checkpoint or a run to begin with; the other keys of "
      "`model` are taken from it, and may be left out",
      rule::path().elsewhere_called(
          {"init_from", "model_name_or_path", "pretrained_model_name_or_path", "load"}));
  }
};

}  // namespace mstrain
