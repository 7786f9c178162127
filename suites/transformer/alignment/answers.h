// What a model is taught to answer, as ids in memory: read from JSON lines, with what is to be written apart from what is given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/hash.h"
#include "core/data/data_config.h"
#include "core/data/tokenizer.h"
#include "suites/transformer/alignment/objective_config.h"

namespace mstrain {

// A text whose tokens from `answer` on are to be written.
struct AnswerText {
  std::vector<int32_t> ids;
  int64_t answer = 0;

  bool has_answer() const { return std::ssize(ids) > answer; }
  // Without the token that ends it.
  std::span<const int32_t> wanted() const {
    return std::span(ids).subspan(static_cast<size_t>(answer),
                                  has_answer() ? ids.size() - static_cast<size_t>(answer) - 1 : 0);
  }
  // What stands before the answer, without the ids that a tokenizer has `before` a text: those of a chat begin as its template says.
  std::span<const int32_t> prompt(std::span<const int32_t> before) const;
};

// One answer; of a preference two: the better one first.
struct AnswerSample {
  std::vector<AnswerText> texts;
  bool is_wanted = true;  // what is said of an answer that is judged alone
};

struct AnswerSet {
  std::string name;  // of data.valid; empty where it is the only one
  std::vector<AnswerSample> samples;
};

// What became of the lines.
struct AnswerCounts {
  int64_t malformed = 0;  // skipped, see objective.malformed
  int64_t empty = 0;      // skipped: nothing is to be written
  int64_t cut = 0;        // the end of an answer is left out
  int64_t alike = 0;      // pairs whose answers are the same
  int64_t overlong = 0;   // skipped: by objective.overlong, or since the prompt alone is too long
};

struct AnswerCorpus {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<AnswerSample> train;
  std::vector<AnswerSet> valid;  // none where nothing is held out
  AnswerCounts counts;
  int32_t end =
      0;  // the token after an answer; of conversations that are to be answered, that of their template
  Hash128 identity;  // as a Corpus'
};

// The lines of data.train, and data.valid or what data.split holds out: the last ones of all files together. Every text has at most
// data.seq_length + 1 tokens. Samples are drawn from all sources alike: weights are refused. A char tokenizer without a file is made
// of all texts. `tokenizer`: as for open_corpus(). Throws IoError naming the key and file:line: what is no object with the keys
// that the objective asks for, text of characters that the tokenizer has not, and what a chat template refuses.
AnswerCorpus open_answers(FileSystem& files, const DataConfig& data,
                          const ObjectiveConfig& objective,
                          std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                          const YamlNode& tree = YamlNode());

// `visit` is called with every sample, and those that are held out.
void for_each_sample(const AnswerCorpus& corpus,
                     const std::function<void(const AnswerSample&)>& visit);

// The most ids that a prompt, an answer, and both together have.
struct AnswerLengths {
  int64_t prompt = 0;
  int64_t answer = 0;
  int64_t text = 0;
};
AnswerLengths longest_of(const AnswerCorpus& corpus);

// The token of objective.end. Throws ConfigError, with the line in `tree`, where it is not one token.
int32_t end_token(const Tokenizer& tokenizer, const AutoOr<std::string>& end,
                  const YamlNode& tree = YamlNode());

}  // namespace mstrain
