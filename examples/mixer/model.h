// An MLP-Mixer (Tolstikhin et al. 2021) over characters, made causal: position t is mixed of those up to t.
#pragma once

#include "core/ops/linear_cross_entropy.h"
#include "core/tensor/params.h"
#include "suites/run/init_from.h"

namespace mstrain::mixer {

enum class ModelType { kMixer };

struct MixerConfig {
  ModelType type = ModelType::kMixer;
  AutoOr<int64_t> vocab_size;
  int64_t hidden_size = 96;
  int64_t num_layers = 4;
  int64_t max_position_embeddings = 128;
  double dropout = 0;
  InitFrom init;

  template <class V>
  void fields(V& v) {
    v("type", type, "model family", rule::one_of({"mixer"}));
    v("vocab_size", vocab_size, "tokens; auto: as many as the tokenizer has", rule::at_least(1));
    v("hidden_size", hidden_size, "width of the stream", rule::at_least(1).at_most(65536));
    v("num_layers", num_layers, "blocks", rule::at_least(1).at_most(4096));
    v("max_position_embeddings", max_position_embeddings, "longest sequence",
      rule::at_least(1).at_most(65536));
    v("dropout", dropout, "of what the channels add to the stream", rule::at_least(0).below(1));
    v("init", init, "initial weights");
  }
};

class Mixer {
 public:
  explicit Mixer(const MixerConfig& config) : config_(config) {}

  // tokens[b, t] -> logits[b, t, vocab].
  Tensor logits(const Params& p, const Tensor& tokens_bt) const;
  // Against targets[b, t]; -100 is not counted.
  CrossEntropySums losses(const Params& p, const Tensor& tokens_bt, const Tensor& targets_bt) const;

 private:
  Tensor features(const Params& p, const Tensor& tokens_bt) const;
  Tensor head_weight(const Params& p) const;

  MixerConfig config_;
};

}  // namespace mstrain::mixer
