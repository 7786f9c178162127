// GPT-2 as Hugging Face stores it: the edge between our parameters and files that `transformers` opens.
#pragma once

#include "core/base/json.h"
#include "core/tensor/params.h"
#include "suites/transformer/gpt/config.h"

namespace mstrain::gpt {

// The shape under which a weight file holds parameter `name` of logical shape `shape`: heads and the three projections
// of c_attn are one dim. Elements are in the same order, so that only the shape changes. Names are equal.
Shape hf_shape(std::string_view name, const Shape& shape);

// config.json of GPT2LMHeadModel. `config.vocab_size` must be a number.
OrderedJson hf_config(const GptConfig& config);

// The reverse. Throws Error naming the key that is missing, or that asks for another model than this one; `source` names
// the file.
GptConfig config_from_hf(const Json& json, std::string_view source);

}  // namespace mstrain::gpt
