// Continues text with a GPT: the whole window is computed for each token, padded to a few fixed lengths so that no more
// than a few programs are compiled.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/data/tokenizer.h"
#include "core/runtime/context.h"
#include "core/tensor/jit.h"
#include "core/train/sections.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/gpt/sampling.h"

namespace mstrain::gpt {

class Generator {
 public:
  Generator(Gpt model, std::shared_ptr<const Tokenizer> tokenizer,
            Execution execution = Execution::kGraph);

  // `tokens` more tokens after `prompt` as text; an empty prompt stands for a line's end. `on_text` gets each piece as it
  // comes. What no longer fits into the model's window is forgotten, oldest first. Runs in the current context, without
  // dropout. Throws Error where the prompt has characters that the tokenizer does not know.
  std::string generate(const Params& params, const std::string& prompt, int64_t tokens,
                       const SamplingOptions& options,
                       const std::function<void(std::string_view)>& on_text = nullptr);

 private:
  // Logits of the token after the last of `ids`, of which there are 1 … max_position_embeddings.
  std::vector<float> next_logits(const Params& params, std::span<const int32_t> ids);

  Gpt model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Execution execution_;
  struct Compiled {
    std::unique_ptr<Program> program;
    Tensors captures;
  };
  std::map<int64_t, Compiled> programs_;  // by length of the window
};

}  // namespace mstrain::gpt
