// The task of predicting each next token: what a decoder learns of a corpus.
#pragma once

#include "core/data/corpus.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/train/task.h"
#include "suites/run/network.h"

namespace mstrain {

// Batches are {tokens[rows, seq], targets[rows, seq]}, i32: the targets are the tokens one position ahead, -100 where nothing
// is predicted.
using NextTokenLosses = std::function<CrossEntropySums(
    const Params& params, const Tensor& tokens_bt, const Tensor& targets_bt)>;
TrainTask next_token_task(const Network& network, int64_t seq_length, NextTokenLosses losses);

// Adds the samples of `corpus` to `data`: batches, held-out sets and the bytes behind them.
void add_windows(const Corpus& corpus, const DataConfig& config, TrainData& data);

}  // namespace mstrain
