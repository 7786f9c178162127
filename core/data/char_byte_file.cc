// The file of a char or byte tokenizer.
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/tokenizer_files.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

[[noreturn]] void reject(std::string_view path, std::string_view why) {
  throw IoError(fmt::format("{}: not a tokenizer file: {}", path, why));
}

// Empty where there is no such string.
std::string string_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<char32_t> read_characters(const Json& json, std::string_view path) {
  const auto list = json.find("characters");
  if (list == json.end() || !list->is_array()) {
    reject(path, "it has no list `characters`");
  }
  std::vector<char32_t> characters;
  for (const Json& item : *list) {
    const auto* text = item.get_ptr<const std::string*>();
    if (text == nullptr || text->empty()) {
      reject(path, fmt::format("characters[{}] is no character", characters.size()));
    }
    const Utf8Character character = decode_utf8(*text, 0);
    if (character.length != static_cast<int>(text->size())) {
      reject(path, fmt::format("characters[{}] is not one character", characters.size()));
    }
    characters.push_back(character.code);
  }
  return characters;
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_from_json(std::string_view text, std::string_view path) {
  const Json json = parse_json(text, path);
  if (!json.is_object()) {
    reject(path, "it holds no JSON object");
  }
  const auto version = json.find("version");
  if (string_at(json, "format") != "mstrain-tokenizer" || version == json.end() ||
      !version->is_number_unsigned() || version->get<uint64_t>() != 1) {
    reject(path, "expected format mstrain-tokenizer, version 1");
  }
  const std::string type = string_at(json, "type");
  if (type == "byte") {
    return std::make_shared<ByteTokenizer>();
  }
  if (type == "char") {
    try {
      return std::make_shared<CharTokenizer>(read_characters(json, path));
    } catch (const IoError&) {
      throw;
    } catch (const Error& error) {
      reject(path, error.what());
    }
  }
  reject(path, fmt::format("unknown type \"{}\"; expected char or byte", type));
}

}  // namespace mstrain
