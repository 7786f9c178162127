#include "suites/transformer/t5/model.h"

#include <cmath>

#include "core/base/error.h"
#include "core/data/windows.h"
#include "core/nn/layers.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/stage.h"
#include "core/runtime/context.h"

namespace mstrain::t5 {
namespace {

// [b, n], n > every segment: how many of `flags`[b, t] each segment has.
Tensor counts_by_segment(const Tensor& flags_bt, const Tensor& segments_bt) {
  const Shape counts{flags_bt.dim(0), flags_bt.dim(1) + 1};
  return scatter_add_along(zeros({Dtype::kI32, counts}), segments_bt, cast(flags_bt, Dtype::kI32),
                           1);
}

Tensor count(const Tensor& flags) { return sum(cast(flags, Dtype::kI32)); }

}  // namespace

T5::T5(const T5Config& config, Recompute recompute) : config_(config), recompute_(recompute) {
  check_config(config);
  if (config.vocab_size.is_word()) {
    throw ConfigError("model.vocab_size: the model needs a number");
  }
}

Tensor T5::encode(const Params& p, const Text& source) const {
  const Params stack = p / "encoder";
  const Sight sight{.distances = distances(stack),
                    .seen_bs = source.mask,
                    .query_segments = source.segments,
                    .key_segments = source.segments};
  Tensor x_btc = embed(p, stack, source.tokens);
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const Params block = stack / "block" / i;
    const auto layer = [&](const Tensor& x_in) {
      const NameScope scope = NameScope::absolute(block.path());
      const Tensor x = x_in + attention_part(block / "layer" / 0, "SelfAttention", x_in,
                                             [&](const Params& a, const Tensor& normed) {
                                               const KeysValues own = keys_values(a, normed);
                                               return attend(a, config_, queries(a, normed),
                                                             own.keys, own.values, sight);
                                             });
      return x + feed_forward(block / "layer" / 1, x);
    };
    x_btc = model_layer(i, recompute_, layer, x_btc);
  }
  return finish(stack, stage_point(x_btc, config_.num_layers));
}

Tensor T5::decode(const Params& p, const Text& target, const Tensor& memory_bsc, const Text& source,
                  const DecoderView& view) const {
  const Params stack = p / "decoder";
  const Tensor table = distances(stack);
  const Sight to_text{.distances = table,
                      .causal = true,
                      .seen_bs = target.mask,
                      .query_segments = target.segments,
                      .key_segments = target.segments};
  const Sight to_memory{
      .seen_bs = source.mask, .query_segments = target.segments, .key_segments = source.segments};
  Tensor x_btc = embed(p, stack, target.tokens);
  for (int64_t i = 0; i < config_.decoder_layers(); ++i) {
    const Params block = stack / "block" / i;
    const auto attend_to_text = [&](const Params& a, const Tensor& normed) {
      const Tensor q = queries(a, normed);
      const KeysValues own = keys_values(a, normed);
      return view.to_text ? view.to_text(i, q, own, table)
                          : attend(a, config_, q, own.keys, own.values, to_text);
    };
    const auto attend_to_memory = [&](const Params& a, const Tensor& normed) {
      const Tensor q = queries(a, normed);
      if (view.to_memory) {
        return view.to_memory(i, q);
      }
      const KeysValues of_memory = keys_values(a, memory_bsc);
      return attend(a, config_, q, of_memory.keys, of_memory.values, to_memory);
    };
    const auto layer = [&](const Tensor& x_in) {
      const NameScope scope = NameScope::absolute(block.path());
      const Params parts = block / "layer";
      Tensor x = x_in + attention_part(parts / 0, "SelfAttention", x_in, attend_to_text);
      x += attention_part(parts / 1, "EncDecAttention", x, attend_to_memory);
      return x + feed_forward(parts / 2, x);
    };
    x_btc = model_layer(config_.num_layers + i, recompute_, layer, x_btc);
  }
  const Tensor features =
      finish(stack, stage_point(x_btc, config_.num_layers + config_.decoder_layers()));
  return config_.scales_outputs()
             ? features * (1 / std::sqrt(static_cast<double>(config_.hidden_size)))
             : features;
}

Tensor T5::logits(const Params& p, const Tensor& features) const {
  const Weight w_vc = head_weight(p);
  const NameScope scope("lm_head");
  return multiply(features, w_vc);
}

KeysValues T5::memory_keys(const Params& p, int64_t layer, const Tensor& memory_bsc) const {
  return keys_values(p / "decoder" / "block" / layer / "layer" / 1 / "EncDecAttention", memory_bsc);
}

Weight T5::token_weight(const Params& p) const {
  return (p / "shared")
      .weight("weight", {*config_.vocab_size.value, config_.hidden_size}, {},
              normal_init(config_.init.factor));
}

Weight T5::head_weight(const Params& p) const {
  return config_.tie_embeddings
             ? token_weight(p)
             : (p / "lm_head")
                   .weight("weight", {*config_.vocab_size.value, config_.hidden_size}, {},
                           normal_init(config_.init.factor));
}

Tensor T5::embed(const Params& p, const Params& stack, const Tensor& tokens_bt) const {
  const Weight weight = token_weight(p);
  const NameScope scope = NameScope::absolute(stack.path());
  return dropout(stack / "embed_dropout", embedding(weight, tokens_bt), config_.dropout);
}

Tensor T5::distances(const Params& stack) const {
  return (stack / "block" / 0 / "layer" / 0 / "SelfAttention" / "relative_attention_bias")
      .get("weight", {config_.relative_buckets, config_.num_attention_heads},
           weights(config_.hidden_size));
}

Tensor T5::finish(const Params& stack, const Tensor& x_btc) const {
  return dropout(stack / "final_dropout",
                 rms_norm(stack / "final_layer_norm", x_btc, config_.norm.eps), config_.dropout);
}

Tensor T5::attention_part(
    const Params& layer, std::string_view name, const Tensor& x_btc,
    const std::function<Tensor(const Params& p, const Tensor& normed)>& attend) const {
  const Params p = layer / name;
  const NameScope scope = NameScope::absolute(p.path());
  const Tensor out_bthd = attend(p, rms_norm(layer / "layer_norm", x_btc, config_.norm.eps));
  const Tensor out_btc =
      linear(p / "o", out_bthd, {config_.hidden_size},
             {.in_dims = 2,
              .bias = false,
              .out_first = true,
              .weight_init = weights(config_.num_attention_heads * config_.d_kv)});
  return dropout(layer / "dropout", out_btc, config_.dropout);
}

Tensor T5::queries(const Params& p, const Tensor& x_btc) const {
  return linear(p / "q", x_btc, {config_.num_attention_heads, config_.d_kv},
                {.bias = false,
                 .out_first = true,
                 // Scores are not scaled by 1 / sqrt(d_kv): the weights are.
                 .weight_init = weights(config_.hidden_size * config_.d_kv)});
}

KeysValues T5::keys_values(const Params& p, const Tensor& x_bsc) const {
  const Shape by_head{config_.num_attention_heads, config_.d_kv};
  const LinearOptions options{
      .bias = false, .out_first = true, .weight_init = weights(config_.hidden_size)};
  return {linear(p / "k", x_bsc, by_head, options), linear(p / "v", x_bsc, by_head, options)};
}

Tensor T5::feed_forward(const Params& layer, const Tensor& x_btc) const {
  const Params p = layer / "DenseReluDense";
  const NameScope scope = NameScope::absolute(p.path());
  const auto wide = [&](const char* name, const Tensor& x) {
    return linear(p / name, x, {config_.ffn_hidden_size},
                  {.bias = false, .out_first = true, .weight_init = weights(config_.hidden_size)});
  };
  const auto inner = [&](const Tensor& x) {
    const Tensor normed = rms_norm(layer / "layer_norm", x, config_.norm.eps);
    if (!config_.gated) {
      return activate(config_.activation, wide("wi", normed));
    }
    const Tensor gate = activate(config_.activation, wide("wi_0", normed));
    return gate * wide("wi_1", normed);
  };
  const Tensor out_btc =
      linear(p / "wo", dropout(p / "dropout", inner(x_btc), config_.dropout), {config_.hidden_size},
             {.bias = false, .out_first = true, .weight_init = weights(config_.ffn_hidden_size)});
  return dropout(layer / "dropout", out_btc, config_.dropout);
}

Init T5::weights(int64_t inputs) const {
  return normal_init(config_.init.factor / std::sqrt(static_cast<double>(inputs)));
}

LossSums T5::losses(const Params& p, const Text& source, const Text& target,
                    const Tensor& labels_bt) const {
  const Tensor features_btc = decode(p, target, encode(p, source), source);
  const Tensor w_vc = numbers(head_weight(p));
  const NameScope scope("lm_head");
  const LinearCrossEntropyRows rows = linear_cross_entropy_rows(
      features_btc, w_vc, labels_bt,
      {.transpose_weight = true,
       .ignore_index = kIgnoreTarget,
       .label_smoothing = current_context().training ? config_.label_smoothing : 0.0});
  const Tensor counted = not_equal(labels_bt, kIgnoreTarget);
  const Tensor right = logical_and(counted, equal(labels_bt, rows.best));
  const Tensor wrong = logical_and(counted, not_equal(labels_bt, rows.best));
  const auto per_sample = [&](const Tensor& flags) {
    return target.segments.defined() ? counts_by_segment(flags, target.segments)
                                     : sum(cast(flags, Dtype::kI32), {1});
  };
  const Tensor has_label = per_sample(counted) > 0;
  return {.loss = sum(rows.loss),
          .count = count(counted),
          .correct = count(right),
          .exact = count(logical_and(has_label, equal(per_sample(wrong), 0))),
          .samples = count(has_label)};
}

std::vector<ParamSpec> T5::specs() const {
  // What ranks along `tensor` can share.
  static constexpr SharedDim kTable[] = {{"shared.weight", 0, PartsOfDim::kFilledUp},
                                         {"lm_head.weight", 0, PartsOfDim::kFilledUp},
                                         {"q.weight", 0},
                                         {"k.weight", 0},
                                         {"v.weight", 0},
                                         {"relative_attention_bias.weight", 1},
                                         {"o.weight", 1},
                                         {"wi.weight", 0},
                                         {"wi_0.weight", 0},
                                         {"wi_1.weight", 0},
                                         {"wo.weight", 1}};
  const auto model = [&](const Params& p) {
    const Text text{zeros({Dtype::kI32, {1, 1}})};
    logits(p, decode(p, text, encode(p, text), text));
  };
  return shared(declare_params(model), kTable);
}

}  // namespace mstrain::t5
