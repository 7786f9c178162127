// What a run of a GPT will meet, looked at before it starts.
#pragma once

#include "core/base/files.h"
#include "core/data/tokenizer.h"
#include "core/train/preflight.h"
#include "suites/transformer/gpt/run_config.h"

namespace mstrain::gpt {

// By arithmetic alone, in no time: throws PlanError where states or a step's samples take more than a thousand times `limit`
// bytes, which no plan could change. Larger numbers than that cannot be planned with.
void refuse_absurd(const GptRunConfig& config, int64_t limit);

// A tokenizer of `tokens` ids on a model that has many more.
void find_unused_vocabulary(const GptRunConfig& config, int64_t tokens, const YamlNode& tree,
                            Findings& findings);

// Opens what a run opens: data, tokenizer, model.init.from and run.output_dir. Returns the tokenizer's size; none where it
// cannot be told, which is a finding where model.vocab_size is given and an error else.
std::optional<int64_t> look_ahead(FileSystem& files, const GptRunConfig& config,
                                  const YamlNode& tree, Findings& findings);

// Throws ConfigError where a text of eval.prompts has no ids.
void check_prompts(const GptRunConfig& config, const Tokenizer& tokenizer, const YamlNode& tree);

}  // namespace mstrain::gpt
