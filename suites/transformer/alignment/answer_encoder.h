// Lines as samples: their texts in tokens, those of conversations as a chat template writes them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/chat_template.h"
#include "suites/transformer/alignment/answer_lines.h"
#include "suites/transformer/alignment/answers.h"

namespace mstrain {

// Of `corpus` the tokenizer and the end must be known; counts what lines lose there. All that is given must outlive it.
class AnswerEncoder {
 public:
  AnswerEncoder(FileSystem& files, const DataConfig& data, const ObjectiveConfig& objective,
                AnswerCorpus& corpus)
      : files_(files), data_(data), objective_(objective), corpus_(corpus) {}

  // Appends the samples of `line`. Throws IoError with its file and line.
  void add(const AnswerLine& line, std::vector<AnswerSample>& out);

  // file:line of a pair whose answers are alike; empty: none.
  const std::string& first_alike() const { return first_alike_; }

 private:
  // Every answer of a conversation is a sample, with what was said before it as its prompt: what the model is given when it chats.
  void add_turns(const Conversation& said, std::vector<AnswerSample>& out);
  AnswerText answered(const Conversation& given, std::span<const ChatMessage> turns);
  // Answers that are rewarded are written up to one token: of all prompts, or of none, it is the template's.
  void end_as(bool in_chat);
  void add(AnswerSample sample, std::vector<AnswerSample>& out);
  const ChatTemplate& form();

  FileSystem& files_;
  const DataConfig& data_;
  const ObjectiveConfig& objective_;
  AnswerCorpus& corpus_;
  std::optional<ChatTemplate> form_;
  std::optional<int32_t> form_end_;
  std::optional<bool> ends_in_chat_;  // none: not known yet
  std::string first_alike_;
};

}  // namespace mstrain
