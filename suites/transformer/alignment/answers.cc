#include "suites/transformer/alignment/answers.h"

#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/data/corpus_sources.h"
#include "core/data/simple_tokenizers.h"
#include "core/data/utf8.h"
#include "core/train/numbers.h"
#include "suites/transformer/alignment/answer_encoder.h"
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

void tell(const AnswerCounts& counts, const ObjectiveConfig& objective,
          const std::string& first_alike) {
  const auto warn = [](int64_t count, const char* noun, const std::string& what) {
    if (count > 0) {
      log_warning("{} {}{} of data {}", grouped(count), noun, count == 1 ? "" : "s", what);
    }
  };
  warn(counts.malformed, "line", "cannot be read, and skipped (objective.malformed)");
  warn(counts.empty, "sample",
       objective.is_rewarded() ? "without a prompt or without an answer, skipped"
                               : "without an answer, skipped");
  warn(counts.cut, "sample", "longer than data.seq_length, whose answers are cut off");
  warn(counts.overlong, "sample",
       objective.is_rewarded()
           ? fmt::format("longer than data.seq_length with the {} of {}.answer_tokens, skipped",
                         objective.writing().answer_tokens, objective.section())
           : "longer than data.seq_length, skipped");
  warn(counts.alike, "pair",
       fmt::format("with the same answer twice, as far as there is room, first {}; nothing is "
                   "learnt of such",
                   first_alike));
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
  const char* const lacks = !objective.is_rewarded()    ? "answer"
                            : objective.reads_answers() ? "prompt or no answer"
                                                        : "prompt";
  throw IoError(
      fmt::format("there is nothing to learn from: of {} {}, {} have no {}, and {} are longer than "
                  "data.seq_length{}",
                  grouped(lines), lines == 1 ? "line" : "lines", grouped(empty), lacks,
                  grouped(overlong), room));
}

}  // namespace

std::span<const int32_t> AnswerText::prompt(std::span<const int32_t> before) const {
  const auto given = std::span(ids).first(static_cast<size_t>(answer));
  const bool begins = std::ranges::mismatch(before, given).in1 == before.end();
  return begins ? given.subspan(before.size()) : given;
}

void for_each_sample(const AnswerCorpus& corpus,
                     const std::function<void(const AnswerSample&)>& visit) {
  std::ranges::for_each(corpus.train, visit);
  for (const AnswerSet& set : corpus.valid) {
    std::ranges::for_each(set.samples, visit);
  }
}

AnswerLengths longest_of(const AnswerCorpus& corpus) {
  AnswerLengths out;
  for_each_sample(corpus, [&](const AnswerSample& sample) {
    for (const AnswerText& text : sample.texts) {
      out.prompt = std::max(out.prompt, text.answer);
      out.answer = std::max(out.answer, std::ssize(text.ids) - text.answer);
      out.text = std::max<int64_t>(out.text, std::ssize(text.ids));
    }
  });
  return out;
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
  AnswerEncoder encoder(files, data, objective, out);
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
  tell(out.counts, objective, encoder.first_alike());
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
