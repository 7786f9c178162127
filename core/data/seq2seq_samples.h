// Samples of models that read one text and write another: rows of a source and a target, made of windows of a corpus by span
// corruption, or of pairs. Sample i is a pure function of the data, the options and i, so any thread may make any sample.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/data/pairs.h"
#include "core/data/shuffle.h"
#include "core/data/span_corruption.h"
#include "core/data/windows.h"

namespace mstrain {

// How rows are filled, which says what a batch holds besides tokens.
enum class Rows {
  kFull,    // one sample fills a row
  kPadded,  // one sample, then padding: source_segments is 1 where there are tokens, else 0
  kPacked   // several samples, then padding: tokens have the number of their sample, from 1
};

// The parts of one row. What `kind` does not hold is empty.
struct Seq2SeqRow {
  std::span<int32_t> source, source_segments;
  std::span<int32_t>
      target;  // what the decoder reads: a start token, and the labels one position ahead
  std::span<int32_t> labels;  // kIgnoreTarget in padding
  std::span<int32_t> target_segments;
};

// Ids that stand for no text.
struct RowTokens {
  int32_t pad = 0, start = 0, end = 0;
};

class Seq2SeqSource {
 public:
  virtual ~Seq2SeqSource() = default;
  virtual Rows rows() const = 0;
  virtual int64_t source_length() const = 0;
  virtual int64_t target_length() const = 0;
  virtual void read(int64_t sample, const Seq2SeqRow& row) const = 0;
};

// Windows of a corpus; packed ones have all the same lengths, and fill their rows. Windows where nothing is scored give an
// empty row.
class CorruptedWindows final : public Seq2SeqSource {
 public:
  // `windows` are of corruption.longest().text tokens. `seed`: of what is cut out of them.
  CorruptedWindows(std::shared_ptr<const WindowSource> windows, const SpanCorruption& corruption,
                   std::shared_ptr<const Seq2SeqVocabulary> vocabulary, const RowTokens& tokens,
                   bool packing, uint64_t seed);

  Rows rows() const override { return packing_ ? Rows::kFull : Rows::kPadded; }
  int64_t source_length() const override { return corruption_.longest().source(); }
  int64_t target_length() const override { return corruption_.longest().target(); }
  void read(int64_t sample, const Seq2SeqRow& row) const override;

 private:
  std::shared_ptr<const WindowSource> windows_;
  SpanCorruption corruption_;
  std::shared_ptr<const Seq2SeqVocabulary> vocabulary_;
  RowTokens tokens_;
  bool packing_;
  uint64_t seed_;
};

// A text in windows of one length that follow each other; the last one ends with the text. For evaluation; samples from
// samples() on score nothing.
class WholeWindows final : public WindowSource {
 public:
  // Throws Error where the text is shorter than a window.
  WholeWindows(TokenStreamPtr stream, int64_t length);

  int64_t samples() const { return (stream_->size() + length_ - 1) / length_; }
  int64_t seq_length() const override { return length_; }
  void read(int64_t sample, std::span<int32_t> tokens, std::span<int32_t> targets) const override;

 private:
  TokenStreamPtr stream_;
  int64_t length_;
};

// Pairs in rows of given lengths: one a row, or as many pairs that follow each other as fit. Texts are cut to their part of
// a row, less an end.
class PairRows {
 public:
  PairRows(std::shared_ptr<const Pairs> pairs, int64_t source_length, int64_t target_length,
           bool packing);

  int64_t count() const { return static_cast<int64_t>(first_.size()) - 1; }
  int64_t source_length() const { return source_length_; }
  int64_t target_length() const { return target_length_; }
  Rows rows() const { return packing_ ? Rows::kPacked : Rows::kPadded; }
  // Pairs of which something is cut off.
  int64_t cut() const { return cut_; }
  void read(int64_t index, const RowTokens& tokens, const Seq2SeqRow& row) const;

 private:
  std::shared_ptr<const Pairs> pairs_;
  int64_t source_length_, target_length_;
  bool packing_;
  int64_t cut_ = 0;
  std::vector<int64_t> first_;  // pair of each row, and the number of pairs
};

struct WeightedRows {
  std::shared_ptr<const PairRows> rows;
  double weight = 1;
};

// An endless sequence: every row of a source once in each pass, in a new order where they are shuffled. Sources are blended
// by weight.
class TrainingPairs final : public Seq2SeqSource {
 public:
  TrainingPairs(std::vector<WeightedRows> sources, const RowTokens& tokens, bool shuffle,
                uint64_t seed);

  Rows rows() const override { return sources_[0].rows->rows(); }
  int64_t source_length() const override { return sources_[0].rows->source_length(); }
  int64_t target_length() const override { return sources_[0].rows->target_length(); }
  void read(int64_t sample, const Seq2SeqRow& row) const override;

 private:
  std::vector<WeightedRows> sources_;
  RowTokens tokens_;
  bool shuffle_;
  uint64_t seed_;
  Blend blend_;
};

// The first `samples` of a source; those after them are empty rows.
class FirstSamples final : public Seq2SeqSource {
 public:
  FirstSamples(std::shared_ptr<const Seq2SeqSource> all, const RowTokens& tokens, int64_t samples)
      : all_(std::move(all)), tokens_(tokens), samples_(samples) {}

  Rows rows() const override { return all_->rows(); }
  int64_t source_length() const override { return all_->source_length(); }
  int64_t target_length() const override { return all_->target_length(); }
  void read(int64_t sample, const Seq2SeqRow& row) const override;

 private:
  std::shared_ptr<const Seq2SeqSource> all_;
  RowTokens tokens_;
  int64_t samples_;
};

}  // namespace mstrain
