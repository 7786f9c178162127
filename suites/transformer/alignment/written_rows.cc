#include "suites/transformer/alignment/written_rows.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/ops/build.h"
#include "core/tensor/host.h"

namespace mstrain {
namespace {

class WrittenBatches final : public BatchStream {
 public:
  WrittenBatches(std::shared_ptr<const WrittenRows> rows, int64_t seq, const BatchPart& part,
                 int64_t first)
      : rows_(std::move(rows)), seq_(seq), part_(part), samples_(first) {}

  Tensors next() override {
    check(rows_->first == samples_, "the rows of sample {} are asked for, those of {} are written",
          samples_, rows_->first);
    const int64_t count = part_.rows();
    const auto rows_of = [&](const auto& all) {  // [rows], or [rows, seq]
      auto out = std::decay_t<decltype(all)>();
      const ptrdiff_t width = std::ssize(all) / part_.batch;
      for (int64_t row = 0; row < count; ++row) {
        const auto begin = all.begin() + static_cast<ptrdiff_t>(part_.sample(row)) * width;
        out.insert(out.end(), begin, begin + width);
      }
      return out;
    };
    const Shape shape{count, seq_};
    Tensors out{tensor<int32_t>(rows_of(rows_->tokens), shape),
                tensor<int32_t>(rows_of(rows_->targets), shape)};
    if (rows_->returns.empty()) {
      out.push_back(tensor<float>(rows_of(rows_->advantages), {count}));
    } else {
      for (const auto* each : {&rows_->advantages, &rows_->returns, &rows_->values}) {
        out.push_back(tensor<float>(rows_of(*each), shape));
      }
    }
    if (!rows_->log_probs.empty()) {
      std::vector<float> log_probs = rows_of(rows_->log_probs);
      if (rows_->is_new) {
        std::ranges::fill(log_probs, std::numeric_limits<float>::quiet_NaN());
      }
      out.push_back(tensor<float>(log_probs, shape));
    }
    if (!rows_->supports.empty()) {
      const int64_t width = std::ssize(rows_->supports) / std::ssize(rows_->tokens);
      out.push_back(tensor<int32_t>(rows_of(rows_->supports), {count, seq_, width}));
    }
    samples_ += part_.batch;
    return out;
  }
  int64_t samples() const override { return samples_; }

 private:
  std::shared_ptr<const WrittenRows> rows_;
  int64_t seq_;
  BatchPart part_;
  int64_t samples_;
};

class WithAdvantages final : public BatchStream {
 public:
  WithAdvantages(std::unique_ptr<BatchStream> rows, std::function<Types(int64_t rows)> batch_types)
      : rows_(std::move(rows)), batch_types_(std::move(batch_types)) {}
  Tensors next() override {
    Tensors batch = rows_->next();
    const Types types = batch_types_(batch[0].dim(0));
    for (size_t i = batch.size(); i < types.size(); ++i) {
      batch.push_back(full(types[i].shape, 0.0, types[i].dtype));
    }
    return batch;
  }
  int64_t samples() const override { return rows_->samples(); }

 private:
  std::unique_ptr<BatchStream> rows_;
  std::function<Types(int64_t rows)> batch_types_;
};

}  // namespace

Json WrittenRows::state() const {
  return {{"tokens", tokens},    {"targets", targets}, {"advantages", advantages},
          {"returns", returns},  {"values", values},   {"log_probs", log_probs},
          {"supports", supports}};
}

void WrittenRows::restore(const Json& state) {
  state.at("tokens").get_to(tokens);
  state.at("targets").get_to(targets);
  state.at("advantages").get_to(advantages);
  state.at("returns").get_to(returns);
  state.at("values").get_to(values);
  state.at("log_probs").get_to(log_probs);
  if (state.contains("supports")) {  // checkpoints of before have none
    state.at("supports").get_to(supports);
  }
}

std::unique_ptr<BatchStream> written_batches(std::shared_ptr<const WrittenRows> rows, int64_t seq,
                                             const BatchPart& part, int64_t first) {
  return std::make_unique<WrittenBatches>(std::move(rows), seq, part, first);
}

EvaluationSet with_advantages(EvaluationSet set, std::function<Types(int64_t rows)> batch_types) {
  set.first = [rows = std::move(set.first), batch_types = std::move(batch_types)](
                  const BatchPart& part, int64_t samples) {
    return std::make_unique<WithAdvantages>(rows(part, samples), batch_types);
  };
  return set;
}

}  // namespace mstrain
