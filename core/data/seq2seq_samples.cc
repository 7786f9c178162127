#include "core/data/seq2seq_samples.h"

#include <algorithm>

#include "core/base/error.h"

namespace mstrain {
namespace {

void fill(std::span<int32_t> part, int32_t value) { std::fill(part.begin(), part.end(), value); }

void clear(const Seq2SeqRow& row, int32_t pad) {
  fill(row.source, pad);
  fill(row.source_segments, 0);
  fill(row.target, pad);
  fill(row.labels, kIgnoreTarget);
  fill(row.target_segments, 0);
}

void mark(std::span<int32_t> segments, size_t begin, size_t count, int32_t segment) {
  if (!segments.empty()) {
    fill(segments.subspan(begin, count), segment);
  }
}

// Labels stand in their place already.
void shift_labels(const Seq2SeqRow& row, size_t begin, size_t count, int32_t start) {
  row.target[begin] = start;
  std::copy_n(row.labels.begin() + static_cast<ptrdiff_t>(begin), count - 1,
              row.target.begin() + static_cast<ptrdiff_t>(begin) + 1);
}

std::vector<double> weights_of(const std::vector<WeightedRows>& sources) {
  std::vector<double> weights;
  for (const WeightedRows& source : sources) {
    weights.push_back(source.weight);
  }
  return weights;
}

}  // namespace

CorruptedWindows::CorruptedWindows(std::shared_ptr<const WindowSource> windows,
                                   const SpanCorruption& corruption,
                                   std::shared_ptr<const Seq2SeqVocabulary> vocabulary,
                                   const RowTokens& tokens, bool packing, uint64_t seed)
    : windows_(std::move(windows)),
      corruption_(corruption),
      vocabulary_(std::move(vocabulary)),
      tokens_(tokens),
      packing_(packing),
      seed_(seed) {
  check(windows_->seq_length() == corruption_.longest().text, "windows of {} tokens, expected {}",
        windows_->seq_length(), corruption_.longest().text);
}

void CorruptedWindows::read(int64_t sample, const Seq2SeqRow& row) const {
  clear(row, tokens_.pad);
  std::vector<int32_t> text(static_cast<size_t>(windows_->seq_length()));
  std::vector<int32_t> following(text.size());
  windows_->read(sample, text, following);
  const auto scored = static_cast<size_t>(
      std::find(following.begin(), following.end(), kIgnoreTarget) - following.begin());
  if (scored == 0) {
    return;
  }
  const SpanCorruption::Sizes sizes = corruption_.sizes_of(static_cast<int64_t>(scored));
  const auto source = static_cast<size_t>(sizes.source());
  const auto target = static_cast<size_t>(sizes.target());
  Rng rng(seed_, random_stream("data.spans", sample));
  corruption_.corrupt(std::span(text).first(scored), *vocabulary_, rng, row.source.first(source),
                      row.labels.first(target));
  mark(row.source_segments, 0, source, 1);
  shift_labels(row, 0, target, tokens_.start);
}

WholeWindows::WholeWindows(TokenStreamPtr stream, int64_t length)
    : stream_(std::move(stream)), length_(length) {
  check(stream_->size() >= length,
        "the validation data have {} tokens, too few for one sample, which is made of {}",
        stream_->size(), length);
}

void WholeWindows::read(int64_t sample, std::span<int32_t> tokens,
                        std::span<int32_t> targets) const {
  if (sample >= samples()) {
    fill(tokens, 0);
    fill(targets, kIgnoreTarget);
    return;
  }
  stream_->read(std::min(sample * length_, stream_->size() - length_), tokens);
  fill(targets, 0);
}

PairRows::PairRows(std::shared_ptr<const Pairs> pairs, int64_t source_length, int64_t target_length,
                   bool packing)
    : pairs_(std::move(pairs)),
      source_length_(source_length),
      target_length_(target_length),
      packing_(packing) {
  check(pairs_->size() > 0, "there are no pairs");
  int64_t source = 0;
  int64_t target = 0;
  for (int64_t pair = 0; pair < pairs_->size(); ++pair) {
    const auto asked_source = static_cast<int64_t>(pairs_->source(pair).size()) + 1;
    const auto asked_target = static_cast<int64_t>(pairs_->target(pair).size()) + 1;
    cut_ += asked_source > source_length || asked_target > target_length ? 1 : 0;
    const int64_t more_source = std::min(asked_source, source_length);
    const int64_t more_target = std::min(asked_target, target_length);
    const bool fits = packing && !first_.empty() && source + more_source <= source_length &&
                      target + more_target <= target_length;
    if (!fits) {
      first_.push_back(pair);
      source = target = 0;
    }
    source += more_source;
    target += more_target;
  }
  first_.push_back(pairs_->size());
}

void PairRows::read(int64_t index, const RowTokens& tokens, const Seq2SeqRow& row) const {
  clear(row, tokens.pad);
  size_t source_at = 0;
  size_t target_at = 0;
  const auto add = [&](std::span<const int32_t> text, std::span<int32_t> part, size_t begin) {
    const size_t kept = std::min(text.size(), part.size() - 1);
    std::copy_n(text.begin(), kept, part.begin() + static_cast<ptrdiff_t>(begin));
    part[begin + kept] = tokens.end;
    return kept + 1;
  };
  const auto at = static_cast<size_t>(index);
  for (int64_t pair = first_[at]; pair < first_[at + 1]; ++pair) {
    const auto segment = static_cast<int32_t>(pair - first_[at] + 1);
    const size_t source = add(pairs_->source(pair), row.source, source_at);
    const size_t target = add(pairs_->target(pair), row.labels, target_at);
    mark(row.source_segments, source_at, source, segment);
    mark(row.target_segments, target_at, target, segment);
    shift_labels(row, target_at, target, tokens.start);
    source_at += source;
    target_at += target;
  }
}

TrainingPairs::TrainingPairs(std::vector<WeightedRows> sources, const RowTokens& tokens,
                             bool shuffle, uint64_t seed)
    : sources_(std::move(sources)),
      tokens_(tokens),
      shuffle_(shuffle),
      seed_(seed),
      blend_(weights_of(sources_)) {}

void TrainingPairs::read(int64_t sample, const Seq2SeqRow& row) const {
  const Blend::Place place = blend_.locate(sample);
  const PairRows& rows = *sources_[static_cast<size_t>(place.source)].rows;
  const int64_t in_pass = place.index % rows.count();
  const int64_t index =
      shuffle_ ? Permutation(rows.count(), seed_, random_stream("data.order", place.source),
                             place.index / rows.count())(in_pass)
               : in_pass;
  rows.read(index, tokens_, row);
}

void FirstSamples::read(int64_t sample, const Seq2SeqRow& row) const {
  if (sample < samples_) {
    all_->read(sample, row);
  } else {
    clear(row, tokens_.pad);
  }
}

}  // namespace mstrain
