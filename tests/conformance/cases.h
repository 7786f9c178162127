// What the conformance matrix runs over: every operation of the table × every element type that it accepts × every sample
// that it states, with inputs that depend on those three alone.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "core/ir/backend.h"
#include "core/ir/tensor.h"
#include "core/runtime/context.h"
#include "tests/amount.h"

namespace mstrain {

struct Case {
  const OpDef* op = nullptr;
  Dtype dtype = Dtype::kF32;
  size_t index = 0;  // of the sample
  Sample sample;
};
// "dot_general f32 sample 3: f32[4, 3], f32[5, 4]"
std::string to_string(const Case& it);

std::vector<Case> cases_of(const OpDef& op, std::span<const Dtype> dtypes = kAllDtypes);
// Whether the case has at most `elements` elements in all inputs together.
bool is_small(const Case& it, int64_t elements);
// As many cases as the fast suite takes of combinations that are dear, half of them under sanitizers; all of them where
// MSTRAIN_LONG_TESTS is set.
std::vector<Case> some(std::vector<Case> cases, size_t count);

// Inputs as the sample describes them; other values of the same kind for each `variant`.
Tensors inputs_of(const Case& it, uint64_t variant = 0);
// Uniform in [-1, 1): directions and cotangents.
Tensor random_like(const Tensor& x, uint64_t seed);
Tensors random_like_all(const Tensors& tensors, uint64_t seed);

Tensors run(const Case& it, std::span<const Tensor> inputs);
// The same inside jit at an optimisation level.
Tensors run_jitted(const Case& it, const Tensors& inputs, int level);

// Contexts of the tests, alive until the end.
const Context& context_of(const Backend* backend, int threads = 1);

// How far two correct results may lie apart: relative to |expected| and to `scale`, whichever is larger.
struct Tolerance {
  double relative = 0;
  double scale = 0;
};
// For results of another backend; by element type of the result, with reasons in the source.
Tolerance tolerance_for(const OpDef& op, Dtype dtype, std::span<const Tensor> inputs,
                        std::span<const Tensor> expected);

// The type whose rounding decides how near results of this type are: that of the result, or of what the operation stores on
// the way to it.
Dtype compared_dtype(const Case& it, Dtype result);

// The relative error of a sum or a product of numbers of this type, as results of one operation are compared.
double rounding_of(Dtype dtype);

// Empty where `actual` is within `tolerance` of `expected`; else what differs first. NaN equals NaN.
std::string difference(const Tensor& actual, const Tensor& expected, Tolerance tolerance);
// Empty where both have the same bits, any NaN counting as equal to any other.
std::string bit_difference(const Tensor& actual, const Tensor& expected);

// Operations by name, for parameterised tests.
std::vector<std::string> names_of_ops(bool (*wanted)(const OpDef&));
bool has_samples(const OpDef& op);
// f32 where the operation takes it, else i32, else bool.
Dtype usual_dtype(const OpDef& op);
bool has_floating_derivative(const OpDef& op);

// A test per operation.
class OpTest : public testing::TestWithParam<std::string> {
 protected:
  const OpDef& op() const { return *find_op(GetParam()); }
};

}  // namespace mstrain

#define MSTRAIN_FOR_OPS(Suite, wanted)                                          \
  INSTANTIATE_TEST_SUITE_P(Ops, Suite, testing::ValuesIn(names_of_ops(wanted)), \
                           [](const auto& info) { return info.param; })
