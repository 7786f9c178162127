#include "suites/transformer/text/causal_run.h"

#include "core/base/error.h"
#include "suites/transformer/text/next_token.h"

namespace mstrain {

TrainTask CausalRun::task() const {
  return next_token_task(*network(), data.seq_length,
                         [model = causal_model()](const Params& params, const Tensor& tokens_bt,
                                                  const Tensor& targets_bt) {
                           return model->losses(params, tokens_bt, targets_bt);
                         });
}

TrainData CausalRun::samples(const Json& source) const {
  TrainData out = text_data(source);
  add_windows(corpus(), data, out);
  return out;
}

void CausalRun::check(const YamlNode& tree) const {
  TextRun::check(tree);
  if (data.seq_length > longest_sequence()) {
    config_fail(tree, "data.seq_length",
                fmt::format("{} is more than model.max_position_embeddings {}", data.seq_length,
                            longest_sequence()));
  }
}

void CausalRun::check_head(HeadType asked) const {
  if (head() != asked && !(head() == HeadType::kBoth && asked == HeadType::kNextToken)) {
    throw ConfigError(
        fmt::format("model.head: the checkpoint's is {}, but the configuration asks for {}, by "
                    "model.head and objective.type",
                    std::data(kHeadNames)[static_cast<size_t>(head())],
                    std::data(kHeadNames)[static_cast<size_t>(asked)]));
  }
}

}  // namespace mstrain
