// Rows and elements looked up, added and replaced by ids, and lines put in order.
#include <cstring>
#include <limits>

#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "tests/core/backends/cpu/against_reference.h"

namespace mstrain {
namespace {

TEST(CpuIndex, GatherAndScatterAddOfRepeatedRows) {
  const Tensor x = random({50, 77}, 39);
  const Tensor ids = random_ids({40, 25}, 50, 40);
  expect_right("gather", {x, ids}, {{"axis", int64_t{0}}});
  expect_right("scatter_add", {x, ids, random({40, 25, 77}, 41)}, {{"axis", int64_t{0}}}, 1e-5);
  expect_right("scatter_add", {random({6, 50, 9}, 42), ids, random({6, 40, 25, 9}, 43)},
               {{"axis", int64_t{1}}}, 1e-5);
}

TEST(CpuIndex, IdsOfTheirOwnForEveryElementAndRowsThatAreReplaced) {
  const Tensor x = random({5, 300, 37}, 41);
  const Tensor ids = random_ids({5, 70, 37}, 300, 42);
  const Tensor updates = random({5, 70, 37}, 43);
  const Tensor rows = random_ids({400}, 300, 44);
  const Tensor replaced = random({5, 400, 37}, 45);
  const Attrs axis{{"axis", int64_t{1}}};
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kI64}) {
    const auto as = [&](const Tensor& t) { return cast(t * 100, dtype); };
    expect_right("take_along", {as(x), ids}, axis, 0);
    expect_right("scatter_add_along", {as(x), ids, as(updates)}, axis);
    expect_right("scatter_set", {as(x), rows, as(replaced)}, axis, 0);
    expect_right("scatter_add", {as(x), rows, as(replaced)}, axis);
  }
}

TEST(CpuIndex, SumsOfSixteenBitsAtIdsAreRoundedOnce) {
  const Tensor ones = full({2000, 3}, 1, Dtype::kBF16);
  const Tensor x = full({2, 3}, 256, Dtype::kBF16);  // each 1 alone would be lost beside it
  for (const char* op : {"scatter_add", "scatter_add_along"}) {
    const bool along = std::string_view(op).ends_with("along");
    const Tensor ids = zeros({Dtype::kI32, along ? Shape{2000, 3} : Shape{2000}});
    for (int threads : {1, 2}) {
      const Tensor y =
          run(op, {x, ids, ones}, {{"axis", int64_t{0}}}, backend_named("cpu"), threads)[0];
      EXPECT_EQ(to_doubles(y), (std::vector<double>{2256, 2256, 2256, 256, 256, 256})) << op;
    }
  }
}

// Few different values, so that many are equal, with the ones that comparisons treat apart.
Tensor numbers_to_order(const Shape& shape, Dtype dtype, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float kRare[] = {std::nanf(""), kInfinity, -kInfinity, 0.0F, -0.0F};
    value = rng.below(8) == 0 && is_floating(dtype)
                ? kRare[rng.below(5)]
                : static_cast<float>(static_cast<int>(rng.below(100)) - 50) / 4;
  }
  return cast(tensor<float>(values, shape), dtype);
}

TEST(CpuIndex, OrderOfLongAndShortLinesOfEveryType) {
  for (const Dtype dtype : kAllDtypes) {
    if (dtype == Dtype::kBool) {
      continue;
    }
    for (const auto& [shape, axis] : std::vector<std::pair<Shape, int64_t>>{
             {{3, 700}, 1}, {{700, 3}, 0}, {{2, 33, 5}, 1}, {{1500}, 0}}) {
      const Tensor x = numbers_to_order(shape, dtype, static_cast<uint64_t>(axis) + 1);
      for (const bool descending : {false, true}) {
        const Attrs attrs{{"axis", axis}, {"descending", descending}};
        const std::vector<double> expected =
            to_doubles(run("argsort", {x}, attrs, backend_named("reference"))[0]);
        EXPECT_EQ(to_doubles(run("argsort", {x}, attrs, backend_named("cpu"), 2)[0]), expected)
            << name_of(dtype);
        const Tensor sorted = run("sort", {x}, attrs, backend_named("cpu"), 2)[0];
        const Tensor slow = run("sort", {x}, attrs, backend_named("reference"))[0];
        EXPECT_EQ(std::memcmp(HostRead(sorted).data(), HostRead(slow).data(),
                              static_cast<size_t>(slow.type().bytes())),
                  0)
            << name_of(dtype);
      }
    }
    const Tensor x = numbers_to_order({2, 900}, dtype, 9);
    for (const int64_t k : {1, 5, 50, 112, 113, 900}) {
      const Tensors expected = run("topk", {x}, {{"k", k}}, backend_named("reference"));
      const Tensors actual = run("topk", {x}, {{"k", k}}, backend_named("cpu"), 2);
      EXPECT_EQ(to_doubles(actual[1]), to_doubles(expected[1])) << name_of(dtype) << ", k " << k;
      EXPECT_EQ(std::memcmp(HostRead(actual[0]).data(), HostRead(expected[0]).data(),
                            static_cast<size_t>(expected[0].type().bytes())),
                0);
    }
  }
}

TEST(CpuIndex, WrongIdsAreNamedAndNothingIsWritten) {
  const Tensor ids = tensor<int32_t>(std::vector<int32_t>{3, 0, 70}, {3});
  try {
    run("gather", {random({65, 4}, 44), ids}, {{"axis", int64_t{0}}}, backend_named("cpu"), 2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gather: id 70 at position 2 is outside of [0, 65)"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(
      run("cross_entropy", {random({3, 65}, 45), ids},
          {{"ignore_index", int64_t{-1}}, {"label_smoothing", 0.0}}, backend_named("cpu"), 2),
      Error);
}

}  // namespace
}  // namespace mstrain
