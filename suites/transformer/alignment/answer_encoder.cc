#include "suites/transformer/alignment/answer_encoder.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {
namespace {

AnswerText joined(std::vector<int32_t> prompt, const std::vector<int32_t>& answer, int32_t end) {
  const auto given = static_cast<int64_t>(prompt.size());
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  if (!answer.empty()) {
    prompt.push_back(end);
  }
  return {std::move(prompt), given};
}

}  // namespace

void AnswerEncoder::add(const AnswerLine& line, std::vector<AnswerSample>& out) {
  try {
    if (line.conversation && line.turns.empty() && !objective_.is_rewarded()) {
      add_turns(*line.conversation, out);
      return;
    }
    AnswerSample sample{.texts = {}, .is_wanted = line.is_wanted};
    const std::vector<int32_t> prompt = line.conversation
                                            ? form().tokens(*line.conversation)
                                            : corpus_.tokenizer->encode_beginning(line.prompt);
    for (const std::vector<ChatMessage>& turns : line.turns) {
      sample.texts.push_back(answered(*line.conversation, turns));
    }
    if (objective_.is_rewarded()) {
      end_as(line.conversation.has_value());
    }
    for (const std::string& answer : line.answers) {
      sample.texts.push_back(joined(prompt, corpus_.tokenizer->encode(answer), corpus_.end));
    }
    if (sample.texts.empty()) {
      sample.texts.push_back(joined(prompt, {}, corpus_.end));
    }
    if (objective_.judges() && sample.texts.size() == 2) {  // each by itself
      add({.texts = {sample.texts[0]}, .is_wanted = true}, out);
      add({.texts = {sample.texts[1]}, .is_wanted = false}, out);
      return;
    }
    const size_t before = out.size();
    add(std::move(sample), out);
    if (objective_.prefers() && out.size() > before &&
        out.back().texts[0].ids == out.back().texts[1].ids) {
      first_alike_ = corpus_.counts.alike == 0 ? line.where : first_alike_;
      ++corpus_.counts.alike;
    }
  } catch (const IoError&) {
    throw;
  } catch (const Error& error) {
    throw IoError(fmt::format("{}: {}", line.where, error.what()));
  }
}

void AnswerEncoder::add_turns(const Conversation& said, std::vector<AnswerSample>& out) {
  form();  // says where there is none
  Conversation given{{}, said.tools};
  bool has_answer = false;
  for (const ChatMessage& message : said.messages) {
    if (message.is_assistants()) {
      add({{answered(given, std::span(&message, 1))}}, out);
      has_answer = true;
    }
    given.messages.push_back(message);
  }
  corpus_.counts.empty += has_answer ? 0 : 1;
}

AnswerText AnswerEncoder::answered(const Conversation& given, std::span<const ChatMessage> turns) {
  const ChatTemplate& form = this->form();
  std::vector<int32_t> answer = form.answer(given, turns);
  const int32_t token = form_end_.value_or(corpus_.end);
  const auto end = std::find(answer.rbegin(), answer.rend(), token);
  if (end != answer.rend() && (form_end_ || end == answer.rbegin())) {
    answer.erase(end.base() - 1, answer.end());
  }
  return joined(form.tokens(given), answer, token);
}

void AnswerEncoder::end_as(bool in_chat) {
  if (!ends_in_chat_ && in_chat) {
    form();
    corpus_.end = form_end_.value_or(corpus_.end);
  }
  check(ends_in_chat_.value_or(in_chat) == in_chat,
        "some prompts are lists of messages, and others are text; expected all alike");
  ends_in_chat_ = in_chat;
}

void AnswerEncoder::add(AnswerSample sample, std::vector<AnswerSample>& out) {
  // Where the last token is no target, it takes a place as well.
  const size_t most = static_cast<size_t>(data_.seq_length) + (objective_.scores() ? 0 : 1);
  bool is_cut = false;
  for (AnswerText& text : sample.texts) {
    const auto given = static_cast<size_t>(text.answer);
    // The first token of a text has nothing before it that it could be told from.
    const bool needs_answer = !objective_.is_rewarded() || objective_.reads_answers();
    if ((needs_answer && (!text.has_answer() || text.ids.size() < 2)) ||
        (objective_.is_rewarded() && given == 0)) {
      ++corpus_.counts.empty;
      return;
    }
    if (objective_.is_rewarded() &&
        (text.ids.size() > most ||
         given + static_cast<size_t>(objective_.writing().answer_tokens) > most)) {
      ++corpus_.counts.overlong;
      return;
    }
    if (text.ids.size() > most) {
      if (given >= most || objective_.overlong == Overlong::kSkip) {
        ++corpus_.counts.overlong;
        return;
      }
      text.ids.resize(most);
      is_cut = true;
    }
  }
  corpus_.counts.cut += is_cut ? 1 : 0;
  out.push_back(std::move(sample));
}

const ChatTemplate& AnswerEncoder::form() {
  if (!form_) {
    check(data_.tokenizer.path.has_value(),
          "conversations need a tokenizer with a chat template: give data.tokenizer.path");
    form_.emplace(files_, *data_.tokenizer.path, corpus_.tokenizer);
    form_end_ = form_->end_of_turn();
  }
  return *form_;
}

}  // namespace mstrain
