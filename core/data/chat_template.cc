#include "core/data/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/jinja/from_json.h"
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

struct Source {
  std::string text;
  std::string where;
  std::optional<std::string> with_tools = {};
};

// Of {"name": ..., "template": ...} in a list.
Source named_templates(const Json& list, const std::string& where) {
  std::map<std::string, std::string> texts;
  for (const Json& each : list) {
    JsonFields fields(each, where);
    const std::string name = fields.text("name");
    texts[name] = fields.text("template");
  }
  if (!texts.contains("default")) {
    throw IoError(fmt::format("{}: has templates {}, but none is called default", where,
                              fmt::join(std::views::keys(texts), ", ")));
  }
  Source out{texts["default"], where};
  if (const auto found = texts.find("tool_use"); found != texts.end()) {
    out.with_tools = found->second;
  }
  return out;
}

// As a template writes behind a turn.
jinja::Text without_own_space(const jinja::Text& text) {
  size_t size = jinja::without_trailing_space(text.bytes()).size();
  while (size < text.size() && text.outside().find_first_not_of('\0', size) != std::string::npos) {
    size = text.outside().find_first_not_of('\0', size) + 1;
  }
  return text.substr(0, size);
}

// The template's text, and where it stands.
Source find_template(FileSystem& files, const std::string& folder, const Json& config) {
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
  return found->is_array() ? named_templates(*found, where) : Source{text_of(*found, where), where};
}

}  // namespace

ChatMessage::ChatMessage(const std::string& role, std::string_view content)
    : keys_{{"role", role}, {"content", replace_invalid_utf8(content)}} {}

ChatMessage::ChatMessage(OrderedJson keys) : keys_(std::move(keys)) {
  check(keys_.is_object() && keys_.contains("role") && keys_["role"].is_string(),
        "a message is no object with a string `role`");
}

const std::string* ChatMessage::text_alone() const {
  const auto content = keys_.find("content");
  return keys_.size() == 2 && content != keys_.end() ? content->get_ptr<const std::string*>()
                                                     : nullptr;
}

ChatTemplate::ChatTemplate(FileSystem& files, const std::string& folder,
                           std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {
  const std::string config_path = join_path(folder, kConfigFile);
  const Json config = read_object(files, config_path);
  const auto [source, where, with_tools] = find_template(files, folder, config);
  if (const size_t at = find_invalid_utf8(source); at != std::string::npos) {
    throw IoError(fmt::format("{}: offset {}: is no UTF-8", where, at));
  }
  template_.emplace(source, where);
  if (with_tools) {
    with_tools_.emplace(*with_tools, where);
  }
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
    if ((source + with_tools.value_or("")).find(key) != std::string::npos &&
        tokenizer_->encode(text).size() != 1) {
      throw IoError(
          fmt::format("{}: the tokenizer reads {} as ordinary text; a tokenizer.json "
                      "that lists it under added_tokens is needed",
                      place, text));
    }
    jinja::assign(special_, key, jinja::Value::text(text));
  }
}

jinja::Text ChatTemplate::rendered(const Conversation& conversation, bool asks) const {
  jinja::List list;
  for (const ChatMessage& message : conversation.messages) {
    jinja::Dict keys = *jinja::from_json(message.keys()).dict();
    // Templates spell special tokens with it.
    jinja::assign(keys, "role", jinja::Value::text(message.role()));
    list.items.emplace_back(std::move(keys));
  }
  jinja::Dict variables = special_;
  jinja::assign(variables, "messages", std::move(list));
  jinja::assign(variables, "tools", jinja::from_json(conversation.tools));
  jinja::assign(variables, "documents", jinja::None());
  jinja::assign(variables, "add_generation_prompt", asks);
  const bool has_tools = !conversation.tools.is_null();
  return (has_tools && with_tools_ ? with_tools_ : template_)
      ->render(variables, std::time(nullptr));
}

std::vector<int32_t> ChatTemplate::encoded(const jinja::Text& text) const {
  return tokenizer_->encode(text.bytes(), text.outside());
}

std::vector<int32_t> ChatTemplate::tokens(const Conversation& conversation) const {
  return encoded(rendered(conversation, /*asks=*/true));
}

std::vector<int32_t> ChatTemplate::tokens(std::span<const ChatMessage> messages) const {
  return tokens(Conversation{{messages.begin(), messages.end()}, nullptr});
}

std::vector<int32_t> ChatTemplate::answer(const Conversation& given,
                                          std::span<const ChatMessage> turns) const {
  const jinja::Text prompt = rendered(given, /*asks=*/true);
  Conversation said = given;
  said.messages.insert(said.messages.end(), turns.begin(), turns.end());
  const jinja::Text whole = without_own_space(rendered(said, /*asks=*/false));
  if (!whole.bytes().starts_with(prompt.bytes())) {
    const std::string* const text = turns.size() == 1 ? turns[0].text_alone() : nullptr;
    check(text != nullptr,
          "the chat template writes what comes before an answer in another way when the answer "
          "follows, so that what it writes for an answer of more than text cannot be told");
    return tokenizer_->encode(*text, std::string(text->size(), 1));
  }
  const std::vector<int32_t> before = encoded(prompt);
  const std::vector<int32_t> ids = encoded(whole);
  const auto [end, differs] = std::ranges::mismatch(before, ids);
  return end == before.end() ? std::vector<int32_t>(differs, ids.end())
                             : encoded(whole.substr(prompt.size()));
}

std::optional<int32_t> ChatTemplate::end_of_turn() const {
  const Conversation turn{{{"user", "a"}, {"assistant", "b"}}, nullptr};
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
