#include "core/data/span_corruption.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace mstrain {
namespace {

// Lengths >= 1 of `parts` parts of `total` things, each way to cut them with the same probability.
std::vector<int64_t> random_parts(int64_t total, int64_t parts, Rng& rng) {
  std::vector<uint8_t> begins(static_cast<size_t>(total - 1), 0);
  std::fill_n(begins.begin(), parts - 1, uint8_t{1});
  rng.shuffle(std::span(begins));
  std::vector<int64_t> lengths{1};
  for (const uint8_t begins_part : begins) {
    if (begins_part != 0) {
      lengths.push_back(1);
    } else {
      ++lengths.back();
    }
  }
  return lengths;
}

}  // namespace

SpanCorruption::SpanCorruption(const SpanCorruptionConfig& config, int64_t source_length)
    : config_(config) {
  check(sizes_of(1).source() <= source_length,
        "a source of {} tokens has no room for a sentinel and an end", source_length);
  int64_t text = 1;
  while (sizes_of(text + 1).source() <= source_length) {
    ++text;
  }
  longest_ = sizes_of(text);
}

SpanCorruption::Sizes SpanCorruption::sizes_of(int64_t text) const {
  if (text == 1) {
    return {.cut = 1, .spans = 1, .text = 1};
  }
  const int64_t cut =
      std::clamp<int64_t>(std::llround(static_cast<double>(text) * config_.rate), 1, text - 1);
  const int64_t spans = std::clamp<int64_t>(
      std::llround(static_cast<double>(cut) / config_.mean_length), 1, std::min(cut, text - cut));
  return {cut, spans, text};
}

void SpanCorruption::corrupt(std::span<const int32_t> text, const Seq2SeqVocabulary& vocabulary,
                             Rng& rng, std::span<int32_t> source, std::span<int32_t> target) const {
  const Sizes sizes = sizes_of(static_cast<int64_t>(text.size()));
  const int64_t stays = sizes.text - sizes.cut;
  const std::vector<int64_t> cut = random_parts(sizes.cut, sizes.spans, rng);
  const std::vector<int64_t> kept =
      stays == 0 ? std::vector<int64_t>{0} : random_parts(stays, sizes.spans, rng);
  auto from = text.begin();
  auto in_source = source.begin();
  auto in_target = target.begin();
  for (size_t span = 0; span < cut.size(); ++span) {
    const int32_t sentinel = vocabulary.sentinel(static_cast<int64_t>(span));
    in_source = std::copy_n(from, kept[span], in_source);
    from += kept[span];
    *in_source++ = sentinel;
    *in_target++ = sentinel;
    in_target = std::copy_n(from, cut[span], in_target);
    from += cut[span];
  }
  *in_source = vocabulary.end();
  *in_target = vocabulary.end();
}

}  // namespace mstrain
