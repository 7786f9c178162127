// The parts of a tokenizer.json that do not depend on the kind of its model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/data/added_tokens.h"
#include "core/data/json_fields.h"
#include "core/data/tokenizer.h"

namespace mstrain::hf {

// An id of a token: an integer from 0 to below 2^31. `where` names it in the error.
int32_t token_id(const Json& json, const std::string& where);

std::vector<AddedToken> read_added_tokens(JsonFields& top);

// Those of a tokenizer_config.json, where a tokenizer has no tokenizer.json; none: it does not list them.
std::optional<std::vector<AddedToken>> read_added_tokens_decoder(JsonFields& config);

// What stands around a single text. None where the file does not say: no post-processor, or one
// that concerns offsets alone.
std::optional<SpecialIds> read_post_processor(JsonFields& top);

// What files beside a tokenizer's own, `source`, say, the first that names a token. Throws IoError where one is no JSON object.
NamedTokens named_tokens(const std::vector<TokenizerFile>& beside, const std::string& source);

}  // namespace mstrain::hf
