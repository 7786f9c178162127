#include "suites/transformer/alignment/answers.h"

#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/data/chat_template.h"
#include "core/data/corpus_sources.h"
#include "core/data/documents.h"
#include "core/data/simple_tokenizers.h"
#include "core/train/numbers.h"

namespace mstrain {
namespace {

// A line as it was written.
struct AnswerLine {
  std::string where;  // file:line
  std::string prompt;
  std::vector<std::string> answers;   // of the prompt: one, or two
  std::vector<ChatMessage> messages;  // instead
};

std::string text_at(const Json& json, const char* key, const std::string& where) {
  if (!json.is_object() || !json.contains(key)) {
    throw IoError(fmt::format("{}: expected a JSON object with `{}`", where, key));
  }
  if (!json[key].is_string()) {
    throw IoError(fmt::format("{}: `{}` is no string", where, key));
  }
  return json[key].get<std::string>();
}

std::vector<ChatMessage> messages_at(const Json& json, const std::string& where) {
  std::vector<ChatMessage> out;
  const Json& list = json["messages"];
  if (!list.is_array() || list.empty()) {
    throw IoError(
        fmt::format("{}: `messages` is no list of {{\"role\": …, \"content\": …}}", where));
  }
  for (const Json& each : list) {
    out.push_back({text_at(each, "role", where), text_at(each, "content", where)});
  }
  return out;
}

AnswerLine read_line(const JsonLines::Line& line, const std::string& path,
                     const ObjectiveConfig& objective) {
  const bool prefers = objective.prefers();
  AnswerLine out{.where = fmt::format("{}:{}", path, line.number)};
  const Json json = parse_json(line.text, out.where);
  if (!prefers && !objective.is_rewarded() && json.is_object() && json.contains("messages")) {
    out.messages = messages_at(json, out.where);
    return out;
  }
  out.prompt = text_at(json, "prompt", out.where);
  if (prefers) {
    out.answers = {text_at(json, "chosen", out.where), text_at(json, "rejected", out.where)};
  } else {
    out.answers = {text_at(
        json,
        objective.is_rewarded() && !(json.is_object() && json.contains("response")) ? "answer"
                                                                                    : "response",
        out.where)};
  }
  return out;
}

// Reads lines, and forgives so many that are malformed.
class LineReader {
 public:
  LineReader(const ObjectiveConfig& objective, AnswerCounts& counts)
      : objective_(objective), counts_(counts) {}

  std::vector<AnswerLine> read(const std::vector<CorpusSource>& sources) {
    std::vector<AnswerLine> out;
    for (const CorpusSource& source : sources) {
      for (const SourceFile& file : source.files) {
        read(file.path, out);
      }
    }
    return out;
  }

 private:
  void read(const std::string& path, std::vector<AnswerLine>& out) {
    if (!is_json_lines(path)) {
      throw IoError(fmt::format("{}: expected JSON lines (.jsonl) of {}", path,
                                objective_.prefers()
                                    ? "{\"prompt\": …, \"chosen\": …, \"rejected\": …}"
                                    : "{\"prompt\": …, \"response\": …}"));
    }
    JsonLines lines(path);
    JsonLines::Line line;
    while (lines.next(line)) {
      try {
        out.push_back(read_line(line, path, objective_));
      } catch (const IoError& error) {
        if (counts_.malformed >= objective_.malformed) {
          throw IoError(
              fmt::format("{}{}", error.what(),
                          objective_.malformed == 0
                              ? "; objective.malformed says how many such lines are skipped"
                              : fmt::format("; {} such lines were skipped before it, as "
                                            "objective.malformed allows",
                                            counts_.malformed)));
        }
        ++counts_.malformed;
      }
    }
  }

  const ObjectiveConfig& objective_;
  AnswerCounts& counts_;
};

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
      AnswerSample sample;
      const std::vector<int32_t> prompt = corpus_.tokenizer->encode(line.prompt);
      for (const std::string& answer : line.answers) {
        sample.texts.push_back(joined(prompt, corpus_.tokenizer->encode(answer), corpus_.end));
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
    const auto most = static_cast<size_t>(data_.seq_length) + 1;
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
           given + static_cast<size_t>(objective_.grpo.answer_tokens) > most)) {
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

int32_t end_token(const Tokenizer& tokenizer, const ObjectiveConfig& objective,
                  const YamlNode& tree) {
  if (objective.end.is_word() && tokenizer.end_of_text()) {
    return *tokenizer.end_of_text();
  }
  const std::string text = objective.end.value_or("\n");
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

void tell(const AnswerCounts& counts) {
  const auto warn = [](int64_t count, const char* what) {
    if (count > 0) {
      log_warning("{} {} of data {}", grouped(count), count == 1 ? "line" : "lines", what);
    }
  };
  warn(counts.malformed, "cannot be read, and skipped (objective.malformed)");
  warn(counts.empty, "without an answer, skipped");
  warn(counts.cut, "longer than data.seq_length, whose answers are cut off");
  warn(counts.overlong, "longer than data.seq_length, skipped");
}

}  // namespace

AnswerCorpus open_answers(FileSystem& files, const DataConfig& data,
                          const ObjectiveConfig& objective,
                          std::shared_ptr<const Tokenizer> tokenizer, const YamlNode& tree) {
  check_data_config(data, tree);
  AnswerCorpus out;
  Hasher identity;
  LineReader reader(objective, out.counts);
  const auto read = [&](const std::string& key, const std::vector<DataSource>& wanted) {
    return for_key(tree, key, [&] {
      for (const DataSource& source : wanted) {
        if (source.weight) {
          throw IoError(fmt::format("{}: weights are for texts, not for answers", source.path));
        }
      }
      const std::vector<CorpusSource> sources = find_sources(files, wanted, data.extensions);
      add_to_identity(identity, sources);
      return reader.read(sources);
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
  out.end = end_token(*out.tokenizer, objective, tree);
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
      for (const AnswerLine& line : from) {
        encoder.add(line, samples);
      }
      if (samples.empty()) {
        throw IoError("there is no line with an answer that fits into data.seq_length");
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
  for (const TokenizerFile& file : out.tokenizer->files()) {
    identity.add(file.bytes);
  }
  identity.add(data.split);
  identity.add(static_cast<int64_t>(out.end));
  out.identity = identity.finish();
  return out;
}

}  // namespace mstrain
