#include "core/data/chat_template.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/json_fields.h"
#include "core/data/utf8.h"

namespace mstrain {
namespace {

constexpr uint64_t kLargest = 16 << 20;
constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kSpecialFile = "special_tokens_map.json";
// Which of them transformers gives to templates.
constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

Json read_object(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) {
    return Json::object();
  }
  Json json = parse_json(files.read(path, kLargest), path);
  if (!json.is_object()) {
    throw IoError(fmt::format("{}: expected an object, found {}", path, shown(json)));
  }
  return json;
}

std::string text_of(const Json& json, const std::string& where) {
  if (!json.is_string()) {
    throw IoError(fmt::format("{}: expected a string, found {}", where, shown(json)));
  }
  return json.get<std::string>();
}

// Of {"name": ..., "template": ...} in a list.
std::string default_template(const Json& list, const std::string& where) {
  std::vector<std::string> names;
  for (const Json& each : list) {
    JsonFields fields(each, where);
    names.push_back(fields.text("name"));
    if (names.back() == "default") {
      return fields.text("template");
    }
  }
  throw IoError(fmt::format("{}: has templates {}, but none is called default", where,
                            fmt::join(names, ", ")));
}

// The template's text, and where it stands.
std::pair<std::string, std::string> find_template(FileSystem& files, const std::string& folder,
                                                  const Json& config) {
  const std::string own = join_path(folder, kTemplateFile);
  if (files.exists(own)) {
    return {files.read(own, kLargest), own};
  }
  const std::string where = join_path(folder, kConfigFile) + ": chat_template";
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) {
    throw IoError(
        fmt::format("{}: the model has no chat template: expected {} there, or "
                    "`chat_template` in {}; without --chat it continues texts",
                    folder, kTemplateFile, kConfigFile));
  }
  return {found->is_array() ? default_template(*found, where) : text_of(*found, where), where};
}

}  // namespace

ChatTemplate::ChatTemplate(FileSystem& files, const std::string& folder,
                           std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {
  const std::string config_path = join_path(folder, kConfigFile);
  const Json config = read_object(files, config_path);
  const auto [source, where] = find_template(files, folder, config);
  if (const size_t at = find_invalid_utf8(source); at != std::string::npos) {
    throw IoError(fmt::format("{}: offset {}: is no UTF-8", where, at));
  }
  template_.emplace(source, where);
  const std::string map_path = join_path(folder, kSpecialFile);
  const Json map = read_object(files, map_path);
  for (const char* key : kSpecialTokens) {
    const bool in_config = config.contains(key) && !config[key].is_null();
    if (!in_config && (!map.contains(key) || map[key].is_null())) {
      continue;
    }
    const std::string place = fmt::format("{}: {}", in_config ? config_path : map_path, key);
    const Json& token = in_config ? config[key] : map[key];
    const std::string text =
        token.is_object() ? text_of(token.value("content", Json()), place) : text_of(token, place);
    if (source.find(key) != std::string::npos && tokenizer_->encode(text).size() != 1) {
      throw IoError(
          fmt::format("{}: the tokenizer reads {} as ordinary text; a tokenizer.json "
                      "that lists it under added_tokens is needed",
                      place, text));
    }
    jinja::assign(special_, key, jinja::Value::text(text));
  }
}

jinja::Text ChatTemplate::rendered(std::span<const ChatMessage> messages, bool asks) const {
  jinja::List list;
  for (const ChatMessage& message : messages) {
    const jinja::Text content(replace_invalid_utf8(message.content), /*from_outside=*/true);
    list.items.emplace_back(
        jinja::Dict{{"role", jinja::Value::text(message.role)}, {"content", content}});
  }
  jinja::Dict variables = special_;
  jinja::assign(variables, "messages", std::move(list));
  jinja::assign(variables, "tools", jinja::None());
  jinja::assign(variables, "documents", jinja::None());
  jinja::assign(variables, "add_generation_prompt", asks);
  return template_->render(variables, std::time(nullptr));
}

std::vector<int32_t> ChatTemplate::tokens(std::span<const ChatMessage> messages) const {
  const jinja::Text text = rendered(messages, /*asks=*/true);
  return tokenizer_->encode(text.bytes(), text.outside());
}

std::optional<int32_t> ChatTemplate::end_of_turn() const {
  const ChatMessage turn[] = {{"user", "a"}, {"assistant", "b"}};
  const jinja::Text text = rendered(turn, /*asks=*/false);
  const size_t answer = text.outside().find_last_not_of('\0');
  if (answer == std::string::npos) {
    return std::nullopt;
  }
  const std::string rest(
      jinja::without_leading_space(std::string_view(text.bytes()).substr(answer + 1)));
  // A special token is another one where a message spells it.
  const std::vector<int32_t> ids = tokenizer_->encode(rest);
  const std::vector<int32_t> plain = tokenizer_->encode(rest, std::string(rest.size(), 1));
  return !ids.empty() && !plain.empty() && ids[0] != plain[0] ? std::optional(ids[0])
                                                              : std::nullopt;
}

}  // namespace mstrain
