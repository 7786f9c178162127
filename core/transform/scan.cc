#include "core/transform/scan.h"

#include "core/ops/control.h"

namespace mstrain {
namespace {

std::string name_of_carry(const std::string& path) {
  return path.empty() ? "the carry" : "the carry " + path;
}

void expect_carries(const Graph& body, const Tensors& carries,
                    const std::vector<std::string>& paths, const Caller& caller) {
  for (size_t i = 0; i < carries.size(); ++i) {
    const TensorType& after = body.type(body.outputs()[i]);
    check(carries[i].type() == after, "{}: {} is {} before a step and {} after it, at {}",
          caller.name, name_of_carry(paths[i]), to_string(carries[i].type()), to_string(after),
          to_string(caller.where));
  }
}

std::string name_in_xs(const std::string& path) { return path.empty() ? "xs" : path + " of xs"; }

}  // namespace

Tensors carry_leaves(Tensors leaves, const std::vector<std::string>& paths, const Caller& caller) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    check(leaves[i].defined(), "{}: {} is an empty tensor, at {}", caller.name,
          name_of_carry(paths[i]), to_string(caller.where));
  }
  return leaves;
}

void expect_same_statics(const std::string& before, const std::string& after,
                         const Caller& caller) {
  check(before == after,
        "{}: a step changes a number of the carry that is part of the program, at {}:\n{}  "
        "becomes\n{}make it a tensor",
        caller.name, to_string(caller.where), before, after);
}

int64_t scan_length(const Tensors& xs, const std::vector<std::string>& paths,
                    const ScanOptions& options, const Caller& caller) {
  const std::string where = to_string(caller.where);
  int64_t length = options.length;
  for (size_t i = 0; i < xs.size(); ++i) {
    const std::string name = name_in_xs(paths[i]);
    check(xs[i].defined(), "scan: {} is an empty tensor, at {}", name, where);
    const TensorType& type = xs[i].type();
    check(type.shape.rank() > 0, "scan: {} is {}, without a leading dim to run over, at {}", name,
          to_string(type), where);
    check(length < 0 || type.shape[0] == length, "scan: {} is {}, the loop has {} steps, at {}",
          name, to_string(type), length, where);
    length = type.shape[0];
  }
  check(length >= 0, "scan: xs holds no tensors, so that the length must be given, at {}", where);
  return length;
}

Types scan_types(const Tensors& carries, const Tensors& xs) {
  Types types = types_of(carries);
  for (const Tensor& x : xs) {
    types.push_back({x.dtype(), x.shape().without(0)});
  }
  return types;
}

Tensors scan_recorded(const GraphPtr& body, const Tensors& captures, const Tensors& carries,
                      const std::vector<std::string>& carry_paths, const Tensors& xs,
                      int64_t length, bool reverse, const Caller& caller) {
  expect_carries(*body, carries, carry_paths, caller);
  // The recorded order is carries, xs, captures; the loop wants carries, constants, xs.
  Types types = types_of(carries);
  for (const Tensor& capture : captures) {
    types.push_back(capture.type());
  }
  for (const Tensor& x : xs) {
    types.push_back({x.dtype(), x.shape().without(0)});
  }
  Tensors none;
  const GraphPtr ordered = trace_program(
      types,
      [&](std::span<const Tensor> args) {
        Tensors given(args.begin(), args.end());
        const auto first = given.begin() + static_cast<std::ptrdiff_t>(carries.size());
        std::rotate(first, first + static_cast<std::ptrdiff_t>(captures.size()), given.end());
        return replay(*body, given);
      },
      &none);
  return scan_program(ordered, carries, captures, xs, length, reverse);
}

Tensors while_recorded(const GraphPtr& condition, const Tensors& condition_captures,
                       const GraphPtr& body, const Tensors& body_captures, const Tensors& carries,
                       const std::vector<std::string>& carry_paths, const Caller& caller) {
  expect_carries(*body, carries, carry_paths, caller);
  const TensorType test = condition->type(condition->outputs()[0]);
  check(condition->outputs().size() == 1 && test == TensorType{Dtype::kBool, {}},
        "while_loop: the condition gives {}, not bool[], at {}", to_string(test),
        to_string(caller.where));
  Tensors constants = condition_captures;
  constants.insert(constants.end(), body_captures.begin(), body_captures.end());
  Types types = types_of(carries);
  for (const Tensor& constant : constants) {
    types.push_back(constant.type());
  }
  // Both programs take the constants of both.
  const auto widened = [&](const Graph& program, size_t skipped, size_t used) {
    Tensors none;
    return trace_program(
        types,
        [&](std::span<const Tensor> args) {
          Tensors given(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(carries.size()));
          const auto captured = args.subspan(carries.size() + skipped, used);
          given.insert(given.end(), captured.begin(), captured.end());
          return replay(program, given);
        },
        &none);
  };
  return while_program(widened(*condition, 0, condition_captures.size()),
                       widened(*body, condition_captures.size(), body_captures.size()), carries,
                       constants);
}

}  // namespace mstrain
