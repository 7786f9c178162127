// How a model was trained to read conversations: the chat template that lies beside its tokenizer.
#pragma once

#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/data/jinja/template.h"
#include "core/data/tokenizer.h"

namespace mstrain {

// An object of all that a template may read of it: `role`, which is a string (system, user, assistant, tool), mostly `content`, and
// what else it has, such as `tool_calls`.
class ChatMessage {
 public:
  // Bytes of `content` that are no UTF-8 count as U+FFFD.
  ChatMessage(const std::string& role, std::string_view content);
  // Throws Error where it is no object with such a role.
  explicit ChatMessage(OrderedJson keys);

  const std::string& role() const { return keys_["role"].get_ref<const std::string&>(); }
  bool is_assistants() const { return role() == "assistant"; }
  // Null where it is no string, or the message has more to say than that.
  const std::string* text_alone() const;
  const OrderedJson& keys() const { return keys_; }

 private:
  OrderedJson keys_;
};

struct Conversation {
  std::vector<ChatMessage> messages;
  OrderedJson tools;  // a list of what may be called; null: nothing
};

class ChatTemplate {
 public:
  // That of `folder`: chat_template.jinja, else `chat_template` of tokenizer_config.json, of several the one named default, and where there are
  // tools, tool_use.
  // `tokenizer` is the folder's. Throws IoError saying what was expected where, for what jinja::Template refuses, and where
  // the tokenizer reads the files' special tokens as ordinary text.
  ChatTemplate(FileSystem& files, const std::string& folder,
               std::shared_ptr<const Tokenizer> tokenizer);

  // The conversation, up to where the next answer begins. Only what the template itself writes becomes special tokens, and what a
  // role spells: a message that spells one is read as plain text. Throws Error for what the template refuses, such as turns in another order.
  std::vector<int32_t> tokens(std::span<const ChatMessage> messages) const;
  std::vector<int32_t> tokens(const Conversation& conversation) const;

  // What the template writes behind tokens(given) where it goes on with `turns` of the assistant, without white space at the end. Where
  // it writes `given` otherwise then, the text of the only turn as it is. Throws Error where that turn has more than text.
  std::vector<int32_t> answer(const Conversation& given, std::span<const ChatMessage> turns) const;

  // The special token that stands behind an answer; none: the template writes none.
  std::optional<int32_t> end_of_turn() const;

 private:
  jinja::Text rendered(const Conversation& conversation, bool asks) const;
  std::vector<int32_t> encoded(const jinja::Text& text) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<jinja::Template> template_;
  std::optional<jinja::Template> with_tools_;  // where there is another one for them
  jinja::Dict special_;                        // bos_token, eos_token, …
};

}  // namespace mstrain
