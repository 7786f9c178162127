#include "core/data/windows.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace mstrain {
namespace {

std::vector<double> weights_of(const std::vector<WeightedStream>& streams) {
  std::vector<double> weights;
  for (const WeightedStream& stream : streams) {
    weights.push_back(stream.weight);
  }
  return weights;
}

// Fills tokens from [start, start + n) and targets from [start + 1, start + 1 + n).
void read_window(const TokenStream& stream, int64_t start, std::span<int32_t> tokens,
                 std::span<int32_t> targets) {
  stream.read(start, tokens);
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  stream.read(start + static_cast<int64_t>(tokens.size()), targets.last(1));
}

// How many first tokens a shuffled pass may have. Every pass has the same number of windows
// whichever it takes.
int64_t phases(int64_t tokens, int64_t seq_length) {
  return std::min(seq_length, tokens - seq_length);
}

// a * b / c without overflow, for a <= c.
int64_t scale(int64_t a, int64_t b, int64_t c) {
  __extension__ using Wide = __int128;
  return static_cast<int64_t>(Wide{a} * b / c);
}

}  // namespace

TrainingWindows::TrainingWindows(std::vector<WeightedStream> streams, const Options& options)
    : streams_(std::move(streams)), options_(options), blend_(weights_of(streams_)) {
  check(options.seq_length >= 1, "seq_length must be at least 1, not {}", options.seq_length);
  for (const WeightedStream& stream : streams_) {
    check(stream.tokens->size() > options.seq_length,
          "the training data have {} tokens, too few for one window: seq_length {} needs {}",
          stream.tokens->size(), options.seq_length, options.seq_length + 1);
  }
}

int64_t TrainingWindows::windows_per_epoch(int stream) const {
  const int64_t tokens = streams_[stream].tokens->size();
  const int64_t cut = options_.shuffle ? phases(tokens, options_.seq_length) : 1;
  return (tokens - cut) / options_.seq_length;
}

TrainingWindows::Place TrainingWindows::locate(int64_t sample) const {
  const Blend::Place place = blend_.locate(sample);
  const int64_t windows = windows_per_epoch(place.source);
  const int64_t epoch = place.index / windows;
  const int64_t window = place.index % windows;
  if (!options_.shuffle) {
    return {place.source, epoch, window * options_.seq_length};
  }
  const Permutation order(windows, options_.seed, random_stream("data.order", place.source), epoch);
  // Each epoch has 64 words of the stream; one draw takes two, and a biased one, once in 2^63 /
  // seq_length, two more.
  Rng rng(RngState{options_.seed, random_stream("data.phase", place.source),
                   64 * static_cast<uint64_t>(epoch)});
  const auto phase = static_cast<int64_t>(
      rng.below(phases(streams_[place.source].tokens->size(), options_.seq_length)));
  return {place.source, epoch, phase + order(window) * options_.seq_length};
}

void TrainingWindows::read(int64_t sample, std::span<int32_t> tokens,
                           std::span<int32_t> targets) const {
  const Place place = locate(sample);
  read_window(*streams_[place.stream].tokens, place.start, tokens, targets);
}

EvaluationWindows::EvaluationWindows(TokenStreamPtr stream, int64_t seq_length, int64_t max_samples)
    : stream_(std::move(stream)), seq_length_(seq_length) {
  check(seq_length >= 1, "seq_length must be at least 1, not {}", seq_length);
  check(stream_->size() >= 2, "the validation data have {} tokens; scoring one needs 2",
        stream_->size());
  windows_ = (stream_->size() - 2) / seq_length + 1;
  samples_ = max_samples < 0 ? windows_ : std::min(windows_, max_samples);
}

int64_t EvaluationWindows::start_of(int64_t sample) const {
  return scale(sample, windows_, samples_) * seq_length_;
}

int64_t EvaluationWindows::scored_tokens() const {
  if (samples_ == 0) {
    return 0;
  }
  const int64_t last = std::min(seq_length_, stream_->size() - 1 - start_of(samples_ - 1));
  return (samples_ - 1) * seq_length_ + last;
}

void EvaluationWindows::read(int64_t sample, std::span<int32_t> tokens,
                             std::span<int32_t> targets) const {
  check(sample >= 0, "there is no sample {}", sample);
  int64_t scored = 0;
  if (sample < samples_) {
    const int64_t start = start_of(sample);
    scored = std::min(seq_length_, stream_->size() - 1 - start);
    read_window(*stream_, start, tokens.first(scored), targets.first(scored));
  }
  std::fill(tokens.begin() + scored, tokens.end(), 0);
  std::fill(targets.begin() + scored, targets.end(), kIgnoreTarget);
}

}  // namespace mstrain
