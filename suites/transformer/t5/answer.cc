#include "suites/transformer/t5/answer.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace mstrain::t5 {
namespace {

using Ids = std::vector<int32_t>;
using OnToken = std::function<void(size_t row, int32_t id)>;

bool contains(const Ids& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// The logits of ids below `known` alone, row by row.
std::vector<float> known_logits(std::vector<float> logits, size_t rows, size_t known) {
  const size_t vocab = logits.size() / rows;
  if (known == vocab) {
    return logits;
  }
  std::vector<float> out;
  for (size_t row = 0; row < rows; ++row) {
    const auto begin = logits.begin() + static_cast<ptrdiff_t>(row * vocab);
    out.insert(out.end(), begin, begin + static_cast<ptrdiff_t>(known));
  }
  return out;
}

// Every row goes on until all have ended.
std::vector<Ids> sampled(Decoder& decoder, const Params& params, std::span<const Ids> sources,
                         const WriteOptions& options, const Ids& stop, size_t known,
                         const OnToken& on_token) {
  const size_t rows = sources.size();
  std::vector<Ids> out(rows);
  std::vector<bool> has_ended(rows, false);
  std::vector<Rng> draws;
  for (size_t row = 0; row < rows; ++row) {
    draws.emplace_back(options.sampling.seed, hash_bytes("sampling").lo + row);
  }
  decoder.start(params, sources, 1, options.tokens);
  Ids last(rows, static_cast<int32_t>(*decoder.config().decoder_start_token.value));
  for (int64_t step = 0; step < options.tokens; ++step) {
    const std::vector<float> logits = known_logits(decoder.next(params, last), rows, known);
    for (size_t row = 0; row < rows; ++row) {
      last[row] = static_cast<int32_t>(choose_token(std::span(logits).subspan(row * known, known),
                                                    options.sampling, draws[row]));
      has_ended[row] = has_ended[row] || contains(stop, last[row]);
      if (has_ended[row]) {
        continue;
      }
      out[row].push_back(last[row]);
      if (on_token) {
        on_token(row, last[row]);
      }
    }
    if (std::find(has_ended.begin(), has_ended.end(), false) == has_ended.end()) {
      break;
    }
  }
  return out;
}

// The rows of a text are its beams; searches that are done go on unseen as long as another one does.
std::vector<Ids> searched(Decoder& decoder, const Params& params, std::span<const Ids> sources,
                          const WriteOptions& options, const Ids& stop, int64_t known) {
  const auto beams = static_cast<size_t>(options.beams.beams);
  std::vector<BeamSearch> searches(sources.size(), BeamSearch(options.beams, options.tokens, stop));
  decoder.start(params, sources, options.beams.beams, options.tokens);
  const size_t rows = sources.size() * beams;
  Ids last(rows, static_cast<int32_t>(*decoder.config().decoder_start_token.value));
  Ids from(rows);
  for (int64_t step = 0; step < options.tokens; ++step) {
    const std::vector<float> logits =
        step == 0 ? decoder.next(params, last) : decoder.next_from(params, last, from);
    const size_t vocab = logits.size() / rows;
    bool goes_on = false;
    for (size_t text = 0; text < searches.size(); ++text) {
      BeamSearch& search = searches[text];
      const size_t first = text * beams;
      if (!search.is_done()) {
        search.advance(std::span(logits).subspan(first * vocab, beams * vocab), known);
      }
      if (search.is_done()) {
        for (size_t beam = 0; beam < beams; ++beam) {
          from[first + beam] = static_cast<int32_t>(first + beam);
        }
        continue;
      }
      goes_on = true;
      for (size_t beam = 0; beam < beams; ++beam) {
        last[first + beam] = search.tokens()[beam];
        from[first + beam] = static_cast<int32_t>(first) + search.from()[beam];
      }
    }
    if (!goes_on) {
      break;
    }
  }
  std::vector<Ids> out;
  for (const BeamSearch& search : searches) {
    out.push_back(search.best());
  }
  return out;
}

}  // namespace

std::vector<Ids> answer_tokens(Decoder& decoder, const Params& params, std::span<const Ids> sources,
                               const WriteOptions& options, int64_t known,
                               const OnToken& on_token) {
  check_sampling(options.sampling);
  check_beams(options.beams);
  Ids stop = options.stop;
  if (const auto end = static_cast<int32_t>(*decoder.config().eos_token.value);
      !contains(stop, end)) {
    stop.push_back(end);
  }
  const int64_t ids = std::min(known, *decoder.config().vocab_size.value);
  if (options.beams.beams == 1) {
    return sampled(decoder, params, sources, options, stop, static_cast<size_t>(ids), on_token);
  }
  std::vector<Ids> out = searched(decoder, params, sources, options, stop, ids);
  if (on_token) {
    for (size_t row = 0; row < out.size(); ++row) {
      for (const int32_t id : out[row]) {
        on_token(row, id);
      }
    }
  }
  return out;
}

Answerer::Answerer(T5 model, std::shared_ptr<const Tokenizer> tokenizer, Execution execution)
    : decoder_(std::move(model), execution), tokenizer_(std::move(tokenizer)) {}

std::vector<std::string> Answerer::generate(const Params& params,
                                            std::span<const std::string> prompts,
                                            const WriteOptions& options, const OnText& on_text) {
  const Seq2SeqVocabulary vocabulary(tokenizer_, decoder_.config().tokens());
  std::vector<Ids> sources;
  for (const std::string& prompt : prompts) {
    sources.push_back(vocabulary.encode(prompt));
    sources.back().push_back(static_cast<int32_t>(*decoder_.config().eos_token.value));
  }
  std::vector<std::string> texts(prompts.size());
  std::vector<bool> is_begun(prompts.size(), false);
  // A model may have more logits than its vocabulary has tokens.
  const std::vector<Ids> written = answer_tokens(
      decoder_, params, sources, options, vocabulary.size(), [&](size_t row, int32_t id) {
        const std::string piece = vocabulary.piece(id, !is_begun[row]);
        is_begun[row] = true;
        texts[row] += piece;
        if (on_text != nullptr) {
          on_text(row, piece);
        }
      });
  count_cut(written, options.tokens);
  return texts;
}

}  // namespace mstrain::t5
