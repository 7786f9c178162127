#include <gtest/gtest.h>

#include <cmath>

#include "core/base/rng.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/transform/grad.h"
#include "suites/recommender/dcn_v2/model.h"
#include "suites/recommender/deepfm/model.h"
#include "suites/recommender/dlrm/model.h"
#include "suites/recommender/wide_deep/model.h"

namespace mstrain::recommender {
namespace {

constexpr int64_t kBatch = 4, kFields = 3, kWidth = 2;

Tensor drawn(const Shape& shape, uint64_t stream) {
  Rng rng(5, stream);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) {
    value = static_cast<float>(rng.normal());
  }
  return tensor<float>(values, shape);
}

Features features() {
  return {drawn({kBatch, 2}, 1), drawn({kBatch, kFields, kWidth}, 2), drawn({kBatch}, 3)};
}

TEST(DeepFm, AddsUpTheProductsOfAllPairs) {
  const Tensor x_bfd = drawn({kBatch, kFields, kWidth}, 1);
  const std::vector<float> x = to_vector<float>(x_bfd);
  const std::vector<float> found = to_vector<float>(deepfm::pairs(x_bfd));
  for (int64_t b = 0; b < kBatch; ++b) {
    double sum = 0;
    for (int64_t i = 0; i < kFields; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        for (int64_t d = 0; d < kWidth; ++d) {
          sum += double{x[static_cast<size_t>((b * kFields + i) * kWidth + d)]} *
                 double{x[static_cast<size_t>((b * kFields + j) * kWidth + d)]};
        }
      }
    }
    EXPECT_NEAR(found[static_cast<size_t>(b)], sum, 1e-5);  // f32, in another order
  }
}

TEST(Dlrm, HasTheProductOfEachPairOnce) {
  const Tensor x_bfd = drawn({1, 3, kWidth}, 1);
  const std::vector<float> x = to_vector<float>(x_bfd);
  const auto product = [&](size_t i, size_t j) {
    return x[2 * i] * x[2 * j] + x[2 * i + 1] * x[2 * j + 1];
  };
  const std::vector<float> found = to_vector<float>(dlrm::interactions(x_bfd));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_NEAR(found[0], product(1, 0), 1e-6);
  EXPECT_NEAR(found[1], product(2, 0), 1e-6);
  EXPECT_NEAR(found[2], product(2, 1), 1e-6);
}

TEST(Recommender, LossOfLogOddsIsThatOfTheirProbabilities) {
  const std::vector<float> z{-30, -1, 0, 2, 30};
  const std::vector<float> y{0, 1, 1, 0, 1};
  const std::vector<float> loss =
      to_vector<float>(log_losses(tensor<float>(z, {5}), tensor<float>(y, {5})));
  for (size_t i = 0; i < z.size(); ++i) {
    const double p = 1 / (1 + std::exp(-double{z[i]}));
    EXPECT_NEAR(loss[i], y[i] == 1 ? -std::log(p) : -std::log1p(-p), 1e-6);
  }
}

template <class Config, class Logits>
void expect_that_all_features_count(const Config& config, const Logits& logits, bool weights) {
  const auto model = [&](const Params& p, const Features& x) { return logits(config, p, x); };
  const auto specs = declare_params([&](const Params& p) { model(p, features()); });
  const Params params = init_params(specs, 1);
  const Features x = features();
  const Tensor out_b = model(params, x);
  EXPECT_EQ(out_b.shape(), Shape{kBatch});
  // Everything that a model is given changes its loss; for a batch norm or the like it would be another sample's as well.
  const auto gradients = grad<0>([&](const Tensors& given) {
    Features some = x;
    some.numeric_bn = given[0];
    some.vectors_bfd = given[1];
    some.weights_b = given[2];
    return sum(model(params, some));
  })(Tensors{x.numeric_bn, x.vectors_bfd, x.weights_b});
  for (size_t i = 0; i < gradients.size(); ++i) {
    double size = 0;
    for (const float g : to_vector<float>(gradients[i])) {
      size += std::fabs(g);
    }
    EXPECT_EQ(size > 0, i < 2 || weights) << i;
  }
}

// As if they had come multiplied, forwards and backwards.
template <class Config, class Logits>
void expect_that_vectors_of_numbers_count(const Config& config, const Logits& logits) {
  constexpr int64_t kNumbers = 2;
  Features x = features();
  x.numeric_bn = Tensor();
  x.numbers_bn = drawn({kBatch, kNumbers}, 4);
  const Tensor of_numbers_nd = drawn({kNumbers, kWidth}, 6);
  const auto alike = [](const Tensor& nd) {
    return broadcast_to(expand_dims(nd, 0), {kBatch, kNumbers, kWidth});
  };
  const auto model = [&](const Params& p, const Features& x) { return logits(config, p, x); };
  x.vectors_of_numbers_bnd = alike(of_numbers_nd);
  const Params params = init_params(declare_params([&](const Params& p) { model(p, x); }), 1);
  const auto loss = [&](bool multiplied) {
    return [&, multiplied](const Params& p, const Tensor& nd, const Tensor& vectors_bfd) {
      Features some = x;
      some.vectors_of_numbers_bnd = alike(nd);
      some.vectors_bfd = vectors_bfd;
      if (multiplied) {
        some.vectors_bfd = all_vectors(some);
        some.vectors_of_numbers_bnd = some.numbers_bn = Tensor();
      }
      return sum(square(model(p, some)));
    };
  };
  const auto once = value_and_grad<0, 1, 2>(loss(false))(params, of_numbers_nd, x.vectors_bfd);
  const auto each = value_and_grad<0, 1, 2>(loss(true))(params, of_numbers_nd, x.vectors_bfd);
  const Tensors a = flatten_tree(once), b = flatten_tree(each);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<float> found = to_vector<float>(a[i]), expected = to_vector<float>(b[i]);
    for (size_t j = 0; j < found.size(); ++j) {
      EXPECT_NEAR(found[j], expected[j], 1e-5 * (1 + std::abs(expected[j]))) << i << " " << j;
    }
  }
}

TEST(Recommender, VectorsOfNumbersAreMultipliedOnceForAllSamples) {
  wide_deep::Config wide;
  wide.hidden = {5, 4};
  expect_that_vectors_of_numbers_count(wide, wide_deep::logits);
  wide.hidden = {};
  expect_that_vectors_of_numbers_count(wide, wide_deep::logits);
  deepfm::Config fm;
  fm.hidden = {5};
  expect_that_vectors_of_numbers_count(fm, deepfm::logits);
  dlrm::Config dots;
  dots.top.hidden = {5};
  expect_that_vectors_of_numbers_count(dots, dlrm::logits);
  dcn_v2::Config cross;
  cross.hidden = {5};
  expect_that_vectors_of_numbers_count(cross, dcn_v2::logits);
}

TEST(Recommender, ModelsUseAllThatTheyAreGiven) {
  wide_deep::Config wide;
  wide.hidden = {5, 4};
  expect_that_all_features_count(wide, wide_deep::logits, true);
  deepfm::Config fm;
  fm.hidden = {5};
  expect_that_all_features_count(fm, deepfm::logits, true);
  dlrm::Config dots;
  dots.embedding_dim = kWidth;
  dots.bottom = {4};
  dots.top.hidden = {5};
  expect_that_all_features_count(dots, dlrm::logits, false);
  for (const auto structure : {dcn_v2::Structure::kStacked, dcn_v2::Structure::kParallel}) {
    for (const std::optional<int64_t> rank :
         {std::optional<int64_t>(), std::optional<int64_t>(2)}) {
      dcn_v2::Config cross;
      cross.hidden = {5};
      cross.cross = {2, rank, structure};
      expect_that_all_features_count(cross, dcn_v2::logits, false);
    }
  }
}

}  // namespace
}  // namespace mstrain::recommender
