// The network: logits of all actions, and what the position is worth to the player to move.
#pragma once

#include <vector>

#include "core/tensor/params.h"
#include "core/tensor/tree.h"
#include "suites/reinforcement/alphazero/board_game.h"
#include "suites/reinforcement/alphazero/config.h"

namespace mstrain::alphazero {

struct PolicyValue {
  Tensor logits_ba;
  Tensor value_b;  // in [-1, 1]

  template <class V>
  void fields(V& v) {
    v("logits", logits_ba);
    v("value", value_b);
  }
};

// residual: a stem and blocks of two 3x3 convolutions each (Silver et al., "Mastering the game of Go without human
//   knowledge", Nature 2017). Where the paper normalises batches, a block here is multiplied by a learned number that begins
//   with 0 (De and Smith, "Batch normalization biases residual blocks towards the identity function", NeurIPS 2020), so that
//   an evaluation depends on its position alone.
// mlp: hidden layers over all numbers of the input. transformer: a token for each cell, blocks with the norm in front.
class PolicyValueNetwork {
 public:
  PolicyValueNetwork(const NetworkConfig& config, const BoardGame& game);

  // Of boards[batch, planes, rows, columns]; fp32, whatever type the parameters have and it is computed in.
  PolicyValue operator()(const Params& p, const Tensor& boards_bchw) const;
  const Shape& input() const { return input_; }  // [planes, rows, columns]
  int64_t actions() const { return actions_; }
  std::vector<ParamSpec> specs() const;

 private:
  // What the heads read, [b, features].
  struct Features {
    Tensor policy_bf;
    Tensor value_bf;
  };
  Features residual(const Params& p, const Tensor& x_bchw) const;
  Features mlp(const Params& p, const Tensor& x_bchw) const;
  Features transformer(const Params& p, const Tensor& x_bchw) const;

  NetworkConfig config_;
  Shape input_;
  int64_t actions_;
};

}  // namespace mstrain::alphazero
