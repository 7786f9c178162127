#include "suites/transformer/alignment/written_rows.h"

#include <algorithm>
#include <limits>

#include "core/base/base64.h"
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

// Their bytes: as text, one to a line, the numbers of large batches would take gigabytes.
template <class T>
std::string packed(const std::vector<T>& numbers) {
  return to_base64(
      {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)});  // NOLINT
}

template <class T>
void unpack(const Json& state, const char* name, std::vector<T>& numbers) {
  const Json& stored = state.at(name);
  if (stored.is_array()) {  // checkpoints of before
    stored.get_to(numbers);
    return;
  }
  const auto bytes = from_base64(stored.get_ref<const std::string&>());
  check(bytes && bytes->size() % sizeof(T) == 0, "answers: the saved {} are no numbers", name);
  numbers.resize(bytes->size() / sizeof(T));
  std::copy(bytes->begin(), bytes->end(), reinterpret_cast<char*>(numbers.data()));  // NOLINT
}

}  // namespace

Json WrittenRows::state() const {
  return {{"tokens", packed(tokens)},         {"targets", packed(targets)},
          {"advantages", packed(advantages)}, {"returns", packed(returns)},
          {"values", packed(values)},         {"log_probs", packed(log_probs)},
          {"supports", packed(supports)}};
}

void WrittenRows::restore(const Json& state) {
  unpack(state, "tokens", tokens);
  unpack(state, "targets", targets);
  unpack(state, "advantages", advantages);
  unpack(state, "returns", returns);
  unpack(state, "values", values);
  unpack(state, "log_probs", log_probs);
  if (state.contains("supports")) {  // checkpoints of before have none
    unpack(state, "supports", supports);
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
