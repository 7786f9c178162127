#include "suites/recommender/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/rng.h"
#include "core/data/shuffle.h"

namespace mstrain::recommender {
namespace {

constexpr int kHidden = 4;            // floats of the hidden vectors
constexpr int64_t kTabled = 1 << 21;  // numbers in a table
constexpr const char* kWeight = "synthetic.weight";
constexpr const char* kVector = "synthetic.hidden";

double hidden_normal(uint64_t seed, const char* what, int64_t field, uint64_t id) {
  Rng rng(seed, hash_combine(random_stream(what, field), id));
  return rng.normal();
}

}  // namespace

SyntheticSamples::SyntheticSamples(const SyntheticConfig& config) : config_(config) {
  for (int64_t i = 0; i < config.numeric; ++i) {
    schema_.numeric.push_back(fmt::format("I{}", i + 1));
  }
  for (int64_t f = 0; f < config.fields_; ++f) {
    schema_.fields.push_back({.name = fmt::format("C{}", f + 1),
                              .rows = static_cast<uint64_t>(config.vocab),
                              .is_bag = config.bag > 1,
                              .ids = static_cast<double>(config.bag)});
  }
  double sum = 0;
  for (int64_t k = 1; k <= config.vocab; ++k) {
    sum += std::pow(static_cast<double>(k), -config.alpha);
    below_.push_back(sum);
  }
  for (double& share : below_) {
    share /= sum;
  }
  // A power of two: which step a share is in, is told without rounding.
  const auto steps = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(config.vocab, 1, 1 << 16))));
  for (int64_t i = 0; i <= steps; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(steps);
    begin_.push_back(static_cast<uint32_t>(std::upper_bound(below_.begin(), below_.end(), share) -
                                           below_.begin()));
  }
  const auto seed = static_cast<uint64_t>(config.seed);
  for (int64_t f = 0; f < config.fields_; ++f) {
    order_.emplace_back(config.vocab, seed, random_stream("synthetic.ids", f), 0);
  }
  fill_tables();
}

void SyntheticSamples::fill_tables() {
  const int64_t paired = std::min(config_.fields_, 2 * config_.pairs);
  if (config_.fields_ * config_.vocab > kTabled || paired * kHidden * config_.vocab > kTabled) {
    return;
  }
  std::vector<uint32_t> ids;
  std::vector<double> weights;
  std::vector<double> vectors;
  for (int64_t f = 0; f < config_.fields_; ++f) {
    for (int64_t i = 0; i < config_.vocab; ++i) {
      ids.push_back(static_cast<uint32_t>(id_of(f, static_cast<uint64_t>(i))));
      weights.push_back(hidden(kWeight, f, static_cast<uint64_t>(i)));
    }
  }
  for (int64_t stream = 0; stream < paired * kHidden; ++stream) {
    for (int64_t i = 0; i < config_.vocab; ++i) {
      vectors.push_back(hidden(kVector, stream, static_cast<uint64_t>(i)));
    }
  }
  ids_ = std::move(ids);
  weights_ = std::move(weights);
  vectors_ = std::move(vectors);
}

uint64_t SyntheticSamples::id_of(int64_t field, uint64_t rank) const {
  return ids_.empty()
             ? static_cast<uint64_t>(order_[static_cast<size_t>(field)](static_cast<int64_t>(rank)))
             : ids_[static_cast<size_t>(field * config_.vocab) + rank];
}

double SyntheticSamples::hidden(const char* what, int64_t stream, uint64_t id) const {
  const std::vector<double>& table = what == kWeight ? weights_ : vectors_;
  return table.empty() ? hidden_normal(static_cast<uint64_t>(config_.seed), what, stream, id)
                       : table[static_cast<size_t>(stream * config_.vocab) + id];
}

uint64_t SyntheticSamples::draw(double uniform) const {
  const auto step = static_cast<size_t>(uniform * static_cast<double>(begin_.size() - 1));
  const auto at =
      std::upper_bound(below_.begin() + begin_[step], below_.begin() + begin_[step + 1], uniform);
  return static_cast<uint64_t>(std::min<ptrdiff_t>(at - below_.begin(), std::ssize(below_) - 1));
}

void SyntheticSamples::read(std::span<const int64_t> samples, SampleBatch& out) const {
  const auto seed = static_cast<uint64_t>(config_.seed);
  out = {};
  out.samples = std::ssize(samples);
  out.fields.resize(schema_.fields.size());
  const uint64_t stream = random_stream("synthetic.sample", 0);
  for (size_t s = 0; s < samples.size(); ++s) {
    Rng rng(seed, hash_combine(stream, static_cast<uint64_t>(samples[s])));
    for (int64_t i = 0; i < config_.numeric; ++i) {
      out.numeric.push_back(static_cast<float>(rng.normal()));
    }
    for (size_t f = 0; f < out.fields.size(); ++f) {
      SampleBatch::Field& field = out.fields[f];
      for (int64_t i = 0; i < config_.bag; ++i) {
        field.ids.push_back(id_of(static_cast<int64_t>(f), draw(rng.uniform())));
      }
      if (config_.bag > 1) {
        if (field.offsets.empty()) {
          field.offsets.push_back(0);
        }
        field.offsets.push_back(static_cast<uint32_t>(field.ids.size()));
      }
    }
    const double odds = log_odds(out, static_cast<int64_t>(s));
    out.labels.push_back(rng.uniform() < 1 / (1 + std::exp(-odds)) ? 1.0F : 0.0F);
  }
}

double SyntheticSamples::mean_of(const SampleBatch& batch, int64_t sample, int64_t field,
                                 const char* what, int64_t stream) const {
  const std::vector<uint64_t>& ids = batch.fields[static_cast<size_t>(field)].ids;
  double sum = 0;
  for (int64_t i = 0; i < config_.bag; ++i) {
    sum += hidden(what, stream, ids[static_cast<size_t>(sample * config_.bag + i)]);
  }
  return sum / static_cast<double>(config_.bag);
}

double SyntheticSamples::log_odds(const SampleBatch& batch, int64_t sample) const {
  const auto seed = static_cast<uint64_t>(config_.seed);
  const auto s = static_cast<size_t>(sample);
  double odds = config_.bias;
  for (int64_t i = 0; i < config_.numeric; ++i) {
    const double weight = 0.1 * hidden_normal(seed, "synthetic.numeric", i, 0);
    odds +=
        weight *
        double{batch.numeric[s * static_cast<size_t>(config_.numeric) + static_cast<size_t>(i)]};
  }
  for (int64_t f = 0; f < config_.fields_; ++f) {
    odds += config_.weight_std * mean_of(batch, sample, f, kWeight, f);
  }
  for (int64_t p = 0; p < config_.pairs; ++p) {
    const int64_t a = 2 * p % config_.fields_;
    const int64_t b = (2 * p + 1) % config_.fields_;
    double product = 0;
    for (int h = 0; h < kHidden; ++h) {
      const auto of = [&](int64_t field) {
        return mean_of(batch, sample, field, kVector, field * kHidden + h);
      };
      product += of(a) * of(b);
    }
    odds += config_.weight_std * product / kHidden;
  }
  return odds;
}

std::vector<double> SyntheticSamples::true_log_odds(const SampleBatch& batch) const {
  std::vector<double> out;
  for (int64_t s = 0; s < batch.samples; ++s) {
    out.push_back(log_odds(batch, s));
  }
  return out;
}

// Runs go on that began when every field had one id.
std::string SyntheticSamples::identity() const {
  YamlNode config = write_config(config_);
  if (config_.bag == 1) {
    std::erase_if(config.children, [](const YamlNode& key) { return key.key == "bag"; });
  }
  return to_flow(config);
}

}  // namespace mstrain::recommender
