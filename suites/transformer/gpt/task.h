// What the trainer needs to know of a GPT and its text.
#pragma once

#include "core/base/json.h"
#include "core/data/corpus.h"
#include "core/train/task.h"
#include "suites/transformer/gpt/run_config.h"

namespace mstrain::gpt {

// `config.model.vocab_size` must be a number.
TrainTask make_task(const GptRunConfig& config);

// Batches are {tokens[rows, seq], targets[rows, seq]}, i32. `config` is the one of make_task; `source` is config.json of
// the directory that the model began with.
TrainData make_data(const GptRunConfig& config, const Corpus& corpus,
                    const Json& source = Json::object());

// The configuration with the vocabulary's size filled in. Throws ConfigError where the tokenizer has more ids than
// model.vocab_size.
GptRunConfig with_vocab(GptRunConfig config, int64_t tokenizer_size, const YamlNode& tree);

}  // namespace mstrain::gpt
