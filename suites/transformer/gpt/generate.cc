#include "suites/transformer/gpt/generate.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ops/index.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/train/step.h"

namespace mstrain::gpt {
namespace {

constexpr int64_t kShortestWindow = 64;

Context for_inference() {
  Context context = current_context();
  context.training = false;
  return context;
}

}  // namespace

Generator::Generator(Gpt model, std::shared_ptr<const Tokenizer> tokenizer, Execution execution)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), execution_(execution) {}

std::vector<float> Generator::next_logits(const Params& params, std::span<const int32_t> ids) {
  const auto length = static_cast<int64_t>(ids.size());
  int64_t window = kShortestWindow;
  while (window < length) {
    window *= 2;
  }
  window = std::min(window, model_.config().max_position_embeddings);
  // Attention is causal: what stands after the last token changes nothing.
  std::vector<int32_t> padded(ids.begin(), ids.end());
  padded.resize(static_cast<size_t>(window), 0);
  const Tensor tokens = tensor<int32_t>(padded, {1, window});
  const Tensor last = scalar(static_cast<double>(length - 1), Dtype::kI32);
  const auto logits = [&](const Params& p, const Tensor& tokens_1t, const Tensor& position) {
    return gather(select(model_(p, tokens_1t), 0, 0), position, 0);
  };
  if (execution_ == Execution::kEager) {
    return to_vector<float>(logits(params, tokens, last));
  }
  Compiled& compiled = programs_[window];
  if (compiled.program == nullptr) {
    Tensors inputs = flatten_tree(params);
    Types types;
    for (const Tensor& input : inputs) {
      types.push_back(input.type());
    }
    types.push_back(tokens.type());
    types.push_back(last.type());
    const GraphPtr graph = trace_program(
        types,
        [&](std::span<const Tensor> leaves) {
          const size_t parameters = leaves.size() - 2;
          const Params p = with_leaves(params, leaves.first(parameters));
          return Tensors{logits(p, leaves[parameters], leaves[parameters + 1])};
        },
        &compiled.captures);
    compiled.program = compile(*graph);
  }
  Tensors inputs = flatten_tree(params);
  inputs.push_back(tokens);
  inputs.push_back(last);
  inputs.insert(inputs.end(), compiled.captures.begin(), compiled.captures.end());
  return to_vector<float>(compiled.program->run(std::move(inputs)).at(0));
}

std::string Generator::generate(const Params& params, const std::string& prompt, int64_t tokens,
                                const SamplingOptions& options,
                                const std::function<void(std::string_view)>& on_text) {
  check_sampling(options);
  const Context context = for_inference();
  const ContextScope scope(context);
  std::vector<int32_t> ids = tokenizer_->encode(prompt.empty() ? "\n" : prompt);
  const auto longest = static_cast<size_t>(model_.config().max_position_embeddings);
  // A model may have more logits than its tokenizer has tokens.
  const auto known = static_cast<size_t>(tokenizer_->vocab_size());
  Rng rng(options.seed, hash_bytes("sampling").lo);
  std::string text;
  for (int64_t i = 0; i < tokens; ++i) {
    const size_t first = ids.size() > longest ? ids.size() - longest : 0;
    const std::vector<float> logits = next_logits(params, std::span(ids).subspan(first));
    const int64_t id =
        choose_token(std::span(logits).first(std::min(known, logits.size())), options, rng);
    ids.push_back(static_cast<int32_t>(id));
    const std::string piece = tokenizer_->decode(std::span(ids).last(1));
    text += piece;
    if (on_text != nullptr) {
      on_text(piece);
    }
  }
  return text;
}

}  // namespace mstrain::gpt
