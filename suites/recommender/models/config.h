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

struct TowerConfig {
  std::vector<int64_t> hidden{256, 128, 64};
  Activation activation = Activation::kRelu;
  double dropout = 0;

  template <class V>
  void fields(V& v) {
    v("hidden", hidden, "widths of the hidden layers",
      rule::at_least(1).at_most(1 << 20).elsewhere_called(
          {"mlp", "deep_layers", "dnn_hidden_units"}));
    v("activation", activation, "between layers",
      rule::one_of({"gelu", "gelu_new", "relu", "silu", "tanh"}).elsewhere_called({"hidden_act"}));
    v("dropout", dropout, "probability of dropping an element after each hidden layer in training",
      rule::at_least(0).below(1));
  }
};

}  // namespace mstrain::recommender
