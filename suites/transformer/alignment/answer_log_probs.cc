#include "suites/transformer/alignment/answer_log_probs.h"

#include <algorithm>
#include <cmath>

#include "core/data/windows.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "suites/transformer/alignment/grpo_task.h"
#include "suites/transformer/text/key_value_cache.h"
#include "suites/transformer/text/planned_memory.h"

namespace mstrain {

AnswerLogProbs::AnswerLogProbs(std::shared_ptr<const CausalModel> model, std::string reference,
                               int64_t rows, int64_t seq, const GenerationConfig& generation,
                               Execution execution, const AnswerGroups& groups,
                               const std::shared_ptr<const SharedModel>& shared)
    : model_(model), rows_(rows), seq_(seq), generation_(generation), groups_(groups) {
  policy_ = [model, generation, groups](const Params& params, const Tensors& batch) {
    return answer_log_probs(*model, params, batch[0], batch[1], drawn_from(generation, batch),
                            groups);
  };
  reference_ = [model, reference, generation, groups](const Params& params, const Tensors& batch) {
    return reference_log_probs(*model, params, reference, batch[0], batch[1],
                               drawn_from(generation, batch), groups);
  };
  valued_ = [model, generation](const Params& params, const Tensors& batch) {
    const Tensor features_btc = model->features(params, batch[0]);
    const Tensor log_prob_bt =
        drawn_log_probs(*model, params, features_btc, batch[1], drawn_from(generation, batch));
    const Tensor both[] = {cast(log_prob_bt, Dtype::kF32),
                           cast(model->values(params, features_btc), Dtype::kF32)};
    return concat(both, 0);
  };
  if (execution == Execution::kGraph) {
    const auto compiled = [&shared](Reader reader, const char* name) -> Reader {
      if (shared != nullptr) {
        reader = [shared, alone = std::move(reader)](const Params& params, const Tensors& batch) {
          return shared->divide(alone, params, batch);
        };
      }
      return jit(std::move(reader), {.name = name});
    };
    valued_ = compiled(valued_, "log_probs_and_values");
    policy_ = compiled(policy_, "log_probs");
    reference_ = compiled(reference_, "reference_log_probs");
  }
}

int64_t AnswerLogProbs::rows_at_once() const {
  constexpr int64_t kMost = 64;
  int64_t rows = std::min(kMost, rows_);
  while (rows_ % rows != 0) {
    --rows;
  }
  return rows;
}

int64_t AnswerLogProbs::bytes(Dtype dtype) const {
  const Context context = for_inference();
  const ContextScope scope(context);
  Types batch(2, TensorType{Dtype::kI32, {rows_at_once(), seq_}});
  add_support(generation_, batch);
  return planned_memory(*model_, dtype, batch, {},
                        [&](const Params& p, std::span<const Tensor> in) {
                          return Tensors{answer_log_probs(*model_, p, in[0], in[1],
                                                          drawn_from(generation_, in), groups_)};
                        })
      .bytes;
}

std::vector<float> AnswerLogProbs::of_policy(const Params& params, const Answers& answers) const {
  return read<1>(policy_, params, answers)[0];
}

std::vector<float> AnswerLogProbs::of_reference(const Params& params,
                                                const Answers& answers) const {
  return read<1>(reference_, params, answers)[0];
}

AnswerLogProbs::Valued AnswerLogProbs::of_policy_and_values(const Params& params,
                                                            const Answers& answers) const {
  auto [log_probs, values] = read<2>(valued_, params, answers);
  return {std::move(log_probs), std::move(values)};
}

template <size_t outputs>
std::array<std::vector<float>, outputs> AnswerLogProbs::read(const Reader& reader,
                                                             const Params& params,
                                                             const Answers& answers) const {
  const int64_t rows = rows_at_once();
  const auto size = static_cast<size_t>(rows * seq_);
  const auto width = static_cast<size_t>(generation_.support());
  std::array<std::vector<float>, outputs> out;
  for (size_t at = 0; at < answers.tokens.size(); at += size) {
    Tensors batch{tensor<int32_t>(answers.tokens.subspan(at, size), {rows, seq_}),
                  tensor<int32_t>(answers.targets.subspan(at, size), {rows, seq_})};
    if (width > 0) {
      batch.push_back(tensor<int32_t>(answers.supports.subspan(at * width, size * width),
                                      {rows, seq_, generation_.support()}));
    }
    const std::vector<float> found = to_vector<float>(cast(reader(params, batch), Dtype::kF32));
    for (size_t i = 0; i < outputs; ++i) {
      const auto begin = found.begin() + static_cast<ptrdiff_t>(i * size);
      out[i].insert(out[i].end(), begin, begin + static_cast<ptrdiff_t>(size));
    }
  }
  return out;
}

namespace {

// The mean of `value` over the tokens that are learnt from; 0 of none.
double mean_of_tokens(std::span<const int32_t> targets,
                      const std::function<double(size_t at)>& value) {
  double sum = 0;
  double count = 0;
  for (size_t at = 0; at < targets.size(); ++at) {
    if (targets[at] != kIgnoreTarget) {
      sum += value(at);
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace

double entropy_of(std::span<const float> policy, std::span<const int32_t> targets) {
  return mean_of_tokens(targets, [&](size_t at) { return -static_cast<double>(policy[at]); });
}

double divergence_of(std::span<const float> policy, std::span<const float> reference,
                     std::span<const int32_t> targets) {
  return mean_of_tokens(targets, [&](size_t at) {
    const double apart = static_cast<double>(reference[at]) - policy[at];
    return std::expm1(apart) - apart;
  });
}

Mismatch mismatch_of(std::span<const float> step, std::span<const float> drawn,
                     std::span<const int32_t> targets) {
  const auto apart = [&](size_t at) { return static_cast<double>(step[at]) - drawn[at]; };
  Mismatch out;
  out.mean = mean_of_tokens(targets, [&](size_t at) {
    out.max = std::max(out.max, std::abs(apart(at)));
    return std::abs(apart(at));
  });
  out.chi_square =
      mean_of_tokens(targets, [&](size_t at) { return std::pow(std::expm1(apart(at)), 2); });
  return out;
}

ClippedShares clipped_shares(const GrpoConfig& config, std::span<const float> now,
                             std::span<const float> written, std::span<const int32_t> targets,
                             std::span<const float> advantages) {
  const bool are_by_token = advantages.size() == targets.size();
  const size_t seq = are_by_token ? targets.size() : targets.size() / advantages.size();
  std::vector<double> ratios(targets.size());
  for (size_t row = 0; row < targets.size() / seq; ++row) {
    const size_t begin = row * seq;
    const auto apart = [&](size_t at) { return static_cast<double>(now[at]) - written[at]; };
    const double of_answer =
        mean_of_tokens(targets.subspan(begin, seq), [&](size_t i) { return apart(begin + i); });
    for (size_t at = begin; at < begin + seq; ++at) {
      ratios[at] = std::exp(config.ratios == RatioOf::kToken ? apart(at) : of_answer);
    }
  }
  const auto advantage = [&](size_t at) { return advantages[are_by_token ? at : at / seq]; };
  return {mean_of_tokens(targets,
                         [&](size_t at) {
                           return advantage(at) < 0 && ratios[at] < 1 - config.clip_low ? 1 : 0;
                         }),
          mean_of_tokens(targets, [&](size_t at) {
            return advantage(at) > 0 && ratios[at] > 1 + config.clip_high ? 1 : 0;
          })};
}

}  // namespace mstrain
