// The model of a tokenizer.json that is a byte-pair encoding.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/data/json_fields.h"

namespace mstrain::hf {

struct BpeVocabulary {
  std::vector<std::pair<std::string, int32_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  // first ones first
  std::optional<std::string> unk_token;
  bool fuse_unk = false;
  bool ignore_merges = false;
  bool byte_fallback = false;
};

// Throws IoError naming the field that is damaged or not supported.
BpeVocabulary read_bpe_vocabulary(JsonFields& model);

}  // namespace mstrain::hf
