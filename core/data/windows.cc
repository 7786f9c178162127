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

// Fills the first `scored` positions; the rest are empty.
void read_padded(const TokenStream& stream, const DocumentWindows::Window& window,
                 std::span<int32_t> tokens, std::span<int32_t> targets) {
  const auto scored = static_cast<size_t>(window.scored);
  if (scored > 0) {
    read_window(stream, window.start, tokens.first(scored), targets.first(scored));
  }
  std::fill(tokens.begin() + window.scored, tokens.end(), 0);
  std::fill(targets.begin() + window.scored, targets.end(), kIgnoreTarget);
}

}  // namespace

DocumentWindows::DocumentWindows(std::vector<int64_t> document_ends, int64_t seq_length)
    : ends_(std::move(document_ends)), seq_length_(seq_length) {
  check(seq_length >= 1, "seq_length must be at least 1, not {}", seq_length);
  int64_t begin = 0;
  for (const int64_t end : ends_) {
    windows_.push_back(count() +
                       std::max<int64_t>(0, end - begin - 1 + seq_length - 1) / seq_length);
    begin = end;
  }
}

DocumentWindows::Window DocumentWindows::operator[](int64_t index) const {
  const auto document =
      std::upper_bound(windows_.begin(), windows_.end(), index) - windows_.begin();
  const int64_t begin = document == 0 ? 0 : ends_[document - 1];
  const int64_t start =
      begin + (index - (document == 0 ? 0 : windows_[document - 1])) * seq_length_;
  return {start, std::min(seq_length_, ends_[document] - 1 - start)};
}

int64_t DocumentWindows::scored() const {
  int64_t sum = 0;
  int64_t begin = 0;
  for (const int64_t end : ends_) {
    sum += std::max<int64_t>(0, end - begin - 1);
    begin = end;
  }
  return sum;
}

TrainingWindows::TrainingWindows(std::vector<WeightedStream> streams, const Options& options)
    : streams_(std::move(streams)), options_(options), blend_(weights_of(streams_)) {
  check(options.seq_length >= 1, "seq_length must be at least 1, not {}", options.seq_length);
  for (const WeightedStream& stream : streams_) {
    check(stream.tokens->size() > options.seq_length,
          "the training data have {} tokens, too few for one window: seq_length {} needs {}",
          stream.tokens->size(), options.seq_length, options.seq_length + 1);
    if (!options.packing) {
      documents_.emplace_back(stream.tokens->document_ends(), options.seq_length);
      check(documents_.back().count() > 0,
            "the training data have no document of two tokens; turn data.packing on");
    }
  }
}

int64_t TrainingWindows::windows_per_epoch(int stream) const {
  if (!options_.packing) {
    return documents_[stream].count();
  }
  const int64_t tokens = streams_[stream].tokens->size();
  const int64_t cut = options_.shuffle ? phases(tokens, options_.seq_length) : 1;
  return (tokens - cut) / options_.seq_length;
}

TrainingWindows::Place TrainingWindows::locate(int64_t sample) const {
  const Blend::Place place = blend_.locate(sample);
  const int64_t windows = windows_per_epoch(place.source);
  const int64_t epoch = place.index / windows;
  const int64_t window = place.index % windows;
  if (!options_.shuffle && options_.packing) {
    return {place.source, epoch, window * options_.seq_length, options_.seq_length};
  }
  const auto shuffled = [&] {
    return Permutation(windows, options_.seed, random_stream("data.order", place.source),
                       epoch)(window);
  };
  if (!options_.packing) {
    const DocumentWindows::Window found =
        documents_[place.source][options_.shuffle ? shuffled() : window];
    return {place.source, epoch, found.start, found.scored};
  }
  // Each epoch has 64 words of the stream; one draw takes two, and a biased one, once in 2^63 /
  // seq_length, two more.
  Rng rng(RngState{options_.seed, random_stream("data.phase", place.source),
                   64 * static_cast<uint64_t>(epoch)});
  const auto phase = static_cast<int64_t>(
      rng.below(phases(streams_[place.source].tokens->size(), options_.seq_length)));
  return {place.source, epoch, phase + shuffled() * options_.seq_length, options_.seq_length};
}

void TrainingWindows::read(int64_t sample, std::span<int32_t> tokens,
                           std::span<int32_t> targets) const {
  const Place place = locate(sample);
  read_padded(*streams_[place.stream].tokens, {place.start, place.scored}, tokens, targets);
}

EvaluationWindows::EvaluationWindows(TokenStreamPtr stream, int64_t seq_length, int64_t max_samples,
                                     bool packing)
    : stream_(std::move(stream)),
      seq_length_(seq_length),
      windows_(packing ? std::vector<int64_t>{stream_->size()} : stream_->document_ends(),
               seq_length) {
  check(windows_.count() > 0, "the validation data have {} tokens; scoring one needs 2 {}",
        stream_->size(), packing ? "of them" : "in one document");
  samples_ = max_samples < 0 ? windows_.count() : std::min(windows_.count(), max_samples);
}

DocumentWindows::Window EvaluationWindows::window_of(int64_t sample) const {
  return windows_[scale(sample, windows_.count(), samples_)];
}

int64_t EvaluationWindows::scored_tokens() const {
  if (samples_ == windows_.count()) {
    return windows_.scored();
  }
  int64_t sum = 0;
  for (int64_t sample = 0; sample < samples_; ++sample) {
    sum += window_of(sample).scored;
  }
  return sum;
}

void EvaluationWindows::read(int64_t sample, std::span<int32_t> tokens,
                             std::span<int32_t> targets) const {
  check(sample >= 0, "there is no sample {}", sample);
  read_padded(*stream_, sample < samples_ ? window_of(sample) : DocumentWindows::Window{}, tokens,
              targets);
}

}  // namespace mstrain
