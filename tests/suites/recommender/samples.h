// Samples for tests: small, of every kind of field, each a function of its index.
#pragma once

#include "core/base/rng.h"
#include "suites/recommender/data/samples.h"

namespace mstrain::recommender {

class SomeSamples final : public SampleSource {
 public:
  explicit SomeSamples(int64_t count) : count_(count) {
    using embedding_cache::Pooling;
    schema_.numeric = {"age", "hours"};
    schema_.fields = {{.name = "user", .rows = 40},
                      {.name = "item"},  // open-ended
                      {.name = "tags", .rows = 25, .is_bag = true, .pooling = Pooling::kMean},
                      {.name = "genres", .rows = 9, .is_bag = true, .pooling = Pooling::kMax}};
  }
  const SampleSchema& schema() const override { return schema_; }
  int64_t samples() const override { return count_; }
  void read(std::span<const int64_t> samples, SampleBatch& out) const override {
    out = {};
    out.samples = std::ssize(samples);
    out.fields.resize(schema_.fields.size());
    for (const size_t bag : {2, 3}) {
      out.fields[bag].offsets.push_back(0);
    }
    for (const int64_t sample : samples) {
      Rng rng(7, static_cast<uint64_t>(sample));
      out.numeric.push_back(static_cast<float>(rng.normal()));
      out.numeric.push_back(static_cast<float>(rng.normal()));
      const uint64_t user = rng.below(40);
      out.fields[0].ids.push_back(user);
      out.fields[1].ids.push_back(rng.below(60) * 0x9e3779b97f4a7c15U);
      for (const size_t bag : {2, 3}) {
        for (uint64_t i = rng.below(4); i > 0; --i) {
          out.fields[bag].ids.push_back(rng.below(schema_.fields[bag].rows));
        }
        out.fields[bag].offsets.push_back(static_cast<uint32_t>(out.fields[bag].ids.size()));
      }
      out.labels.push_back(rng.uniform() < (user % 3 == 0 ? 0.8 : 0.2) ? 1.0F : 0.0F);
    }
  }
  std::string identity() const override { return "some samples"; }

 private:
  SampleSchema schema_;
  int64_t count_;
};

}  // namespace mstrain::recommender
