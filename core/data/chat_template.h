// How a model was trained to read conversations: the chat template that lies beside its tokenizer.
#pragma once

#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/data/jinja/template.h"
#include "core/data/tokenizer.h"

namespace mstrain {

struct ChatMessage {
  std::string role;     // system, user or assistant
  std::string content;  // bytes that are no UTF-8 count as U+FFFD
};

class ChatTemplate {
 public:
  // That of `folder`: chat_template.jinja, else `chat_template` of tokenizer_config.json, of several the one named default.
  // `tokenizer` is the folder's. Throws IoError saying what was expected where, for what jinja::Template refuses, and where
  // the tokenizer reads the files' special tokens as ordinary text.
  ChatTemplate(FileSystem& files, const std::string& folder,
               std::shared_ptr<const Tokenizer> tokenizer);

  // The conversation, up to where the next answer begins. Only what the template itself writes becomes special tokens: a message
  // that spells one is read as plain text. Throws Error for what the template refuses, such as turns in another order.
  std::vector<int32_t> tokens(std::span<const ChatMessage> messages) const;

  // The special token that stands behind an answer; none: the template writes none.
  std::optional<int32_t> end_of_turn() const;

 private:
  jinja::Text rendered(std::span<const ChatMessage> messages, bool asks) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<jinja::Template> template_;
  jinja::Dict special_;  // bos_token, eos_token, …
};

}  // namespace mstrain
