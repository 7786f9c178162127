// The configuration of a run that trains, evaluates or uses a GPT.
#pragma once

#include "core/data/data_config.h"
#include "core/train/sections.h"
#include "suites/transformer/gpt/config.h"

namespace mstrain::gpt {

struct GptRunConfig {
  TrainConfig train;
  GptConfig model;
  DataConfig data;

  template <class V>
  void fields(V& v) {
    train.fields_before_model(v);
    v("model", model, "the network");
    v("data", data, "text to train and to evaluate on");
    train.fields_after_data(v);
  }
};

// Reads and checks the whole of `tree`. Throws ConfigError with file and line.
GptRunConfig read_run_config(const YamlNode& tree);

}  // namespace mstrain::gpt
