// Samples of causal language modelling: windows of seq_length tokens with the token after each as
// its target.
//
// Sample i is a pure function of the data, the options and i, so any thread may make any sample in
// any order and the position of a run is the number of samples taken. Packed windows cross the ends
// of documents and files; without packing each lies in one document, and positions after its end
// have token 0 and target kIgnoreTarget.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/shuffle.h"
#include "core/data/token_stream.h"

namespace mstrain {

inline constexpr int32_t kIgnoreTarget = -100;  // a target that cross_entropy() does not score

class WindowSource {
 public:
  virtual ~WindowSource() = default;
  virtual int64_t seq_length() const = 0;

  // Both spans have seq_length() elements. Throws IoError from the streams.
  virtual void read(int64_t sample, std::span<int32_t> tokens,
                    std::span<int32_t> targets) const = 0;
};

// Windows of seq_length tokens that follow each other within each document, from its first token
// on: where packing is off. A document of n tokens has (n - 1) / seq_length windows, rounded up.
class DocumentWindows {
 public:
  DocumentWindows(std::vector<int64_t> document_ends, int64_t seq_length);

  struct Window {
    int64_t start = 0;
    int64_t scored = 0;  // tokens that have a next one in the document, at most seq_length
  };
  int64_t count() const { return windows_.empty() ? 0 : windows_.back(); }
  int64_t scored() const;                  // of all windows
  Window operator[](int64_t index) const;  // 0 <= index < count()

 private:
  std::vector<int64_t> ends_;     // of documents
  std::vector<int64_t> windows_;  // up to each document's last
  int64_t seq_length_;
};

struct WeightedStream {
  TokenStreamPtr tokens;
  double weight = 1;
};

// An endless sequence of samples, pass (epoch) after pass.
//
// A pass over a stream of n tokens cuts it into windows that follow each other and visits each
// exactly once: shuffled, in a new order and from a new first token (below seq_length) in every
// pass, so that windows fall differently each time; otherwise in order from token 0. Unlike
// independent random starts this shows all of the text in each pass (but less than 2 seq_length
// tokens at its ends), and a pass has an end to speak of. Streams are blended by weight.
class TrainingWindows final : public WindowSource {
 public:
  struct Options {
    int64_t seq_length = 0;
    bool shuffle = true;
    uint64_t seed = 0;
    bool packing = true;  // false: windows always begin where DocumentWindows says
  };
  struct Place {
    int stream = 0;
    int64_t epoch = 0;
    int64_t start = 0;   // of the first token
    int64_t scored = 0;  // tokens that have a target
  };

  // Throws Error where a stream is shorter than seq_length + 1, or without packing has no document
  // of two tokens.
  TrainingWindows(std::vector<WeightedStream> streams, const Options& options);

  int64_t seq_length() const override { return options_.seq_length; }
  void read(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> targets) const override;

  Place locate(int64_t sample) const;
  int64_t windows_per_epoch(int stream) const;

 private:
  std::vector<WeightedStream> streams_;
  std::vector<DocumentWindows> documents_;  // without packing, for each stream
  Options options_;
  Blend blend_;
};

// Every token of a stream but the first is scored exactly once, in windows that follow each other;
// positions after the end have token 0 and target kIgnoreTarget, and so has every sample from
// samples() on (to fill the last batch).
class EvaluationWindows final : public WindowSource {
 public:
  // At most `max_samples` windows, evenly spaced over the stream; negative: all. Without packing the
  // first token of each document is not scored. Throws Error where nothing can be scored.
  EvaluationWindows(TokenStreamPtr stream, int64_t seq_length, int64_t max_samples = -1,
                    bool packing = true);

  int64_t seq_length() const override { return seq_length_; }
  int64_t samples() const { return samples_; }
  int64_t scored_tokens() const;
  void read(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> targets) const override;

 private:
  DocumentWindows::Window window_of(int64_t sample) const;

  TokenStreamPtr stream_;
  int64_t seq_length_;
  DocumentWindows windows_;  // packed, the stream is one document
  int64_t samples_;
};

}  // namespace mstrain
