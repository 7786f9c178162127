// What continues or answers texts: a model with its tokenizer.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/params.h"
#include "suites/run/beam_search.h"
#include "suites/run/sampling.h"

namespace mstrain {

struct WriteOptions {
  int64_t tokens = 0;  // at most
  SamplingOptions sampling;
  std::vector<int32_t> stop;  // a text ends before any of these
  BeamOptions beams = {};     // more than one: instead of sampling
  // So many texts are written at a time, by what can: others wait until some have ended. None: all.
  std::optional<int64_t> at_once = {};
};

// One thread at a time.
class TextWriter {
 public:
  using OnText = std::function<void(size_t row, std::string_view piece)>;

  virtual ~TextWriter() = default;

  // What follows each of `prompts`, as bytes; an empty prompt stands for a line's end. `on_text` gets each piece as it
  // comes. Runs in the current context. Throws Error where a prompt has characters that the tokenizer does not know.
  virtual std::vector<std::string> generate(const Params& params,
                                            std::span<const std::string> prompts,
                                            const WriteOptions& options,
                                            const OnText& on_text = nullptr) = 0;

  // The longest conversation that reply() takes, in tokens, and what generate() sees at a time; 0: it answers none, and sees all.
  virtual int64_t conversation_tokens() const { return 0; }
  // What follows the tokens of a conversation, of which there is at least one, as the bytes of a text of its own. What
  // a conversation has in common with the last one and its reply is not computed again. It ends before
  // conversation_tokens() are exceeded.
  virtual std::string reply(const Params& params, std::span<const int32_t> conversation,
                            const WriteOptions& options, const OnText& on_text);

  // How many of the texts that were written last have as many tokens as there may be, and so have not come to an end.
  int64_t cut() const { return cut_; }
  // Of the texts that were written last, and for which the model's positions did not suffice, so that the older tokens were
  // forgotten: how many tokens the longest has with its prompt. 0: of none.
  int64_t outgrown() const { return outgrown_; }

  // Whether it takes more than one beam.
  virtual bool searches_beams() const { return false; }
  // What stands between a prompt and its text, for people.
  virtual std::string_view separator() const { return ""; }

 protected:
  // Of texts of tokens, of which there may be `most`.
  void count_cut(std::span<const std::vector<int32_t>> texts, int64_t most);
  int64_t cut_ = 0;
  int64_t outgrown_ = 0;
};

// Says in a line of the log that texts were cut, where some token would have ended them.
void tell_cut(const TextWriter& writer, size_t texts, const WriteOptions& options);

// Warns of texts that outgrew the positions of the model.
void warn_of_outgrown(const TextWriter& writer);

// A prompt and what was written after it, for people.
void print_sample(std::FILE* out, const std::string& prompt, const std::string& text);

}  // namespace mstrain
