#include "benchmarks/embedding_cache_race.h"

#include <cmath>

#include "core/base/rng.h"

namespace mstrain::embedding_cache {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void verdict(const char* name, double value, const char* unit, double bar, bool at_least) {
  const bool met = at_least ? value >= bar : value <= bar;
  fmt::print("  -> {}: {:.3f}{} (bar {} {}{}) {}\n", name, value, unit, at_least ? ">=" : "<=", bar,
             unit, met ? "met" : "NOT MET");
}

namespace {

// Exact Zipf by inversion, with a guide so that a draw is a few steps.
class Zipf {
 public:
  Zipf(uint64_t rows, double alpha) : sums_(rows), guide_((1 << 20) + 1) {
    double sum = 0;
    for (uint64_t k = 0; k < rows; ++k) {
      sums_[k] = sum += std::pow(static_cast<double>(k + 1), -alpha);
    }
    for (double& s : sums_) {
      s /= sum;
    }
    uint64_t k = 0;
    for (size_t g = 0; g < guide_.size(); ++g) {
      while (k + 1 < rows && sums_[k] < static_cast<double>(g) / (1 << 20)) {
        ++k;
      }
      guide_[g] = static_cast<uint32_t>(k);
    }
  }
  uint64_t draw(Rng& rng) const {
    const double u = rng.uniform();
    const auto g = static_cast<size_t>(u * (1 << 20));
    const auto first = sums_.begin() + guide_[g];
    const auto last = sums_.begin() + guide_[std::min(g + 1, guide_.size() - 1)] + 1;
    return static_cast<uint64_t>(std::lower_bound(first, std::min(last, sums_.end()), u) -
                                 sums_.begin());
  }

 private:
  std::vector<double> sums_;
  std::vector<uint32_t> guide_;
};

}  // namespace

Id scatter(uint64_t rank) { return rank * 2'654'435'761U % kVocabulary; }

std::vector<std::vector<Id>> make_batches(size_t count, bool fixed_fields) {
  const Zipf zipf(kVocabulary, 1.05);
  std::vector<std::vector<Id>> out(count);
  for (size_t b = 0; b < count; ++b) {
    Rng rng(kSeed, b);
    for (uint64_t s = 0; s < kSamples; ++s) {
      if (fixed_fields) {
        for (Id field = 0; field < 13; ++field) {
          out[b].push_back(kVocabulary + field);
        }
      }
      for (int field = 0; field < 26; ++field) {
        out[b].push_back(scatter(zipf.draw(rng)));
      }
    }
  }
  return out;
}

Segment adam_segment(uint32_t width) {
  return {.width = width, .optimizer = {.kind = OptimizerKind::kLazyAdam, .lr = 3.5e-4F}};
}

TableOptions wide_deep_table(uint64_t host_rows) {
  TableOptions table{.name = "t", .host_rows = host_rows};
  table.segments = {
      adam_segment(80),
      {.width = 1,
       .optimizer = {.kind = OptimizerKind::kFtrl, .lr = 0.05F, .initial_accumulator = 1},
       .init = {.kind = InitKind::kZero}}};
  return table;
}

Options disk_options(const std::string& directory, uint64_t host_rows) {
  Options options;
  options.directory = directory;
  options.store.kind = StoreKind::kRocksdb;
  options.store.direct_io = true;
  options.store.read_threads = 16;
  options.threads = 2;
  options.keep = 1;
  options.tables = {wide_deep_table(host_rows)};
  return options;
}

}  // namespace mstrain::embedding_cache
