#include "suites/transformer/alignment/reference_point.h"

#include <algorithm>
#include <numeric>

#include "core/data/windows.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/train/rank_talk.h"
#include "core/train/trainer.h"
#include "suites/transformer/alignment/answer_tasks.h"
#include "suites/transformer/text/key_value_cache.h"

namespace mstrain {
namespace {

// Rows of a pass: always so many, since the order of sums inside of products may depend on it.
constexpr int64_t kPointRows = 16;

class WithPoint final : public BatchStream {
 public:
  WithPoint(std::unique_ptr<BatchStream> rows, std::shared_ptr<const double> point)
      : rows_(std::move(rows)), point_(std::move(point)) {}
  Tensors next() override {
    Tensors batch = rows_->next();
    batch.push_back(full({batch[0].dim(0)}, *point_, Dtype::kF32));
    return batch;
  }
  int64_t samples() const override { return rows_->samples(); }

 private:
  std::unique_ptr<BatchStream> rows_;
  std::shared_ptr<const double> point_;
};

}  // namespace

ReferencePoint::ReferencePoint(std::shared_ptr<const CausalModel> model,
                               std::shared_ptr<const AnswerRows> rows,
                               const ReferencePointOptions& options)
    : rows_(std::move(rows)), options_(options), point_(std::make_shared<double>(0)) {
  log_ratios_ = [model = std::move(model), reference = options.reference](
                    const Params& params, const Tensor& tokens_bt, const Tensor& targets_bt) {
    return log_ratios(*model, params, reference, tokens_bt, targets_bt);
  };
  if (options.execution == Execution::kGraph) {
    log_ratios_ = jit(log_ratios_, {.name = "reference_point"});
  }
}

std::unique_ptr<BatchStream> ReferencePoint::stream(uint64_t seed, const BatchPart& part,
                                                    int64_t first) const {
  return std::make_unique<WithPoint>(
      training_rows(rows_, options_.shuffle, nullptr, seed, part, first), point_);
}

void ReferencePoint::find(Trainer& trainer) {
  const Params params = trainer.params();
  Ranks* const ranks = current_context().ranks.get();
  const Context context = for_inference();
  const ContextScope inference(context);
  const LoraScope adapters(options_.lora ? &*options_.lora : nullptr);
  const int64_t sharing = ranks == nullptr ? 1 : ranks->mesh().size(kDataAxis);
  const int64_t own = ranks == nullptr ? 0 : ranks->coordinate(kDataAxis);
  const int64_t passes =
      (options_.rows + kPointRows * sharing - 1) / (kPointRows * sharing);  // of each rank
  const auto row_of = [&](int64_t row) {
    return row_of_sample(rows_->count(), options_.shuffle, trainer.progress().seed,
                         trainer.progress().samples + row);
  };
  std::vector<double> found;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t first = (own * passes + pass) * kPointRows;
    const auto size = static_cast<size_t>(kPointRows * rows_->seq());
    std::vector<int32_t> tokens(size, 0), targets(size, kIgnoreTarget);
    for (int64_t row = first; row < std::min(first + kPointRows, options_.rows); ++row) {
      const int64_t before = row == 0 ? options_.rows - 1 : row - 1;
      rows_->write_mismatched(row_of(row), row_of(before), tokens, targets, row - first);
    }
    const Shape shape{kPointRows, rows_->seq()};
    const std::vector<double> some = to_doubles(
        log_ratios_(params, tensor<int32_t>(tokens, shape), tensor<int32_t>(targets, shape)));
    found.insert(found.end(), some.begin(), some.end());
  }
  const std::vector<double> all = gathered(ranks, found, "reference_point");
  const double sum = std::accumulate(all.begin(), all.begin() + options_.rows, 0.0);
  *point_ = std::max(0.0, sum / static_cast<double>(options_.rows));
  trainer.note("reference_point", *point_);
}

EvaluationSet judged_from_zero(EvaluationSet set) {
  set.first = [rows = std::move(set.first)](const BatchPart& part, int64_t samples) {
    return std::make_unique<WithPoint>(rows(part, samples), std::make_shared<const double>(0));
  };
  return set;
}

}  // namespace mstrain
