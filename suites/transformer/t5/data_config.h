// What the `data` section of a T5 says besides that of a corpus.
#pragma once

#include <optional>

#include "core/data/data_config.h"
#include "core/data/span_corruption.h"

namespace mstrain::t5 {

enum class DataTask { kSpanCorruption, kPairs };

struct SampleConfig {
  DataTask task = DataTask::kSpanCorruption;
  std::optional<int64_t> target_length;
  SpanCorruptionConfig span_corruption;

  template <class V>
  void fields(V& v) {
    v("task", task,
      "span_corruption: fill in what is cut out of text; pairs: write the target of each line "
      "{\"input\": …, \"target\": …} of JSON lines",
      rule::one_of({"span_corruption", "pairs"}));
    v("target_length", target_length,
      "tokens that the decoder reads of a sample of pairs; null: seq_length. Of span corruption "
      "they follow from seq_length",
      rule::at_least(1).elsewhere_called({"max_target_length", "decoder_seq_length"}));
    v("span_corruption", span_corruption, "what is cut out");
  }
};

// The whole section.
struct DataSection {
  SampleConfig& samples;
  DataConfig& text;

  template <class V>
  void fields(V& v) {
    samples.fields(v);
    text.fields(v);
  }
};

}  // namespace mstrain::t5
