// Programs for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include "core/base/rng.h"
#include "core/ops/all.h"
#include "core/ops/build.h"
#include "core/ops/control.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/random.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {

// The table of operations is filled before the first test.
class OperationTable : public ::testing::Environment {
 public:
  void SetUp() override { register_all_ops(); }
};
inline ::testing::Environment* const kOperationTable =
    ::testing::AddGlobalTestEnvironment(new OperationTable);

inline GraphPtr program_of(const Types& types,
                           const std::function<Tensors(std::span<const Tensor>)>& f) {
  Tensors captures;
  return trace_program(types, f, &captures);
}

// A block of a network with one of everything that print and parse must carry.
inline GraphPtr sample_program() {
  const TensorType x{Dtype::kF32, {8, 16}};
  return program_of({x, {Dtype::kBF16, {}}, {Dtype::kU32, {2}}}, [&](std::span<const Tensor> in) {
    const Tensors halves = split(in[0], {8, 8}, 1);
    const NameScope outer("h.3");
    const GraphPtr body = program_of({{Dtype::kF32, {8, 8}}, {Dtype::kF32, {8, 8}}},
                                     [](std::span<const Tensor> carries) {
                                       return Tensors{tanh(carries[0] * 0.1), carries[1] / 3};
                                     });
    const Tensors inner = recompute_program(body, halves);
    const GraphPtr step =
        program_of({{Dtype::kF64, {}}, {Dtype::kF64, {2}}}, [](std::span<const Tensor> a) {
          return Tensors{a[0] + sum(a[1]), a[1] * 2};
        });
    const Tensor start = full({}, 0.5, Dtype::kF64);
    const Tensors loop = scan_program(step, std::array{start}, {},
                                      std::array{full({3, 2}, 1e-9, Dtype::kF64)}, 3, true);
    const GraphPtr twice = program_of({{Dtype::kF64, {}}},
                                      [](std::span<const Tensor> a) { return Tensors{a[0] * 2}; });
    const Tensors custom = custom_vjp_program(twice, twice, 1, std::array{loop[0]});
    const NameScope scope("say \"x\"\n");
    const Tensor padded = pad(inner[0], {1, 0}, {2, 0}, -0.0);
    const Tensor mask = uniform(in[2], {11, 3}, {.site = "dropout"});
    return Tensors{matmul(padded, inner[1], {.transpose_b = false}) - (-1.0 / 0.0),
                   cast(in[1], Dtype::kF64) + custom[0], mask, loop[1]};
  });
}

// `steps` operations over three inputs, each on values that are there already.
inline GraphPtr random_program(Rng& rng, int steps) {
  const int64_t n = rng.between(1, 5);
  const TensorType type{rng.below(2) == 0 ? Dtype::kF32 : Dtype::kF64, {n, n}};
  return program_of({type, type, type}, [&](std::span<const Tensor> in) {
    Tensors values(in.begin(), in.end());
    const auto any = [&] { return values[rng.below(values.size())]; };
    for (int i = 0; i < steps; ++i) {
      const Tensor x = any();
      switch (rng.below(8)) {
        case 0: values.push_back(x + any()); break;
        case 1: values.push_back(x * rng.uniform(-1e30, 1e30)); break;
        case 2: values.push_back(where(x < any(), x, any())); break;
        case 3: values.push_back(transpose(x)); break;
        case 4: values.push_back(matmul(x, any())); break;
        case 5: values.push_back(broadcast_to(sum(x, {0}, true), x.shape())); break;
        case 6: {
          const int64_t k = rng.between(0, n);
          values.push_back(concat(split(flip(x, {0}), {k, n - k}, 0), 0));
          break;
        }
        default: {
          const GraphPtr body = program_of(
              {type, type}, [](std::span<const Tensor> a) { return Tensors{a[0] - a[1]}; });
          values.push_back(recompute_program(body, std::array{x, any()})[0]);
        }
      }
    }
    return Tensors{any(), any()};
  });
}

}  // namespace mstrain
