// The parts of a tokenizer.json with a Unigram model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/added_tokens.h"
#include "core/data/json_fields.h"
#include "core/data/tokenizer.h"

namespace mstrain::hf {

// What was read of a file before its model.
struct HfCommon {
  std::string source;
  std::vector<AddedToken> added;
  std::optional<SpecialIds> special;
  std::vector<TokenizerFile> files;
};

std::shared_ptr<const Tokenizer> read_unigram(JsonFields& top, JsonFields& model, HfCommon common);

}  // namespace mstrain::hf
