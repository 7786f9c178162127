// Inputs that lie in memory with gaps, in another order, repeated or backwards give the bits of dense ones: in eager
// mode, where the view is made first, and in graph mode, where it is part of the program. Products of matrices that lie
// in another order may be summed in another order.
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

// A tensor as it is stored, and the view of it that the operation gets.
struct Layout {
  const char* name;
  Tensor (*store)(const Tensor& x);
  Tensor (*view)(const Tensor& stored, const Shape& shape);
};

Shape reversed_axes(int rank) {
  Shape axes;
  for (int i = rank - 1; i >= 0; --i) {
    axes.push_back(i);
  }
  return axes;
}

Shape all_axes(int rank) {
  Shape axes;
  for (int i = 0; i < rank; ++i) {
    axes.push_back(i);
  }
  return axes;
}

// Every dim with one element before, between and after: [1 + 2 n].
Tensor spread(const Tensor& x) {
  const Shape ones = Shape::filled(x.rank(), 1);
  return copy(pad(x, ones, ones, 1, ones));
}

Tensor gather_spread(const Tensor& stored, const Shape& shape) {
  Shape stop = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    stop[i] = 1 + 2 * shape[i];
  }
  return slice(stored, Shape::filled(shape.rank(), 1), stop, Shape::filled(shape.rank(), 2));
}

const Layout kLayouts[] = {
    {"transposed", [](const Tensor& x) { return copy(transpose(x, reversed_axes(x.rank()))); },
     [](const Tensor& stored, const Shape&) {
       return transpose(stored, reversed_axes(stored.rank()));
     }},
    {"with gaps", spread, gather_spread},
    {"backwards", [](const Tensor& x) { return copy(flip(x, all_axes(x.rank()))); },
     [](const Tensor& stored, const Shape& shape) { return flip(stored, all_axes(shape.rank())); }},
    {"behind others",
     [](const Tensor& x) {
       return copy(stack(std::array{x, x, x}, 0));
     },
     [](const Tensor& stored, const Shape&) { return select(stored, 0, 1); }},
};

using LayoutOfOp = OpTest;

bool has_products(const OpDef& op) {
  return op.kind == OpKind::kContract || op.name.starts_with("attention") ||
         op.name.starts_with("conv2d") || op.name.starts_with("linear_cross_entropy");
}

void expect_same_results(const Case& it, const Tensors& inputs, const Tensors& expected,
                         const Tensors& eager, const Tensors& graph, const std::string& layout) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string eager_difference =
        has_products(*it.op)
            ? difference(eager[i], expected[i],
                         tolerance_for(*it.op, expected[i].dtype(), inputs, expected))
            : bit_difference(eager[i], expected[i]);
    ASSERT_EQ(eager_difference, "") << layout << ", output " << i;
    ASSERT_EQ(bit_difference(graph[i], eager[i]), "") << layout << ", graph mode, output " << i;
  }
}

// Inputs `i` for which `uses(i)` holds get the layout, the others stay dense.
void expect_same(const Case& it, const Tensors& inputs, const Layout& layout,
                 const std::vector<bool>& uses) {
  const Tensors expected = run(it, inputs);
  Tensors stored = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (uses[i]) {
      stored[i] = layout.store(inputs[i]);
    }
  }
  const auto f = [&](const Tensors& given) {
    Tensors seen = given;
    for (size_t i = 0; i < seen.size(); ++i) {
      if (uses[i]) {
        seen[i] = layout.view(given[i], inputs[i].shape());
      }
    }
    return run(it, seen);
  };
  const Tensors eager = f(stored);
  const Tensors graph = jit(f, {.level = 0})(stored);
  expect_same_results(it, inputs, expected, eager, graph, layout.name);
}

// One input repeats along one of its dims.
void expect_same_repeated(const Case& it, const Tensors& inputs, size_t which, int axis) {
  const Shape& shape = inputs[which].shape();
  const Tensor one = copy(slice(inputs[which], axis, 0, 1));
  Tensors repeated = inputs;
  repeated[which] = broadcast_to(one, shape);
  Tensors dense_inputs = inputs;
  dense_inputs[which] = copy(repeated[which]);
  const Tensors expected = run(it, dense_inputs);
  const Tensors eager = run(it, repeated);
  repeated[which] = one;
  const auto f = [&](const Tensors& given) {
    Tensors seen = given;
    seen[which] = broadcast_to(given[which], shape);
    return run(it, seen);
  };
  const Tensors graph = jit(f, {.level = 0})(repeated);
  expect_same_results(it, dense_inputs, expected, eager, graph,
                      fmt::format("input {} repeats along {}", which, axis));
}

TEST_P(LayoutOfOp, StridedInputsEqualDenseOnes) {
  // Wide, narrow and integer elements; every type where the long tests run.
  std::vector<Dtype> dtypes{Dtype::kF32, Dtype::kBF16, Dtype::kI32};
  if (long_tests() || !accepts(op().dtypes, Dtype::kF32)) {
    dtypes.assign(std::begin(kAllDtypes), std::end(kAllDtypes));
  }
  for (const Backend* backend : {backend_named("cpu"), backend_named("reference")}) {
    const ContextScope scope(context_of(backend));
    for (const Case& it : some(cases_of(op(), dtypes), backend == backend_named("cpu") ? 24 : 8)) {
      SCOPED_TRACE(fmt::format("{} on {}", to_string(it), backend->name));
      const Tensors inputs = inputs_of(it);
      for (const Layout& layout : kLayouts) {
        expect_same(it, inputs, layout, std::vector<bool>(inputs.size(), true));
        for (size_t i = 0; i < inputs.size() && inputs.size() > 1; ++i) {
          std::vector<bool> one(inputs.size(), false);
          one[i] = true;
          expect_same(it, inputs, layout, one);
        }
      }
      for (size_t i = 0; i < inputs.size(); ++i) {
        // A matrix that repeats a row is singular.
        const int matrix = it.sample.inputs[i].diagonal != 0 ? 2 : 0;
        for (int axis = 0; axis < inputs[i].rank() - matrix; ++axis) {
          if (inputs[i].dim(axis) > 1) {
            expect_same_repeated(it, inputs, i, axis);
          }
        }
      }
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

MSTRAIN_FOR_OPS(LayoutOfOp,
                [](const OpDef& op) { return has_samples(op) && op.kind != OpKind::kSource; });

}  // namespace
}  // namespace mstrain
