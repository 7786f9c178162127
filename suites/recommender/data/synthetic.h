// Samples like Criteo's, of a known model: ids by Zipf's law, clicks drawn from log-odds that are a sum of one weight for each id, linear
// in the numbers, and products of hidden vectors of some pairs of fields. Sample i is a function of (seed, i), and so is the best that any
// model can do. Where a field has several ids in a sample, weights and hidden vectors are those of their mean.
#pragma once

#include "core/base/config.h"
#include "core/base/hash.h"
#include "core/data/shuffle.h"
#include "suites/recommender/data/samples.h"

namespace mstrain::recommender {

struct SyntheticConfig {
  int64_t samples = 200'000;
  int64_t numeric = 13;
  int64_t fields_ = 26;
  int64_t vocab = 1000;
  int64_t bag = 1;
  double alpha = 1.05;
  double bias = -1.0;
  double weight_std = 0.35;
  int64_t pairs = 4;
  int64_t seed = 1;

  template <class V>
  void fields(V& v) {
    v("samples", samples, "how many there are", rule::at_least(1).at_most(1e12));
    v("numeric", numeric, "numeric columns", rule::at_least(0).at_most(10000));
    v("fields", fields_, "fields with ids", rule::at_least(1).at_most(10000));
    v("vocab", vocab, "ids of a field", rule::at_least(1).at_most(1e9));
    v("bag", bag, "ids of each field in a sample, whose vectors are added up",
      rule::at_least(1).at_most(1000));
    v("alpha", alpha, "of Zipf's law: the k-th id of a field comes with weight k^-alpha",
      rule::at_least(0).at_most(4));
    v("bias", bias, "of the log-odds");
    v("weight_std", weight_std, "standard deviation of the weights of ids", rule::at_least(0));
    v("pairs", pairs, "pairs of fields that act together", rule::at_least(0).at_most(1000));
    v("seed", seed, "of samples and model", rule::at_least(0));
  }
};

class SyntheticSamples final : public SampleSource {
 public:
  explicit SyntheticSamples(const SyntheticConfig& config);

  const SampleSchema& schema() const override { return schema_; }
  int64_t samples() const override { return config_.samples; }
  void read(std::span<const int64_t> samples, SampleBatch& out) const override;
  std::string identity() const override;
  std::vector<double> true_log_odds(const SampleBatch& batch) const override;

 private:
  double log_odds(const SampleBatch& batch, int64_t sample) const;
  // The mean of hidden numbers over the ids of a field.
  double mean_of(const SampleBatch& batch, int64_t sample, int64_t field, const char* what,
                 int64_t stream) const;
  uint64_t draw(double uniform) const;  // a rank by Zipf's law
  void fill_tables();
  uint64_t id_of(int64_t field, uint64_t rank) const;
  double hidden(const char* what, int64_t stream, uint64_t id) const;

  SyntheticConfig config_;
  SampleSchema schema_;
  std::vector<double> below_;    // of Zipf's law: share of the ranks up to each
  std::vector<uint32_t> begin_;  // the first rank whose share is above i / (begin_.size() - 1)
  std::vector<Permutation>
      order_;  // by field: ids are ranks in another order, so that hot ones are not neighbours
  // What functions of (field, rank) and (field, id) give, where there are not too many; empty otherwise.
  std::vector<uint32_t> ids_;
  std::vector<double> weights_, vectors_;
};

}  // namespace mstrain::recommender
