// A small model of marked layers, with what may lie between them, and its gradient program.
#pragma once

#include "core/nn/layers.h"
#include "core/nn/model_layer.h"
#include "core/nn/random_scope.h"
#include "core/ops/build.h"
#include "core/ops/random.h"
#include "core/ops/stage.h"
#include "tests/core/transform/support.h"

namespace mstrain {

// What may lie between the layers of a model besides the stream.
struct LayeredNet {
  static constexpr int64_t kLayers = 8;
  static constexpr int64_t kWidth = 16;

  Recompute recompute = Recompute::kNone;
  double dropout = 0;
  bool skips = false;  // the second layer's result is read by the fifth
  bool ties = false;   // the head multiplies by the embedding
  int64_t again = 0;   // the table is read once more before this layer, where that is not the first

  Tensor operator()(const Params& p, const Tensor& ids_b) const {
    const Tensor table = (p / "embed").get("weight", {7, kWidth}, normal_init(1));
    const Tensor mask = cast(not_equal(ids_b, 3), Dtype::kF32);  // anybody can make it
    Tensor x = embedding(table, ids_b);
    Tensor early;
    for (int64_t i = 0; i < kLayers; ++i) {
      const auto layer = [&](const Tensor& in) {
        const Params here = p / i;
        const Tensor wide = tanh(linear(here, in, {kWidth}));
        return in + mstrain::dropout(here, wide * expand_dims(mask, 1), dropout);
      };
      x = i > 0 && i == again ? x + embedding(table, flip(ids_b, {0})) : x;
      x = model_layer(i, recompute, layer, x);
      early = i == 1 ? x : early;
      x = skips && i == 4 ? x + early : x;
    }
    x = stage_point(x, kLayers);
    const Tensor head = ties ? table : (p / "head").get("weight", {7, kWidth}, normal_init(1));
    return sum(square(matmul(x, transpose(head)))) / sum(mask);
  }
};

// A gradient program with inputs for it.
struct Whole {
  GraphPtr program;
  Tensors inputs;
};

// The loss, then the gradients, of f32 parameters, for `rows` ids. Among the inputs are as many times more as there are
// micro-batches: after the parameters, and before a key.
inline Whole gradient_of(const LayeredNet& net, int64_t rows = 5, int64_t micro_batches = 1) {
  std::vector<int32_t> numbers;
  for (int64_t i = 0; i < rows * micro_batches; ++i) {
    numbers.push_back(static_cast<int32_t>((3 * i + i / 4) % 7));
  }
  const Tensor ids = tensor<int32_t>(numbers, {rows * micro_batches});
  std::vector<ParamSpec> specs = declare_params([&](const Params& p) {
    const RandomScope scope(rng_key(1));
    net(p, ids);
  });
  Params params;
  for (size_t i = 0; i < specs.size(); ++i) {
    params.set(specs[i].name, cast(random_tensor(specs[i].type.shape, i), Dtype::kF32));
  }
  Whole whole{nullptr, flatten_tree(params)};
  Types types = types_of(whole.inputs);
  types.push_back({ids.dtype(), {rows}});
  types.push_back({Dtype::kU32, {2}});
  whole.inputs.insert(whole.inputs.end(), {ids, rng_key(5)});
  Context context = current_context();
  context.training = true;
  const ContextScope training(context);
  Tensors captures;
  whole.program = trace_program(
      types,
      [&](std::span<const Tensor> leaves) {
        const RandomScope scope(leaves.back());
        const auto [loss, gradient] = value_and_grad([&](const Params& p) {
          return net(p, leaves[leaves.size() - 2]);
        })(with_leaves(params, leaves.first(leaves.size() - 2)));
        Tensors results{loss};
        const Tensors gradients = flatten_tree(gradient);
        results.insert(results.end(), gradients.begin(), gradients.end());
        return results;
      },
      &captures);
  whole.inputs.insert(whole.inputs.end(), captures.begin(), captures.end());
  return whole;
}

}  // namespace mstrain
