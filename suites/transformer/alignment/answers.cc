#include "suites/transformer/alignment/answers.h"

#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/data/chat_template.h"
#include "core/data/corpus_sources.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/utf8.h"
#include "core/train/numbers.h"
#include "suites/transformer/alignment/answer_lines.h"

namespace mstrain {
namespace {

std::shared_ptr<const Tokenizer> make_tokenizer(FileSystem& files, const TokenizerConfig& config,
                                                const std::vector<AnswerLine>& lines,
                                                const std::string& end) {
  if (config.path) {
    return tokenizer_at(files, config);
  }
  if (config.type == TokenizerType::kByte) {
    return std::make_shared<ByteTokenizer>();
  }
  std::string all = end;
  for (const AnswerLine& line : lines) {
    all += line.prompt;
    for (const std::string& answer : line.answers) {
      all += answer;
    }
  }
  return std::make_shared<CharTokenizer>(CharTokenizer::of_text(all));
}

// Turns lines into samples, and counts what they lose.
class Encoder {
 public:
  Encoder(FileSystem& files, const DataConfig& data, const ObjectiveConfig& objective,
          AnswerCorpus& corpus)
      : files_(files), data_(data), objective_(objective), corpus_(corpus) {}

  void add(const AnswerLine& line, std::vector<AnswerSample>& out) {
    try {
      if (!line.messages.empty()) {
        add_turns(line.messages, out);
        return;
      }
      AnswerSample sample{.texts = {}, .is_wanted = line.is_wanted};
      const std::vector<int32_t> prompt = corpus_.tokenizer->encode_beginning(line.prompt);
      for (const std::string& answer : line.answers) {
        sample.texts.push_back(joined(prompt, corpus_.tokenizer->encode(answer), corpus_.end));
      }
      if (objective_.judges() && sample.texts.size() == 2) {  // each by itself
        add({.texts = {sample.texts[0]}, .is_wanted = true}, out);
        add({.texts = {sample.texts[1]}, .is_wanted = false}, out);
        return;
      }
      add(std::move(sample), out);
    } catch (const IoError&) {
      throw;
    } catch (const Error& error) {
      throw IoError(fmt::format("{}: {}", line.where, error.what()));
    }
  }

 private:
  static AnswerText joined(std::vector<int32_t> prompt, const std::vector<int32_t>& answer,
                           int32_t end) {
    const auto given = static_cast<int64_t>(prompt.size());
    prompt.insert(prompt.end(), answer.begin(), answer.end());
    if (!answer.empty()) {
      prompt.push_back(end);
    }
    return {std::move(prompt), given};
  }

  // Every answer of a conversation is a sample, with what was said before it as its prompt: what the model is given when it chats.
  void add_turns(const std::vector<ChatMessage>& messages, std::vector<AnswerSample>& out) {
    const ChatTemplate& form = this->form();
    const bool has_answer = std::ranges::any_of(
        messages, [](const ChatMessage& message) { return message.role == "assistant"; });
    corpus_.counts.empty += has_answer ? 0 : 1;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].role != "assistant") {
        continue;
      }
      const std::string& content = messages[i].content;
      add({{joined(form.tokens(std::span(messages).first(i)),
                   corpus_.tokenizer->encode(content, std::string(content.size(), 1)), chat_end_)}},
          out);
    }
  }

  void add(AnswerSample sample, std::vector<AnswerSample>& out) {
    // Where the last token is no target, it takes a place as well.
    const size_t most = static_cast<size_t>(data_.seq_length) + (objective_.scores() ? 0 : 1);
    bool is_cut = false;
    for (AnswerText& text : sample.texts) {
      const auto given = static_cast<size_t>(text.answer);
      // The first token of a text has nothing before it that it could be told from.
      if (text.ids.size() == given || text.ids.size() < 2 ||
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

  const ChatTemplate& form() {
    if (!form_) {
      check(data_.tokenizer.path.has_value(),
            "conversations need a tokenizer with a chat template: give data.tokenizer.path");
      form_.emplace(files_, *data_.tokenizer.path, corpus_.tokenizer);
      chat_end_ = form_->end_of_turn().value_or(corpus_.end);
    }
    return *form_;
  }

  FileSystem& files_;
  const DataConfig& data_;
  const ObjectiveConfig& objective_;
  AnswerCorpus& corpus_;
  std::optional<ChatTemplate> form_;
  int32_t chat_end_ = 0;
};

void tell(const AnswerCounts& counts) {
  const auto warn = [](int64_t count, const char* noun, const char* what) {
    if (count > 0) {
      log_warning("{} {}{} of data {}", grouped(count), noun, count == 1 ? "" : "s", what);
    }
  };
  warn(counts.malformed, "line", "cannot be read, and skipped (objective.malformed)");
  warn(counts.empty, "sample", "without an answer, skipped");
  warn(counts.cut, "sample", "longer than data.seq_length, whose answers are cut off");
  warn(counts.overlong, "sample", "longer than data.seq_length, skipped");
}

// Says why none of `lines` is a sample.
[[noreturn]] void refuse_lines(const ObjectiveConfig& objective, int64_t lines, int64_t empty,
                               int64_t overlong) {
  if (lines == 0) {
    throw IoError("there is no line; data.split says which share of the lines is trained on");
  }
  const std::string room = objective.is_rewarded()
                               ? fmt::format(" with the {} of {}.answer_tokens",
                                             objective.writing().answer_tokens, objective.section())
                               : "";
  throw IoError(fmt::format(
      "there is nothing to learn from: of {} {}, {} have no {}answer, and {} are longer than "
      "data.seq_length{}",
      grouped(lines), lines == 1 ? "line" : "lines", grouped(empty),
      objective.is_rewarded() ? "prompt or no " : "", grouped(overlong), room));
}

}  // namespace

std::span<const int32_t> AnswerText::prompt(std::span<const int32_t> before) const {
  const auto given = std::span(ids).first(static_cast<size_t>(answer));
  const bool begins = std::ranges::mismatch(before, given).in1 == before.end();
  return begins ? given.subspan(before.size()) : given;
}

int32_t end_token(const Tokenizer& tokenizer, const AutoOr<std::string>& end,
                  const YamlNode& tree) {
  if (end.is_word() && tokenizer.end_of_text()) {
    return *tokenizer.end_of_text();
  }
  const std::string text = end.value_or("\n");
  std::vector<int32_t> ids;
  try {
    ids = tokenizer.encode(text);
  } catch (const Error& error) {
    config_fail(tree, "objective.end", error.what());
  }
  if (ids.size() != 1) {
    config_fail(tree, "objective.end",
                fmt::format("{} is {} tokens of data.tokenizer; one is needed", Json(text).dump(),
                            ids.size()));
  }
  return ids[0];
}

AnswerCorpus open_answers(FileSystem& files, const DataConfig& data,
                          const ObjectiveConfig& objective,
                          std::shared_ptr<const Tokenizer> tokenizer, const YamlNode& tree) {
  check_data_config(data, tree);
  AnswerCorpus out;
  Hasher identity;
  const auto read = [&](const std::string& key, const std::vector<DataSource>& wanted) {
    return for_key(tree, key, [&] {
      for (const DataSource& source : wanted) {
        if (source.weight) {
          throw IoError(fmt::format("{}: weights are for texts, not for answers", source.path));
        }
      }
      const std::vector<CorpusSource> sources = find_sources(files, wanted, data.extensions);
      add_to_identity(identity, sources);
      return read_answer_lines(sources, objective, out.counts.malformed);
    });
  };
  std::vector<AnswerLine> lines = read("data.train", data.train);
  std::vector<std::pair<std::string, std::vector<AnswerLine>>> held_out;
  for (const ValidSet& set : data.valid.value_or(std::vector<ValidSet>())) {
    const std::string key = "data.valid" + (set.name.empty() ? "" : "." + set.name);
    held_out.emplace_back(set.name, read(key, set.sources));
    identity.add(set.name);
  }
  std::string end = objective.end.value_or("\n");
  out.tokenizer =
      tokenizer != nullptr ? std::move(tokenizer) : for_key(tree, "data.tokenizer", [&] {
        std::vector<AnswerLine> all = lines;
        for (const auto& set : held_out) {
          all.insert(all.end(), set.second.begin(), set.second.end());
        }
        return make_tokenizer(files, data.tokenizer, all, end);
      });
  out.end = end_token(*out.tokenizer, objective.end, tree);
  if (!data.valid && data.split < 1) {
    const auto cut = static_cast<ptrdiff_t>(static_cast<double>(lines.size()) * data.split);
    held_out.emplace_back("", std::vector<AnswerLine>(std::make_move_iterator(lines.begin() + cut),
                                                      std::make_move_iterator(lines.end())));
    lines.resize(static_cast<size_t>(cut));
  }
  Encoder encoder(files, data, objective, out);
  const auto encode = [&](const std::string& key, const std::vector<AnswerLine>& from) {
    return for_key(tree, key, [&] {
      std::vector<AnswerSample> samples;
      const AnswerCounts before = out.counts;
      for (const AnswerLine& line : from) {
        encoder.add(line, samples);
      }
      if (samples.empty()) {
        refuse_lines(objective, std::ssize(from), out.counts.empty - before.empty,
                     out.counts.overlong - before.overlong);
      }
      const auto is_wanted = [](const AnswerSample& sample) { return sample.is_wanted; };
      if (objective.judges() && (std::all_of(samples.begin(), samples.end(), is_wanted) ||
                                 std::none_of(samples.begin(), samples.end(), is_wanted))) {
        throw IoError(fmt::format("all answers are {}; kto needs both kinds",
                                  samples[0].is_wanted ? "wanted" : "unwanted"));
      }
      return samples;
    });
  };
  out.train = encode("data.train", lines);
  for (const auto& [name, of_set] : held_out) {
    const std::string key =
        !data.valid ? "data.split" : "data.valid" + (name.empty() ? "" : "." + name);
    out.valid.push_back({name, encode(key, of_set)});
  }
  tell(out.counts);
  log_info("answers end with {}, token {}",
           Json(replace_invalid_utf8(out.tokenizer->decode(std::span(&out.end, 1)))).dump(),
           out.end);
  for (const TokenizerFile& file : out.tokenizer->files()) {
    identity.add(file.bytes);
  }
  identity.add(data.split);
  identity.add(static_cast<int64_t>(out.end));
  out.identity = identity.finish();
  return out;
}

}  // namespace mstrain
