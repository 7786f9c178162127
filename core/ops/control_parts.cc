#include "core/ops/control_parts.h"

namespace mstrain::control {

void expect_types(std::string_view what, std::span<const TensorType> expected,
                  std::span<const TensorType> given) {
  if (expected.size() != given.size()) {
    throw ShapeError(
        fmt::format("{}: {} tensors instead of {}", what, given.size(), expected.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!(expected[i] == given[i])) {
      throw ShapeError(fmt::format("{} {}: {} instead of {}", what, i, to_string(given[i]),
                                   to_string(expected[i])));
    }
  }
}

std::vector<size_t> floating(std::span<const Tensor> tensors) {
  std::vector<size_t> which;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_floating(tensors[i].dtype())) {
      which.push_back(i);
    }
  }
  return which;
}

Tensors pick(std::span<const Tensor> tensors, const std::vector<size_t>& which) {
  Tensors result;
  for (size_t i : which) {
    result.push_back(tensors[i]);
  }
  return result;
}

Tensors place(std::span<const Tensor> values, const std::vector<size_t>& which, size_t count) {
  Tensors result(count);
  for (size_t i = 0; i < which.size(); ++i) {
    result[which[i]] = values[i];
  }
  return result;
}

GraphPtr closed_program(const Types& types,
                        const std::function<Tensors(std::span<const Tensor>)>& f) {
  Tensors captures;
  GraphPtr program = trace_program(types, f, &captures);
  check(captures.empty(), "a loop body uses {} tensors that are not among its inputs",
        captures.size());
  return program;
}

TensorType stacked(TensorType type, int64_t length) {
  type.shape = type.shape.with_inserted(0, length);
  return type;
}

}  // namespace mstrain::control
