#include "suites/transformer/alignment/reward_model.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/nn/lora.h"
#include "core/ops/elementwise.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "suites/run/stored_model.h"
#include "suites/transformer/alignment/answers.h"
#include "suites/transformer/text/key_value_cache.h"

namespace mstrain {
namespace {

// Rows and places of a pass are multiples of these, so that few programs are compiled.
constexpr int64_t kScoreRows = 32;
constexpr int64_t kScorePlaces = 16;

StoredModel scoring_model(const std::string& path) {
  StoredModel stored = open_model(real_files(), path);
  check(stored.network->scores_texts(),
        "{}: writes text; a reward model is trained with objective.type: reward", path);
  check(!tokenizer_folder(real_files(), stored).empty(), "{}: has no tokenizer", path);
  return stored;
}

}  // namespace

void check_reward_model(const std::string& path) { scoring_model(path); }

int64_t reward_model_bytes(const std::string& path) {
  int64_t bytes = 0;
  for (const ParamSpec& spec : scoring_model(path).network->specs()) {
    bytes += spec.type.bytes();
  }
  return bytes;
}

RewardModel::RewardModel(const std::string& path, const AutoOr<std::string>& end) : path_(path) {
  const StoredModel stored = scoring_model(path);
  network_ = stored.network;
  tokenizer_ = stored_tokenizer(real_files(), stored);
  check(tokenizer_ != nullptr, "{}: its tokenizer is none that is known", path);
  end_ = end_token(*tokenizer_, end);
  const std::vector<InputSpec> inputs = network_->inputs();
  longest_ = inputs.at(0).dims.at(1).most.value();
  params_ = load_params(real_files(), stored);
  logits_ = jit([network = network_](const Params& params, const Tensor& tokens_bt,
                                     const Tensor& mask_bt) {
    return network->compute(params, {{"input_ids", tokens_bt}, {"attention_mask", mask_bt}}).logits;
  });
}

std::vector<int32_t> RewardModel::tokens_of(const WrittenAnswer& answer) const {
  std::vector<int32_t> ids = tokenizer_->encode_beginning(answer.prompt);
  const std::vector<int32_t> written = tokenizer_->encode(answer.text);
  ids.insert(ids.end(), written.begin(), written.end());
  if (!answer.is_cut) {
    ids.push_back(end_);
  }
  check(std::ssize(ids) <= longest_, "{}: a text of {} tokens; the reward model sees {}", path_,
        ids.size(), longest_);
  return ids;
}

std::vector<double> RewardModel::score(std::span<const WrittenAnswer> answers) const {
  const Context context = for_inference();
  const ContextScope inference(context);
  const LoraScope no_adapters(nullptr);
  std::vector<double> out;
  for (size_t first = 0; first < answers.size(); first += kScoreRows) {
    const auto some = answers.subspan(first, std::min<size_t>(kScoreRows, answers.size() - first));
    std::vector<std::vector<int32_t>> texts;
    int64_t places = 1;
    for (const WrittenAnswer& answer : some) {
      texts.push_back(tokens_of(answer));
      places = std::max(places, std::ssize(texts.back()));
    }
    places = std::min((places + kScorePlaces - 1) / kScorePlaces * kScorePlaces, longest_);
    std::vector<int32_t> tokens, mask;
    for (size_t row = 0; row < kScoreRows; ++row) {
      const std::vector<int32_t> text = row < texts.size() ? texts[row] : std::vector<int32_t>{0};
      tokens.insert(tokens.end(), text.begin(), text.end());
      mask.insert(mask.end(), text.size(), 1);
      tokens.resize((row + 1) * static_cast<size_t>(places), 0);
      mask.resize((row + 1) * static_cast<size_t>(places), 0);
    }
    const Shape shape{kScoreRows, places};
    const std::vector<double> scores =
        to_doubles(logits_(params_, tensor<int32_t>(tokens, shape), tensor<int32_t>(mask, shape)));
    out.insert(out.end(), scores.begin(), scores.begin() + std::ssize(some));
  }
  return out;
}

}  // namespace mstrain
