// What the `model` sections of recommenders have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/nn/activation.h"
#include "suites/run/init_from.h"

namespace mstrain::recommender {

struct FieldsConfig {
  int64_t embedding_dim = 16;
  bool embed_numeric = false;
  std::optional<std::vector<std::string>> vector_fields;
  AutoOr<int64_t> num_numeric;
  AutoOr<int64_t> num_fields;
  InitFrom init;

  template <class V>
  void fields(V& v) {
    v("embedding_dim", embedding_dim, "floats of the vector of an id",
      rule::at_least(1).at_most(65536).elsewhere_called(
          {"emb_dim", "embedding_size", "arch_sparse_feature_size"}));
    v("embed_numeric", embed_numeric,
      "numeric columns are ids too, whose vectors are multiplied by the column's value; false: "
      "they "
      "enter as numbers");
    v("vector_fields", vector_fields, "fields whose ids have vectors; null: all");
    v("num_numeric", num_numeric, "numeric columns that enter as numbers; auto: those of the data",
      rule::at_least(0).at_most(1 << 20));
    v("num_fields", num_fields, "vectors of a sample; auto: those of the data",
      rule::at_least(0).at_most(1 << 20));
    v("init", init, "weights and rows to begin with");
  }
};

// Batch normalisation before each activation of the hidden layers.
struct BatchNormConfig {
  AutoOr<int64_t> samples;
  double momentum = 0.1;
  double eps = 1e-5;

  template <class V>
  void fields(V& v) {
    v("samples", samples,
      "whose statistics they are normalised by, one after the other in the batch; divides "
      "batch.micro; auto: batch.micro",
      rule::at_least(2));
    v("momentum", momentum, "weight of a batch in the statistics that evaluations use",
      rule::positive().at_most(1));
    v("eps", eps, "added to the variance", rule::positive());
  }
};

struct TowerConfig {
  std::vector<int64_t> hidden{256, 128, 64};
  Activation activation = Activation::kRelu;
  double dropout = 0;
  std::optional<BatchNormConfig> batch_norm;

  template <class V>
  void fields(V& v) {
    v("hidden", hidden, "widths of the hidden layers",
      rule::at_least(1).at_most(1 << 20).elsewhere_called(
          {"mlp", "deep_layers", "dnn_hidden_units"}));
    v("activation", activation, "between layers",
      rule::one_of({"gelu", "gelu_new", "relu", "silu", "tanh"}).elsewhere_called({"hidden_act"}));
    v("dropout", dropout, "probability of dropping an element after each hidden layer in training",
      rule::at_least(0).below(1));
    v("batch_norm", batch_norm, "of each hidden layer, before its activation; null: none");
  }
};

}  // namespace mstrain::recommender
