// T5 as Hugging Face stores it: the edge between our parameters and files that `transformers` opens.
#pragma once

#include <functional>

#include "core/base/json.h"
#include "core/tensor/params.h"
#include "core/train/pretrained.h"
#include "suites/transformer/t5/config.h"

namespace mstrain::t5 {

// The shape under which a weight file holds parameter `name` of logical shape `shape`: heads and their width are one dim.
// Elements are in the same order, so that only the shape changes. Names are equal.
Shape hf_shape(const T5Config& config, std::string_view name, const Shape& shape);

// Where files may hold the embedding once more.
std::vector<std::string> hf_copies(const T5Config& config);

// What a tensor of a weight file is: copies of the token embeddings, and a table of distances for cross-attention that old
// files hold and nothing reads.
StoredMeaning hf_meaning(const T5Config& config, const std::string& stored);

// config.json of T5ForConditionalGeneration, which versions 4 and 5 of transformers read alike. `config.vocab_size` must be
// a number. Where the model began with that of a directory, `source` is its config.json: what changes no numbers here is
// taken over.
OrderedJson hf_config(const T5Config& config, const Json& source = Json::object());

// The reverse, also of an mT5, with the defaults of Hugging Face. `holds` says whether the weight file has a tensor: since version 5 the
// configuration of a model with a head of its own reads like that of a tied one. Throws Error naming the key that asks for
// another model than this one; `source` names the file.
T5Config config_from_hf(const Json& json, std::string_view source,
                        const std::function<bool(const std::string& tensor)>& holds);

}  // namespace mstrain::t5
