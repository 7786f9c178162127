#include "suites/transformer/text/causal_network.h"

#include "core/base/error.h"
#include "core/nn/attention.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "suites/transformer/text/generate.h"

namespace mstrain {
namespace {

constexpr int32_t kIgnored = -100;

// The labels, one position ahead: [b, t].
Tensor shifted(const Tensor& labels_bt) {
  const int64_t b = labels_bt.dim(0);
  const int64_t t = labels_bt.dim(1);
  const Tensor parts[] = {slice(labels_bt, 1, 1, t), full({b, 1}, kIgnored, Dtype::kI32)};
  return concat(parts, 1);
}

}  // namespace

std::vector<InputSpec> CausalNetwork::inputs() const {
  const std::shared_ptr<const CausalModel> model = this->model();
  const int64_t positions = model->max_positions();
  const int64_t vocab = model->vocab_size();
  const std::vector<InputSpec::Dim> dims{{"batch"}, {"time", positions}};
  std::vector<InputSpec> out{{"input_ids", dims, {{0, vocab}}, true},
                             {"attention_mask", dims, {{0, 2}}},
                             {"position_ids", dims, {{0, positions}}, false, true}};
  if (model->head() != HeadType::kScore) {
    out.push_back({"labels", dims, {{0, vocab, kIgnored}}});
  }
  return out;
}

Computed CausalNetwork::compute(const Params& params, const NamedTensors& inputs) const {
  const std::shared_ptr<const CausalModel> model = this->model();
  TokenView view{.positions_bt = given(inputs, "position_ids")};
  if (const Tensor mask_bt = given(inputs, "attention_mask"); mask_bt.defined()) {
    const Tensor seen_bt = not_equal(mask_bt, 0);
    view.attend = [model, seen_bt](int64_t layer, const Tensor& q, const Tensor& k,
                                   const Tensor& v) {
      AttentionOptions options = model->attention_options(layer);
      options.key_mask = seen_bt;
      return attention(q, k, v, options);
    };
  }
  const Tensor& tokens_bt = inputs.at("input_ids");
  if (model->head() == HeadType::kScore) {
    const Tensor places_bt = iota(tokens_bt.shape(), 1, Dtype::kI32);
    const Tensor mask_bt = given(inputs, "attention_mask");
    const Tensor seen_bt =
        mask_bt.defined() ? where(not_equal(mask_bt, 0), places_bt, -1) : places_bt;
    const Tensor is_end_bt = equal(places_bt, max(seen_bt, {1}, /*keep_dims=*/true));
    const Tensor scores_b = model->scores(params, tokens_bt, is_end_bt, view);
    return {reshape(scores_b, {scores_b.dim(0), 1}), Tensor()};
  }
  Computed out{(*model)(params, tokens_bt, view), Tensor()};
  if (const Tensor labels_bt = given(inputs, "labels"); labels_bt.defined()) {
    out.loss = cross_entropy(out.logits, shifted(labels_bt));
  }
  return out;
}

std::unique_ptr<TextWriter> CausalNetwork::writer(std::shared_ptr<const Tokenizer> tokenizer,
                                                  Execution execution) const {
  const std::shared_ptr<const CausalModel> model = this->model();
  return model->head() == HeadType::kScore
             ? nullptr
             : std::make_unique<Generator>(model, std::move(tokenizer), execution);
}

}  // namespace mstrain
