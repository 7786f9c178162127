// A language model that ranks along `tensor` run together outside of steps: as in steps each has parts of weights, and of keys and values that are
// kept, so that sums have the terms that they have in steps. Tokens, logits and log-probabilities are on all of them.
#pragma once

#include "core/tensor/tree.h"
#include "core/train/tensor_parts.h"
#include "suites/transformer/text/causal_model.h"

namespace mstrain {

class SharedModel {
 public:
  SharedModel(const CausalModel& model, const TensorParts& parts);

  // f(params, arguments …) of the whole arguments of which these are parts, in a function that is traced. Keys and values are those of a KeyValueCache.
  template <class F, class... Args>
  auto divide(const F& f, const Params& params, const Args&... args) const {
    using Result = std::decay_t<std::invoke_result_t<const F&, const Params&, const Args&...>>;
    std::tuple<Params, Args...> arguments(params, args...);
    Paths paths;
    const Tensors given = flatten_tree(arguments, &paths);
    Result form;
    const Tensors parts =
        divided(given, paths, [&](std::span<const Tensor> whole, Paths* of_results) {
          form = std::apply(f, with_leaves(arguments, whole));
          return flatten_tree(form, of_results);
        });
    return with_leaves(form, parts);
  }
  // log p of each target, [rows], by logits[rows, vocab].
  Tensor log_probs(const Tensor& logits, const Tensor& targets) const;

 private:
  using Paths = std::vector<std::string>;
  using Traced = std::function<Tensors(std::span<const Tensor> whole, Paths* of_results)>;
  Tensors divided(const Tensors& given, const Paths& paths, const Traced& f) const;
  // Of an argument's or result's tensor.
  Placement placement_of(const std::string& path) const;

  TensorParts parts_;
  bool shares_keys_;
};

}  // namespace mstrain
