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
  const auto end = std::find_if(spec.vocab.begin(), spec.vocab.end(),
                                [](const auto& token) { return token.first == "<|endoftext|>"; });
  if (end != spec.vocab.end()) {
    spec.added.push_back({.content = end->first, .id = end->second, .special = true});
  }
  if (!added.path.empty()) {
    for (const auto& [content, id] : read_ids(added)) {
      if (content != "<|endoftext|>") {
        spec.added.push_back({.content = content, .id = id});
      } else if (end == spec.vocab.end()) {
        spec.added.push_back({.content = content, .id = id, .special = true});
      }
    }
    spec.files.push_back({"added_tokens.json", std::string(added.text)});
  }
  if (!config.path.empty()) {
    const Json json = parse_json(config.text, config.path);
    spec.add_prefix_space = JsonFields(json, config.path).boolean("add_prefix_space", false);
    spec.named =
        hf::named_tokens({{"tokenizer_config.json", std::string(config.text)}}, vocab.path);
    spec.files.push_back({"tokenizer_config.json", std::string(config.text)});
  }
  return std::make_shared<BpeTokenizer>(std::move(spec));
}

}  // namespace mstrain
