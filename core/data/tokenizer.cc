#include "core/data/tokenizer.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/tokenizer_files.h"

namespace mstrain {
namespace {

constexpr uint64_t kLargest = uint64_t{1} << 28;  // of a tokenizer's file, in bytes

struct Pair {
  const char* vocab;
  const char* merges;
};
constexpr std::array<Pair, 2> kPairs{{{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}}};
constexpr const char* kHfFile = "tokenizer.json";
constexpr const char* kConfigFile = "tokenizer_config.json";

// A file that may lie beside a tokenizer's own.
struct Companion {
  Companion(FileSystem& files, const std::string& beside, const char* name) {
    const std::string found = join_path(parent_path(beside), name);
    if (files.exists(found)) {
      path = found;
      text = files.read(found, kLargest);
    }
  }
  NamedText named() const { return {path, text}; }

  std::string path;  // empty: there is none
  std::string text;
};

// What lies beside a tokenizer.json and changes no ids, but says how conversations are written: it goes where the tokenizer goes.
std::vector<TokenizerFile> carried_beside(FileSystem& files, const std::string& path) {
  std::vector<TokenizerFile> out;
  for (const char* name : {kConfigFile, "special_tokens_map.json", "chat_template.jinja"}) {
    Companion found(files, path, name);
    if (!found.path.empty()) {
      out.push_back({name, std::move(found.text)});
    }
  }
  return out;
}

std::shared_ptr<const Tokenizer> load_pair(FileSystem& files, const std::string& vocab,
                                           const std::string& merges) {
  const std::string vocab_text = files.read(vocab, kLargest);
  const std::string merges_text = files.read(merges, kLargest);
  const Companion added(files, vocab, "added_tokens.json");
  const Companion config(files, vocab, kConfigFile);
  return tokenizer_from_pair({vocab, vocab_text}, {merges, merges_text}, added.named(),
                             config.named());
}

// The file that makes a pair with `path`. Throws where it is missing.
std::string partner(FileSystem& files, const std::string& path, bool is_vocab) {
  std::vector<std::string> wanted;
  for (const Pair& pair : kPairs) {
    if (file_name(path) == (is_vocab ? pair.vocab : pair.merges)) {
      wanted = {is_vocab ? pair.merges : pair.vocab};
      break;
    }
    wanted.push_back(is_vocab ? pair.merges : pair.vocab);
  }
  for (const std::string& name : wanted) {
    const std::string beside = join_path(parent_path(path), name);
    if (files.exists(beside)) {
      return beside;
    }
  }
  throw IoError(fmt::format("{}: is {} of a byte-pair encoding, but {} is not beside it", path,
                            is_vocab ? "the vocabulary" : "the list of merges",
                            wanted.size() == 1 ? wanted[0] : wanted[0] + " or " + wanted[1]));
}

std::shared_ptr<const Tokenizer> load_model(FileSystem& files, const std::string& path) {
  const std::string text = files.read(path, kLargest);
  const Companion config(files, path, kConfigFile);
  return tokenizer_from_sentencepiece({path, text}, config.named());
}

std::vector<std::string> models_in(FileSystem& files, const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string& name : files.list(folder)) {
    if (name.ends_with(".model") && !name.starts_with('.')) {
      out.push_back(join_path(folder, name));
    }
  }
  return out;
}

// Null where the folder holds no tokenizer.
std::shared_ptr<const Tokenizer> load_folder(FileSystem& files, const std::string& folder) {
  const auto in = [&](std::string_view name) { return join_path(folder, name); };
  for (const std::string& name : {std::string(kTokenizerFile), std::string(kHfFile)}) {
    if (files.exists(in(name))) {
      return load_tokenizer(files, in(name));
    }
  }
  for (const Pair& pair : kPairs) {
    if (files.exists(in(pair.vocab)) && files.exists(in(pair.merges))) {
      return load_pair(files, in(pair.vocab), in(pair.merges));
    }
  }
  const std::vector<std::string> models = models_in(files, folder);
  if (models.size() > 1) {
    throw IoError(fmt::format("{}: holds {} files *.model; name one of them, such as {}", folder,
                              models.size(), models[0]));
  }
  return models.empty() ? nullptr : load_model(files, models[0]);
}

std::shared_ptr<const Tokenizer> load_json(FileSystem& files, const std::string& path,
                                           const std::string& text) {
  const std::string name = file_name(path);
  if (name == kHfFile) {
    return tokenizer_from_hf({path, text}, carried_beside(files, path));
  }
  const Json json = parse_json(text, path);
  // A vocabulary may have tokens "format" and "model"; their values are ids.
  if (json.is_object() && json.contains("format") && json["format"].is_string()) {
    return tokenizer_from_json(text, path);
  }
  if (json.is_object() && json.contains("model") && json["model"].is_object()) {
    return tokenizer_from_hf({path, text}, carried_beside(files, path));
  }
  return load_pair(files, path, partner(files, path, /*is_vocab=*/true));
}

std::shared_ptr<const Tokenizer> load_file(FileSystem& files, const std::string& path) {
  if (path.ends_with(".model")) {
    return load_model(files, path);
  }
  const std::string text = files.read(path, kLargest);
  const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (first < text.size() && text[first] == '{') {
    return load_json(files, path, text);
  }
  if (text.starts_with("#version") || path.ends_with(".bpe") || file_name(path) == "merges.txt") {
    return load_pair(files, partner(files, path, /*is_vocab=*/false), path);
  }
  throw IoError(
      fmt::format("{}: is no tokenizer: expected tokenizer.json, vocab.json and "
                  "merges.txt, encoder.json and vocab.bpe, *.model, or {}",
                  path, kTokenizerFile));
}

[[noreturn]] void fail_missing(FileSystem& files, const std::string& path) {
  std::vector<std::string> names{"byte", "char"};
  if (const std::string parent = parent_path(path); files.is_directory(parent)) {
    for (const std::string& name : files.list(parent)) {
      names.push_back(parent == "." && !path.starts_with("./") ? name : join_path(parent, name));
    }
  }
  throw IoError(fmt::format("{}: no such tokenizer: expected a file, a folder, byte or char{}",
                            path, did_you_mean(path, names)),
                ENOENT);
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text, std::string_view plain) const {
  std::vector<int32_t> ids;
  EncodeState state{.plain = plain};
  encode_some(text, /*last=*/true, state, ids);
  return ids;
}

std::vector<int32_t> Tokenizer::encode_beginning(std::string_view text) const {
  std::vector<int32_t> ids = special().before;
  const std::vector<int32_t> rest = encode(text);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

std::string Tokenizer::to_json() const {
  std::vector<TokenizerFile> all = files();
  check(all.size() == 1, "a tokenizer of type {} has {} files instead of one", name(), all.size());
  return std::move(all[0].bytes);
}

std::shared_ptr<const Tokenizer> load_tokenizer(FileSystem& files, const std::string& path) {
  if (path == "byte") {
    return std::make_shared<ByteTokenizer>();
  }
  check(path != "char", "char: a tokenizer of characters is made of a text; name its {}",
        kTokenizerFile);
  if (!files.exists(path)) {
    fail_missing(files, path);
  }
  if (!files.is_directory(path)) {
    return load_file(files, path);
  }
  if (auto found = load_folder(files, path)) {
    return found;
  }
  throw IoError(
      fmt::format("{}: the folder holds no tokenizer: neither {}, {}, vocab.json and "
                  "merges.txt, encoder.json and vocab.bpe nor *.model{}",
                  path, kTokenizerFile, kHfFile,
                  files.exists(join_path(path, "checkpoints"))
                      ? "; those of a run are in the folders of its checkpoints/"
                      : ""));
}

bool has_tokenizer(FileSystem& files, const std::string& folder) {
  const auto has = [&](std::string_view name) { return files.exists(join_path(folder, name)); };
  return files.is_directory(folder) &&
         (has(kTokenizerFile) || has(kHfFile) ||
          std::any_of(kPairs.begin(), kPairs.end(),
                      [&](const Pair& pair) { return has(pair.vocab) && has(pair.merges); }) ||
          !models_in(files, folder).empty());
}

}  // namespace mstrain
