// Turns text into token ids and back. Immutable after construction, so any number of threads may
// share one.
//
// A checkpoint carries its tokenizer as kTokenizerFile, so that generation needs nothing but the
// checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"

namespace mstrain {

inline constexpr std::string_view kTokenizerFile = "mstrain_tokenizer.json";

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view name() const = 0;  // the value of `data.tokenizer.type`
  virtual int64_t vocab_size() const = 0;     // ids are 0 … vocab_size() - 1

  // Throws Error naming the character and its byte offset where `text` holds one that has no id.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // Inverse of encode. Throws Error where an id is not below vocab_size().
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  // Contents of kTokenizerFile: a JSON object with `format`, `version`, `type` and what the type
  // needs. The same tokenizer always gives the same bytes.
  virtual std::string to_json() const = 0;
};

// Inverse of to_json. `path` is named in the IoError that anything else than such a file gives.
std::shared_ptr<const Tokenizer> tokenizer_from_json(std::string_view json, std::string_view path);

// The tokenizer of a checkpoint folder. Throws IoError where its file is missing or holds something
// else.
std::shared_ptr<const Tokenizer> load_tokenizer(FileSystem& files, const std::string& folder);

}  // namespace mstrain
