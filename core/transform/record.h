// Functions of trees as programs: what the transforms that need a whole function (vmap, recompute, scan, …) share.
#pragma once

#include <optional>

#include "core/ops/build.h"
#include "core/tensor/tree.h"

namespace mstrain {

// A function that was recorded on abstract values.
template <class Result>
struct Recorded {
  GraphPtr program;
  Tensors captures;            // outside tensors that it uses: the program's last inputs
  std::optional<Result> form;  // a result without tensors

  // The arguments' leaves, then the captures.
  Tensors inputs(std::span<const Tensor> leaves) const {
    Tensors all(leaves.begin(), leaves.end());
    all.insert(all.end(), captures.begin(), captures.end());
    return all;
  }
  // The result with these leaves.
  Result rebuild(std::span<const Tensor> leaves) const { return with_leaves(*form, leaves); }
};

// Records f(arguments…) for arguments whose leaves have `types` instead of their own. f is called once, must not read
// values, and returns a tree.
template <class F, class... Args>
auto record(const F& f, const std::tuple<Args...>& arguments, std::span<const TensorType> types) {
  using Result = std::decay_t<std::invoke_result_t<const F&, const Args&...>>;
  Recorded<Result> recorded;
  recorded.program = trace_program(
      types,
      [&](std::span<const Tensor> leaves) {
        const auto inner = with_leaves(arguments, leaves);
        const Result result =
            std::apply([&](const Args&... a) -> Result { return f(a...); }, inner);
        Tensors flat = flatten_tree(result);
        recorded.form.emplace(with_leaves(result, Tensors(flat.size())));
        return flat;
      },
      &recorded.captures);
  return recorded;
}

}  // namespace mstrain
