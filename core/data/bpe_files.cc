// GPT-2's own files: a vocabulary and a list of merges.
#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/bpe_tokenizer.h"
#include "core/data/hf_sections.h"
#include "core/data/json_fields.h"
#include "core/data/tokenizer_files.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

constexpr std::string_view kEnd = "<|endoftext|>";

std::vector<std::pair<std::string, int32_t>> read_ids(const NamedText& file) {
  const Json json = parse_json(file.text, file.path);
  if (!json.is_object()) {
    throw IoError(
        fmt::format("{}: expected an object of tokens and ids, found {}", file.path, shown(json)));
  }
  std::vector<std::pair<std::string, int32_t>> out;
  out.reserve(json.size());
  for (const auto& [token, id] : json.items()) {
    out.emplace_back(token, hf::token_id(id, fmt::format("{}: \"{}\"", file.path, token)));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> read_merges(const NamedText& file) {
  std::vector<std::pair<std::string, std::string>> out;
  size_t number = 0;
  for (size_t at = 0; at < file.text.size();) {
    const size_t end = std::min(file.text.find('\n', at), file.text.size());
    std::string_view line = file.text.substr(at, end - at);
    line.remove_suffix(line.ends_with('\r') ? 1 : 0);
    ++number;
    const auto refuse = [&](std::string_view why) {
      throw IoError(fmt::format("{}:{}: offset {}: {}", file.path, number, at, why));
    };
    if (const size_t bad = find_invalid_utf8(line); bad != line.npos) {
      throw IoError(fmt::format("{}:{}: offset {}: not valid UTF-8", file.path, number, at + bad));
    }
    if (!line.empty() && !(number == 1 && line.starts_with("#version"))) {
      const size_t space = line.find(' ');
      if (space == line.npos || space == 0 || space + 1 == line.size() ||
          line.find(' ', space + 1) != line.npos) {
        refuse("expected two tokens with a space between them");
      }
      out.emplace_back(line.substr(0, space), line.substr(space + 1));
    }
    at = end + 1;
  }
  return out;
}

// How transformers cuts text for the class that a tokenizer_config.json names.
void read_class(JsonFields& config, BpeSpec& spec) {
  spec.add_prefix_space = config.boolean("add_prefix_space", false);
  std::string name = config.text("tokenizer_class", "GPT2Tokenizer");
  if (name.ends_with("Fast")) {
    name.resize(name.size() - std::string_view("Fast").size());
  }
  if (name == "Qwen2Tokenizer") {
    spec.split = SplitPattern::kQwen2;
    spec.nfc = true;
    if (spec.add_prefix_space) {
      config.refuse("add_prefix_space", "true is not supported for Qwen2Tokenizer");
    }
  } else if (name != "GPT2Tokenizer" && name != "CodeGenTokenizer") {
    config.refuse("tokenizer_class",
                  fmt::format("\"{}\" is not supported with vocabulary and merges alone; "
                              "GPT2Tokenizer, CodeGenTokenizer and Qwen2Tokenizer are; others "
                              "need their tokenizer.json",
                              name));
  }
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_from_pair(const NamedText& vocab,
                                                     const NamedText& merges,
                                                     const NamedText& added,
                                                     const NamedText& config) {
  BpeSpec spec;
  spec.source = vocab.path;
  spec.merges_source = merges.path;
  spec.vocab = read_ids(vocab);
  spec.merges = read_merges(merges);
  // What transformers looks for.
  spec.files = {{"vocab.json", std::string(vocab.text)}, {"merges.txt", std::string(merges.text)}};
  if (!added.path.empty()) {
    for (const auto& [content, id] : read_ids(added)) {
      spec.added.push_back({.content = content, .id = id, .special = content == kEnd});
    }
    spec.files.push_back({"added_tokens.json", std::string(added.text)});
  }
  if (!config.path.empty()) {
    const Json json = parse_json(config.text, config.path);
    JsonFields fields(json, config.path);
    read_class(fields, spec);
    // It says all, and more, that an added_tokens.json does.
    spec.added = hf::read_added_tokens_decoder(fields).value_or(std::move(spec.added));
    spec.named =
        hf::named_tokens({{"tokenizer_config.json", std::string(config.text)}}, vocab.path);
    spec.files.push_back({"tokenizer_config.json", std::string(config.text)});
  }
  const auto end = std::find_if(spec.vocab.begin(), spec.vocab.end(),
                                [](const auto& token) { return token.first == kEnd; });
  if (end != spec.vocab.end() &&
      std::none_of(spec.added.begin(), spec.added.end(),
                   [](const AddedToken& token) { return token.content == kEnd; })) {
    spec.added.push_back({.content = end->first, .id = end->second, .special = true});
  }
  return std::make_shared<BpeTokenizer>(std::move(spec));
}

}  // namespace mstrain
