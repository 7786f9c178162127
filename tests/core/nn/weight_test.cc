#include "core/nn/weight.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/nn/layers.h"
#include "core/ops/coded_weight.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/runtime/context.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::HasSubstr;

Tensor random_f32(const Shape& shape, uint64_t seed, double scale = 1) {
  return cast(random_tensor(shape, seed), Dtype::kF32) * scale;
}

// A model of every way in which weights are read.
Tensor model(const Params& p, const Tensor& ids) {
  const Tensor x = embedding(p / "tokens", ids, 50, 40);
  const Tensor heads = linear(p / "in_first", x, {3, 14}, {.weight_init = normal_init(0.2)});
  const Tensor y = linear(p / "out_first", tanh(heads), {40},
                          {.in_dims = 2, .out_first = true, .weight_init = normal_init(0.2)});
  const Tensor plain = (p / "plain").get("weight", {40}, normal_init(1));
  return multiply((x + y) * plain, (p / "tokens").weight("weight", {50, 40}, {}, normal_init(1)));
}

std::vector<ParamSpec> specs() {
  return declare_params([](const Params& p) { model(p, full({2, 3}, 0, Dtype::kI32)); });
}

// The same with the numbers of each code in its place.
Params with_numbers(const Params& params, const Params& coded, WeightCode code) {
  Params out = params;
  for (const ParamSpec& spec : specs()) {
    if (spec.matrix) {
      Weight weight{*coded.find(coded_name(spec.name, code)), spec.type.shape, *spec.matrix, code};
      out.set(spec.name, numbers(weight));
    }
  }
  return out;
}

class CodedWeights : public testing::TestWithParam<WeightCode> {
 protected:
  const Params params_ = init_params(specs(), 3);
  const Params coded_ = in_code(GetParam(), params_, specs());
  const Tensor ids_ = cast(floor(random_f32({4, 9}, 7) * 25 + 25), Dtype::kI32);
};

TEST_P(CodedWeights, StandInTheirPlaceUnderANameOfTheirOwn) {
  std::vector<std::string> names;
  for (size_t i = 0; i < coded_.size(); ++i) {
    names.push_back(coded_.name(i));
  }
  const std::string code = "." + std::string(name_of(GetParam()));
  EXPECT_THAT(
      names, testing::ElementsAre("tokens.weight" + code, "in_first.weight" + code, "in_first.bias",
                                  "out_first.weight" + code, "out_first.bias", "plain.weight"));
}

// The product sums up what the numbers of the codes would: to rounding, in eager mode and compiled, for few rows and many.
// With int8 few rows are read in 16 bits: off by 2^-16 of the largest of 32, of which each of three products makes √40 times
// as much; the results have the size of 10.
TEST_P(CodedWeights, GiveWhatTheirNumbersGive) {
  const Params plain = with_numbers(params_, coded_, GetParam());
  const auto f = jit([](const Params& p, const Tensor& ids) { return model(p, ids); });
  for (const int64_t rows : {1, 36}) {
    const Tensor ids = slice(reshape(ids_, {36}), 0, 0, rows);
    const Tensor expected = model(plain, ids);
    const double tolerance = GetParam() == WeightCode::kInt8 && rows == 1 ? 1e-3 : 1e-5;
    expect_near(model(coded_, ids), expected, tolerance);
    expect_near(f(coded_, ids), expected, tolerance);
  }
}

TEST_P(CodedWeights, PassDerivativesToWhatTheyMultiply) {
  const Params plain = with_numbers(params_, coded_, GetParam());
  const auto loss = [&](const Params& p, const Tensor& scale) {
    Params scaled = p;
    scaled.set("plain.weight", scale);
    return sum(square(model(scaled, ids_)));
  };
  const Tensor& at = *params_.find("plain.weight");
  const Tensor expected = grad([&](const Tensor& s) { return loss(plain, s); })(at);
  expect_near(grad([&](const Tensor& s) { return loss(coded_, s); })(at), expected,
              1e-4 * item(max(abs(expected))));
}

// Few rows and many, forwards and back: which thread makes an element changes nothing in it.
TEST_P(CodedWeights, GiveTheSameBitsForAnyNumberOfThreads) {
  const Tensor weight = random_f32({300, 200}, 1, 0.05);
  Params p;
  p.set("weight", weight);
  const std::vector<ParamSpec> spec{{"weight", weight.type(), {}, true, MatrixForm{}}};
  const Tensor rows = *in_code(GetParam(), p, spec).find(coded_name("weight", GetParam()));
  for (const int64_t m : {1, 3, 11, 24, 25, 100}) {
    for (const bool transposed : {false, true}) {
      const Tensor x = random_f32({m, transposed ? 300 : 200}, 2);
      const auto on = [&](int threads) {
        Context context = current_context();
        context.threads = threads;
        const ContextScope scope(context);
        return coded_product(x, rows, GetParam(), 200, transposed);
      };
      const Tensor one = on(1);
      expect_equal(on(2), one);
      expect_equal(on(3), one);
    }
  }
}

TEST_P(CodedWeights, PassOnWhatIsNoNumber) {
  Params p;
  p.set("weight", random_f32({70, 64}, 1, 0.05));
  const std::vector<ParamSpec> spec{{"weight", {Dtype::kF32, {70, 64}}, {}, true, MatrixForm{}}};
  const Tensor rows = *in_code(GetParam(), p, spec).find(coded_name("weight", GetParam()));
  for (const double wrong :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Tensor x = concat(std::vector<Tensor>{random_f32({2, 63}, 2), full({2, 1}, wrong)}, 1);
    for (const double y : to_doubles(coded_product(x, rows, GetParam(), 64))) {
      EXPECT_FALSE(std::isfinite(y));
    }
  }
  // Very small and very large numbers are numbers like others.
  for (const double scale : {1e-20, 1e20}) {
    const Tensor x = random_f32({1, 64}, 3);
    expect_near(coded_product(x * scale, rows, GetParam(), 64) / scale,
                coded_product(x, rows, GetParam(), 64), 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodedWeights, testing::ValuesIn(kAllWeightCodes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Weights, HaveAFormWhereNothingElseReadsThem) {
  const auto declared = declare_params([](const Params& p) {
    p.weight("twice", {4, 6}, {}, normal_init(1));
    p.get("twice", {4, 6}, normal_init(1));
    p.get("and_back", {4, 6}, normal_init(1));
    p.weight("and_back", {4, 6}, {}, normal_init(1));
    p.weight("two_ways", {4, 6}, {}, normal_init(1));
    p.weight("two_ways", {4, 6}, {.out_first = false}, normal_init(1));
    p.weight("product", {4, 6}, {.out_first = false}, normal_init(1));
  });
  std::vector<bool> have;
  for (const ParamSpec& spec : declared) {
    have.push_back(spec.matrix.has_value());
  }
  EXPECT_THAT(have, testing::ElementsAre(false, false, false, true));
}

TEST(Weights, SayWhichOneDoesNotFit) {
  Params p;
  p.set("a.weight.int8", full({5, 48}, 0, Dtype::kU8));
  const Tensor x = full({2, 40}, 1);
  EXPECT_THAT([&] { linear(p / "a", x, {5}, {.bias = false, .out_first = true}); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("parameter a.weight.int8 is u8[5, 48], the model needs u8[5, 80]")));
  Params large;
  large.set("b.weight", full({5, 4}, 1e5));
  const std::vector<ParamSpec> spec{
      {"b.weight", {Dtype::kF32, {5, 4}}, {}, true, MatrixForm{.out_first = false}}};
  EXPECT_THAT([&] { in_code(WeightCode::kNf4, large, spec); },
              testing::ThrowsMessage<Error>(HasSubstr("b.weight: holds a number that nf4 cannot")));
}

}  // namespace
}  // namespace mstrain
