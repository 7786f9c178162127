// Llamas as Hugging Face stores them: the edge between our parameters and files that `transformers` opens.
#pragma once

#include "core/base/json.h"
#include "core/tensor/params.h"
#include "core/train/pretrained.h"
#include "suites/transformer/llama/config.h"

namespace mstrain::llama {

// The values of model_type that we know.
std::vector<std::string> model_types();
// Those of them whose class can be this network; the first one is written where nothing else
// is known.
std::vector<std::string> families_of(const LlamaConfig& config);

// The shape under which a weight file holds parameter `name` of logical shape `shape`: heads and their width are one dim.
// Elements are in the same order, so that only the shape changes. Names are equal.
Shape hf_shape(const LlamaConfig& config, std::string_view name, const Shape& shape);

// What a tensor of a weight file is: buffers that older files hold; the head of a tied model, which must be the embedding's
// copy.
StoredMeaning hf_meaning(const LlamaConfig& config, const std::string& stored);

// config.json of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM or Qwen3ForCausalLM. `config.vocab_size` must be a number. Where the
// model began with that of a directory, `source` is its config.json: what changes no numbers here, such as the ids of
// special tokens, is taken over.
OrderedJson hf_config(const LlamaConfig& config, const Json& source = Json::object());

// Throws Error naming the key whose value belongs to another model, or the key that is unknown. `source` names the file.
LlamaConfig config_from_hf(const Json& json, std::string_view source);

}  // namespace mstrain::llama
