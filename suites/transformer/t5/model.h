// T5 (Raffel et al. 2020): an encoder and a decoder of pre-norm blocks without biases, whose attention counts distances;
// with a gated feed-forward layer and a head of its own it is T5 v1.1 (Shazeer 2020), Flan-T5 and mT5.
// Parameters carry the names of Hugging Face's T5ForConditionalGeneration and keep their logical dims (see hf_names.h).
#pragma once

#include <functional>

#include "core/nn/model_layer.h"
#include "core/tensor/params.h"
#include "suites/transformer/t5/attention.h"
#include "suites/transformer/t5/config.h"

namespace mstrain::t5 {

// What the encoder reads, or the decoder.
struct Text {
  Tensor tokens;     // i32 [b, t]
  Tensor mask = {};  // bool [b, t]: tokens that are seen; null: all
  Tensor segments =
      {};  // i32 [b, t]: which of the samples in its row a token belongs to; null: a row is one sample
};

// Keys and values of some tokens, [b, s, heads, d_kv].
struct KeysValues {
  Tensor keys, values;
};

// How the decoder attends where it goes on with texts that are begun.
struct DecoderView {
  std::function<Tensor(int64_t layer, const Tensor& q, const KeysValues& own,
                       const Tensor& distances)>
      to_text;
  std::function<Tensor(int64_t layer, const Tensor& q)> to_memory;
};

// Over the labels of a batch that are not ignored; scalars [], counts i32.
struct LossSums {
  Tensor loss, count;
  Tensor correct;  // labels that are the likeliest token
  Tensor exact,
      samples;  // samples with a label, and those of them all of whose labels are the likeliest token
};

class T5 {
 public:
  // `config.vocab_size` must be a number. Throws ConfigError for a configuration that check_config() rejects.
  explicit T5(const T5Config& config, Recompute recompute = Recompute::kNone);

  const T5Config& config() const { return config_; }

  // -> memory[b, s, hidden_size]
  Tensor encode(const Params& p, const Text& source) const;
  // The decoder's features of target.tokens[b, t], which begin with decoder_start_token: [b, t, hidden_size]. `memory` and
  // `source` are not read where `view` attends to the memory.
  Tensor decode(const Params& p, const Text& target, const Tensor& memory_bsc, const Text& source,
                const DecoderView& view = {}) const;
  // features[..., hidden_size] -> logits[..., vocab]
  Tensor logits(const Params& p, const Tensor& features) const;
  // What a layer of the decoder attends to of the memory.
  KeysValues memory_keys(const Params& p, int64_t layer, const Tensor& memory_bsc) const;

  // Cross-entropy of labels[b, t] (-100: not counted); they are smoothed in a context that is training.
  LossSums losses(const Params& p, const Text& source, const Text& target,
                  const Tensor& labels_bt) const;

  // Every parameter with its initialiser. Nothing is allocated.
  std::vector<ParamSpec> specs() const;

 private:
  Tensor embed(const Params& p, const Params& stack, const Tensor& tokens_bt) const;
  Weight token_weight(const Params& p) const;  // [vocab, hidden_size]
  Weight head_weight(const Params& p) const;
  Tensor distances(const Params& stack) const;  // [relative_buckets, heads]
  Tensor finish(const Params& stack, const Tensor& x_btc) const;
  // What the parts of a block, each with a norm of its own, add to the stream.
  Tensor attention_part(
      const Params& layer, std::string_view name, const Tensor& x_btc,
      const std::function<Tensor(const Params& p, const Tensor& normed)>& attend) const;
  Tensor feed_forward(const Params& layer, const Tensor& x_btc) const;

  Tensor queries(const Params& p, const Tensor& x_btc) const;
  KeysValues keys_values(const Params& p, const Tensor& x_bsc) const;
  // A weight whose outputs have a variance of 1 where its `inputs` have.
  Init weights(int64_t inputs) const;

  T5Config config_;
  Recompute recompute_;
};

}  // namespace mstrain::t5
