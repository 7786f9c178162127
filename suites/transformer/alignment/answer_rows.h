// Rows of tokens and targets that answers make, and batches of them. Row i is a pure function of the data, the options and i.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/train/task.h"
#include "suites/transformer/alignment/answers.h"

namespace mstrain {

class LengthOrder;

// What the rows of a batch hold, i32 [rows, seq] each.
enum class RowKind {
  kSingle,  // tokens, targets: one text, then padding
  kPacked,  // tokens, targets, segments (from 1; 0: padding), positions (from 0 in each text): texts that follow each other
  kPairs,   // tokens and targets of the better answer, tokens and targets of the other one
  kEnds,  // the same of whole texts, whose tokens are all given: the one target is their last token, where it stands
  kJudged  // tokens, targets; and f32 [rows]: 1 where the answer is wanted, -1 where it is not, 0 of no answer
};
// How many tensors [rows, seq] they are.
int tensors_of(RowKind kind);

class AnswerRows {
 public:
  // Every text has 2 to seq + 1 tokens, or where all are given, seq; `kind` says how many texts a sample has.
  AnswerRows(std::vector<AnswerSample> samples, RowKind kind, int64_t seq);

  RowKind kind() const { return kind_; }
  int64_t seq() const { return seq_; }
  int64_t count() const { return static_cast<int64_t>(first_.size()) - 1; }
  // Into row `row` of tensors_of(kind()) tensors [rows, seq]; an index of count() or more writes a row where nothing is scored.
  void write(int64_t index, std::span<std::vector<int32_t>> tensors, int64_t row) const;
  // The prompt of one row with the answer of another one, as far as it fits. Rows of a single text.
  void write_mismatched(int64_t prompt, int64_t answer, std::span<int32_t> tokens,
                        std::span<int32_t> targets, int64_t row) const;
  // Of kJudged: 1, -1, or 0 of an index of count() or more.
  float judgement(int64_t index) const;

 private:
  std::vector<AnswerSample> samples_;
  RowKind kind_;
  int64_t seq_;
  std::vector<int64_t> first_;  // sample of each row, and the number of samples
};

// Every row once in each pass, in a new order where they are shuffled: the row that a sample of the run is.
int64_t row_of_sample(int64_t rows, bool shuffle, uint64_t seed, int64_t sample);
// `by_length`: batches are in its order; null: as they come.
std::unique_ptr<BatchStream> training_rows(std::shared_ptr<const AnswerRows> rows, bool shuffle,
                                           std::shared_ptr<const LengthOrder> by_length,
                                           uint64_t seed, const BatchPart& part, int64_t first);
EvaluationSet held_out_rows(const std::string& name, std::shared_ptr<const AnswerRows> rows);

}  // namespace mstrain
