// GPT-2 as Hugging Face stores it: the edge between our parameters and files that `transformers` opens.
#pragma once

#include "core/base/json.h"
#include "core/tensor/params.h"
#include "core/train/pretrained.h"
#include "suites/transformer/gpt/config.h"

namespace mstrain::gpt {

// The shape under which a weight file holds parameter `name` of logical shape `shape`: heads and the three projections
// of c_attn are one dim. Elements are in the same order, so that only the shape changes. Names are equal.
Shape hf_shape(const GptConfig& config, std::string_view name, const Shape& shape);

// What a tensor of a weight file is: names with and without the prefix `transformer.`; masks that older files hold; the
// head of a tied model, which must be the embedding's copy.
StoredMeaning hf_meaning(const GptConfig& config, const std::string& stored);

// config.json of GPT2LMHeadModel. `config.vocab_size` must be a number. Where the model began with that of a directory,
// `source` is its config.json: what changes no numbers here, such as the ids of special tokens, is taken over.
OrderedJson hf_config(const GptConfig& config, const Json& source = Json::object());

// The reverse, with the defaults of Hugging Face. Throws Error naming the key that asks for another model than this one;
// `source` names the file.
GptConfig config_from_hf(const Json& json, std::string_view source);

}  // namespace mstrain::gpt
