#include "core/data/hf_sections.h"

#include <charconv>

#include "core/base/error.h"

namespace mstrain::hf {
namespace {

// The ids that a TemplateProcessing's `special_tokens` gives for a name.
std::vector<int32_t> ids_of(const Json& tokens, const std::string& name, const std::string& where) {
  const auto found = tokens.find(name);
  if (found == tokens.end()) {
    throw IoError(fmt::format("{}: has no entry for \"{}\"", where, name));
  }
  JsonFields entry(*found, fmt::format("{}.{}", where, name));
  entry.find("id");
  entry.find("tokens");
  const Json& list = entry.required("ids");
  entry.finish();
  if (!list.is_array()) {
    entry.refuse("ids", "expected a list");
  }
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    ids.push_back(token_id(id, entry.at("ids")));
  }
  return ids;
}

SpecialIds read_template(JsonFields& fields) {
  const Json& single = fields.required("single");
  fields.find("pair");  // for two texts at once, which nothing here encodes
  const Json& tokens = fields.required("special_tokens");
  fields.finish();
  if (!single.is_array() || !tokens.is_object()) {
    fields.refuse("single", "expected a list, and an object `special_tokens`");
  }
  SpecialIds out;
  int texts = 0;
  for (const Json& item : single) {
    const std::string where = fields.at(fmt::format("single[{}]", &item - &single[0]));
    if (!item.is_object() || item.size() != 1) {
      throw IoError(fmt::format("{}: expected a Sequence or a SpecialToken", where));
    }
    const std::string kind = item.begin().key();
    JsonFields piece(item.begin().value(), where + "." + kind);
    const std::string id = piece.text("id");
    piece.find("type_id");
    piece.finish();
    if (kind == "SpecialToken") {
      auto& ids = texts == 0 ? out.before : out.after;
      const std::vector<int32_t> more = ids_of(tokens, id, fields.at("special_tokens"));
      ids.insert(ids.end(), more.begin(), more.end());
    } else if (kind == "Sequence" && id == "A") {
      ++texts;
    } else {
      throw IoError(fmt::format("{}: unknown kind with id \"{}\"", piece.at(kind), id));
    }
  }
  if (texts != 1) {
    fields.refuse("single", fmt::format("holds the text {} times instead of once", texts));
  }
  return out;
}

std::optional<SpecialIds> read_processor(const Json& json, const std::string& where, int depth) {
  JsonFields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "TemplateProcessing") {
    return read_template(fields);
  }
  if (type == "ByteLevel") {  // moves offsets, not ids
    fields.boolean("add_prefix_space", true);
    fields.boolean("trim_offsets", true);
    fields.boolean("use_regex", true);
    fields.finish();
    return std::nullopt;
  }
  if (type == "Sequence" && depth == 0) {
    const Json& list = fields.required("processors");
    fields.finish();
    std::optional<SpecialIds> out;
    if (!list.is_array()) {
      fields.refuse("processors", "expected a list");
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string inner = fields.at(fmt::format("processors[{}]", i));
      if (auto found = read_processor(list[i], inner, 1)) {
        if (out) {
          throw IoError(fmt::format("{}: a second template is not supported", inner));
        }
        out = std::move(found);
      }
    }
    return out;
  }
  fields.refuse("type",
                fmt::format("\"{}\" is not supported; ByteLevel and TemplateProcessing are", type));
}

// But for its id.
AddedToken read_added_token(JsonFields& fields) {
  AddedToken token;
  token.content = fields.text("content");
  token.lstrip = fields.boolean("lstrip", false);
  token.rstrip = fields.boolean("rstrip", false);
  token.special = fields.boolean("special", false);
  token.normalized = fields.boolean("normalized", !token.special);
  if (fields.boolean("single_word", false)) {
    fields.refuse("single_word", "true is not supported");
  }
  fields.finish();
  return token;
}

}  // namespace

int32_t token_id(const Json& json, const std::string& where) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > 0x7fffffff) {
    throw IoError(fmt::format("{}: expected an id below 2^31, found {}", where, shown(json)));
  }
  return static_cast<int32_t>(json.get<uint64_t>());
}

std::vector<AddedToken> read_added_tokens(JsonFields& top) {
  std::vector<AddedToken> out;
  const Json* list = top.find("added_tokens");
  if (list == nullptr) {
    return out;
  }
  if (!list->is_array()) {
    top.refuse("added_tokens", "expected a list");
  }
  for (const Json& item : *list) {
    JsonFields fields(item, top.at(fmt::format("added_tokens[{}]", out.size())));
    const int32_t id = token_id(fields.required("id"), fields.at("id"));
    out.push_back(read_added_token(fields));
    out.back().id = id;
  }
  return out;
}

std::optional<std::vector<AddedToken>> read_added_tokens_decoder(JsonFields& config) {
  const std::string key = "added_tokens_decoder";
  const Json* tokens = config.find(key);
  if (tokens == nullptr) {
    return std::nullopt;
  }
  if (!tokens->is_object()) {
    config.refuse(key, fmt::format("expected an object, found {}", shown(*tokens)));
  }
  std::vector<AddedToken> out;
  for (const auto& [id, token] : tokens->items()) {
    JsonFields fields(token, fmt::format("{}[\"{}\"]", config.at(key), id));
    fields.find("__type");
    out.push_back(read_added_token(fields));
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), out.back().id);
    if (error != std::errc() || end != id.data() + id.size() || out.back().id < 0) {
      config.refuse(key, fmt::format("expected ids below 2^31, found \"{}\"", id));
    }
  }
  return out;
}

std::optional<SpecialIds> read_post_processor(JsonFields& top) {
  const Json* json = top.find("post_processor");
  return json == nullptr ? std::nullopt
                         : read_processor(*json, top.at("post_processor"), /*depth=*/0);
}

NamedTokens named_tokens(const std::vector<TokenizerFile>& beside, const std::string& source) {
  NamedTokens out;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto file = std::find_if(beside.begin(), beside.end(),
                                   [&](const TokenizerFile& each) { return each.name == name; });
    if (file == beside.end()) {
      continue;
    }
    const std::string path = join_path(parent_path(source), name);
    const Json json = parse_json(file->bytes, path);
    JsonFields fields(json, path);
    for (const auto& [key, token] :
         {std::pair("eos_token", &out.end), std::pair("pad_token", &out.pad)}) {
      const Json* const given = fields.find(key);
      if (given == nullptr || token->has_value()) {
        continue;
      }
      const Json text = given->is_object() ? given->value("content", Json()) : *given;
      if (!text.is_string()) {
        fields.refuse(key, fmt::format("expected a token's text, found {}", shown(*given)));
      }
      *token = text.get<std::string>();
    }
  }
  return out;
}

}  // namespace mstrain::hf
