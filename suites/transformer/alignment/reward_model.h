// Rewards of a model that was trained with objective.type: reward.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/tokenizer.h"
#include "core/tensor/params.h"
#include "suites/run/network.h"
#include "suites/transformer/alignment/rewards.h"

namespace mstrain {

// Throws Error that names the folder: there is no model, it writes text instead of scoring it, or it has no tokenizer. Reads no weights.
void check_reward_model(const std::string& path);
// Of its weights in memory.
int64_t reward_model_bytes(const std::string& path);

class RewardModel {
 public:
  // A checkpoint, a run or a model directory. `end`: objective.end. Throws what check_reward_model() does, and IoError.
  RewardModel(const std::string& path, const AutoOr<std::string>& end);

  // The score of each prompt with its answer, which its own tokenizer makes tokens of, and what ends an answer unless it is cut. Throws Error
  // for a text that is longer than the model can see.
  std::vector<double> score(std::span<const WrittenAnswer> answers) const;

 private:
  std::vector<int32_t> tokens_of(const WrittenAnswer& answer) const;

  std::string path_;
  std::shared_ptr<const Network> network_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int32_t end_ = 0;
  int64_t longest_ = 0;
  Params params_;
  std::function<Tensor(const Params&, const Tensor& tokens_bt, const Tensor& mask_bt)> logits_;
};

}  // namespace mstrain
