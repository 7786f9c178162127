// The parts of a tokenizer.json with a Unigram model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/added_tokens.h"
#include "core/data/json_fields.h"
#include "core/data/sentencepiece_tokenizer.h"
#include "core/data/tokenizer.h"
#include "core/data/unigram_normaliser.h"

namespace mstrain::hf {

// What was read of a file before its model.
struct HfCommon {
  std::string source;
  std::vector<AddedToken> added;
  std::optional<SpecialIds> special;
  std::vector<TokenizerFile> files;
  NamedTokens named;
};

// What a Metaspace says: spaces become U+2581.
struct Metaspace {
  NormaliserSpec::Prefix prefix = NormaliserSpec::Prefix::kIfMissing;
  bool split = true;
};
Metaspace read_metaspace(JsonFields& fields);

// A spec of spaces that stay as they are, which takes over source, files and added tokens of `common`.
SentencePieceSpec begun_spec(HfCommon& common);
// Says which of its added tokens ends a text, and what stands around one.
void finish_spec(const HfCommon& common, SentencePieceSpec& spec);

std::shared_ptr<const Tokenizer> read_unigram(JsonFields& top, JsonFields& model, HfCommon common);

}  // namespace mstrain::hf
