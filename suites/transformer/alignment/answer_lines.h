// The lines of files of answers, as they are written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/data/chat_template.h"
#include "core/data/corpus_sources.h"
#include "suites/transformer/alignment/objective_config.h"

namespace mstrain {

// A line as it was written.
struct AnswerLine {
  std::string where;  // file:line
  std::string prompt;
  std::vector<std::string> answers;  // of the prompt: one, or two
  std::optional<Conversation>
      conversation;  // in the place of the prompt; without answers and turns, all that was said
  std::vector<std::vector<ChatMessage>> turns;  // of the assistant, in the place of the answers
  bool is_wanted = true;
};

// Appends the lines of `sources` to what it gives back. As many as objective.malformed says are skipped where they cannot be read, and counted in
// `malformed`, over all calls. Of each file warns once of a key that nobody reads. Throws IoError with file and line for one more, and for a file that is no JSON lines.
std::vector<AnswerLine> read_answer_lines(const std::vector<CorpusSource>& sources,
                                          const ObjectiveConfig& objective, int64_t& malformed);

}  // namespace mstrain
