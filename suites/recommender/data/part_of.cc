#include <fmt/format.h>

#include "core/base/error.h"
#include "suites/recommender/data/samples.h"

namespace mstrain::recommender {
namespace {

class Part final : public SampleSource {
 public:
  Part(std::shared_ptr<const SampleSource> all, int64_t first, int64_t count)
      : all_(std::move(all)), first_(first), count_(count) {
    check(first >= 0 && count >= 0 && first + count <= all_->samples(), "samples [{}, {}) of {}",
          first, first + count, all_->samples());
  }
  const SampleSchema& schema() const override { return all_->schema(); }
  int64_t samples() const override { return count_; }
  void read(std::span<const int64_t> samples, SampleBatch& out) const override {
    std::vector<int64_t> of_all(samples.begin(), samples.end());
    for (int64_t& sample : of_all) {
      sample += first_;
    }
    all_->read(of_all, out);
  }
  std::string identity() const override {
    return fmt::format("{}[{}+{}]", all_->identity(), first_, count_);
  }
  std::vector<double> true_log_odds(const SampleBatch& batch) const override {
    return all_->true_log_odds(batch);
  }

 private:
  std::shared_ptr<const SampleSource> all_;
  int64_t first_, count_;
};

}  // namespace

std::shared_ptr<const SampleSource> part_of(std::shared_ptr<const SampleSource> all, int64_t first,
                                            int64_t count) {
  return std::make_shared<const Part>(std::move(all), first, count);
}

}  // namespace mstrain::recommender
