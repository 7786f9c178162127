#include "suites/transformer/alignment/answer_rows.h"

#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/data/shuffle.h"
#include "core/data/windows.h"
#include "core/tensor/host.h"
#include "suites/transformer/alignment/length_order.h"

namespace mstrain {
namespace {

int64_t positions_of(const AnswerText& text) { return static_cast<int64_t>(text.ids.size()) - 1; }

// `text` from position `at` of a row on.
void write_text(const AnswerText& text, size_t at, std::span<int32_t> tokens,
                std::span<int32_t> targets) {
  for (size_t i = 0; i + 1 < text.ids.size(); ++i) {
    tokens[at + i] = text.ids[i];
    if (static_cast<int64_t>(i) + 1 >= text.answer) {
      targets[at + i] = text.ids[i + 1];
    }
  }
}

// All tokens of `text`, and the last one once more as a target.
void write_whole(const AnswerText& text, std::span<int32_t> tokens, std::span<int32_t> targets) {
  std::ranges::copy(text.ids, tokens.begin());
  targets[text.ids.size() - 1] = text.ids.back();
}

bool has_pairs(RowKind kind) { return kind == RowKind::kPairs || kind == RowKind::kEnds; }

class RowBatches final : public BatchStream {
 public:
  // The rows of the batch of `count` samples that begins with sample `first`.
  using Order = std::function<std::vector<int64_t>(int64_t first, int64_t count)>;

  RowBatches(std::shared_ptr<const AnswerRows> rows, const BatchPart& part, int64_t first,
             Order order)
      : rows_(std::move(rows)), part_(part), samples_(first), order_(std::move(order)) {}

  Tensors next() override {
    const int64_t count = part_.rows();
    std::vector<std::vector<int32_t>> parts(
        static_cast<size_t>(tensors_of(rows_->kind())),
        std::vector<int32_t>(static_cast<size_t>(count * rows_->seq())));
    std::vector<float> judgements;
    const std::vector<int64_t> batch = order_(samples_, part_.batch);
    for (int64_t row = 0; row < count; ++row) {
      const int64_t index = batch[static_cast<size_t>(part_.sample(row))];
      rows_->write(index, parts, row);
      if (rows_->kind() == RowKind::kJudged) {
        judgements.push_back(rows_->judgement(index));
      }
    }
    samples_ += part_.batch;
    Tensors out;
    for (const std::vector<int32_t>& part : parts) {
      out.push_back(tensor<int32_t>(part, {count, rows_->seq()}));
    }
    if (rows_->kind() == RowKind::kJudged) {
      out.push_back(tensor<float>(judgements, {count}));
    }
    return out;
  }
  int64_t samples() const override { return samples_; }

 private:
  std::shared_ptr<const AnswerRows> rows_;
  BatchPart part_;
  int64_t samples_;
  Order order_;
};

}  // namespace

int tensors_of(RowKind kind) {
  return kind == RowKind::kSingle || kind == RowKind::kJudged ? 2 : 4;
}

AnswerRows::AnswerRows(std::vector<AnswerSample> samples, RowKind kind, int64_t seq)
    : samples_(std::move(samples)), kind_(kind), seq_(seq) {
  int64_t left = 0;
  for (size_t i = 0; i < samples_.size(); ++i) {
    check(samples_[i].texts.size() == (has_pairs(kind) ? 2 : 1), "sample {} has {} answers", i,
          samples_[i].texts.size());
    int64_t longest = 0;
    for (const AnswerText& text : samples_[i].texts) {
      longest = std::max(longest, positions_of(text) + (kind == RowKind::kEnds ? 1 : 0));
    }
    check(longest <= seq_, "sample {} has {} positions of {}", i, longest, seq_);
    if (kind_ != RowKind::kPacked || longest > left || i == 0) {
      first_.push_back(static_cast<int64_t>(i));
      left = seq_;
    }
    left -= longest;
  }
  first_.push_back(static_cast<int64_t>(samples_.size()));
}

void AnswerRows::write(int64_t index, std::span<std::vector<int32_t>> tensors, int64_t row) const {
  const auto part = [&](size_t i) {
    return std::span(tensors[i])
        .subspan(static_cast<size_t>(row * seq_), static_cast<size_t>(seq_));
  };
  const auto clear = [&](size_t i, int32_t value) { std::ranges::fill(part(i), value); };
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool are_targets = i == 1 || (i == 3 && has_pairs(kind_));
    clear(i, are_targets ? kIgnoreTarget : 0);
  }
  if (index >= count()) {
    return;
  }
  size_t at = 0;
  int32_t segment = 0;
  const auto begin = static_cast<size_t>(first_[static_cast<size_t>(index)]);
  const auto end = static_cast<size_t>(first_[static_cast<size_t>(index) + 1]);
  for (size_t sample = begin; sample < end; ++sample) {
    const std::vector<AnswerText>& texts = samples_[sample].texts;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (kind_ == RowKind::kEnds) {
        write_whole(texts[i], part(2 * i), part(2 * i + 1));
      } else {
        write_text(texts[i], at, part(2 * i), part(2 * i + 1));
      }
    }
    if (kind_ == RowKind::kPacked) {
      const auto length = static_cast<size_t>(positions_of(texts[0]));
      ++segment;
      for (size_t i = 0; i < length; ++i) {
        part(2)[at + i] = segment;
        part(3)[at + i] = static_cast<int32_t>(i);
      }
      at += length;
    }
  }
}

void AnswerRows::write_mismatched(int64_t prompt, int64_t answer, std::span<int32_t> tokens,
                                  std::span<int32_t> targets, int64_t row) const {
  const AnswerText& given = samples_[static_cast<size_t>(prompt)].texts[0];
  const AnswerText& other = samples_[static_cast<size_t>(answer)].texts[0];
  AnswerText text{{given.ids.begin(), given.ids.begin() + static_cast<ptrdiff_t>(given.answer)},
                  given.answer};
  text.ids.insert(text.ids.end(), other.ids.begin() + static_cast<ptrdiff_t>(other.answer),
                  other.ids.end());
  text.ids.resize(std::min(text.ids.size(), static_cast<size_t>(seq_) + 1));
  write_text(text, static_cast<size_t>(row * seq_), tokens, targets);
}

float AnswerRows::judgement(int64_t index) const {
  if (index >= count()) {
    return 0;
  }
  return samples_[static_cast<size_t>(index)].is_wanted ? 1 : -1;
}

int64_t row_of_sample(int64_t rows, bool shuffle, uint64_t seed, int64_t sample) {
  const auto epoch = static_cast<uint64_t>(sample / rows);
  return shuffle ? Permutation(rows, seed, random_stream("data.answers", 0), epoch)(sample % rows)
                 : sample % rows;
}

std::unique_ptr<BatchStream> training_rows(std::shared_ptr<const AnswerRows> rows, bool shuffle,
                                           std::shared_ptr<const LengthOrder> by_length,
                                           uint64_t seed, const BatchPart& part, int64_t first) {
  const auto order = [total = rows->count(), shuffle, by_length = std::move(by_length), seed](
                         int64_t begin, int64_t count) {
    if (by_length != nullptr) {
      return by_length->batch(seed, begin, count);
    }
    std::vector<int64_t> batch;
    for (int64_t sample = begin; sample < begin + count; ++sample) {
      batch.push_back(row_of_sample(total, shuffle, seed, sample));
    }
    return batch;
  };
  return std::make_unique<RowBatches>(std::move(rows), part, first, order);
}

EvaluationSet held_out_rows(const std::string& name, std::shared_ptr<const AnswerRows> rows) {
  const int64_t total = rows->count();
  const auto first = [rows = std::move(rows)](const BatchPart& part, int64_t samples) {
    const auto order = [samples, none = rows->count()](int64_t begin, int64_t count) {
      std::vector<int64_t> batch;
      for (int64_t sample = begin; sample < begin + count; ++sample) {
        batch.push_back(sample < samples ? sample : none);
      }
      return batch;
    };
    return std::make_unique<RowBatches>(rows, part, 0, order);
  };
  return {name, first, total};
}

}  // namespace mstrain
