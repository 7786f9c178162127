// Parameters in parts: whatever is computed of the parts is computed of the whole, bit for bit.
#include "core/optim/shard.h"

#include <gtest/gtest.h>

#include <array>

#include "core/ops/build.h"
#include "core/ops/random.h"
#include "core/ops/rounding.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

// Calls f(x, shard) on each of `ranks` ranks, for shapes that divide and others.
void for_each_shape(int ranks, const std::function<void(const Tensor&, const Shard&)>& f) {
  run_ranks(ranks, [&](const std::shared_ptr<Ranks>&) {
    for (const Shape& shape : {Shape{8, 1024}, Shape{8193}, Shape{3, 7, 450}, Shape{10, 1000}}) {
      const Shard shard{shape, {std::string(kDataAxis), ranks}};
      f(normal(rng_key(5), shape, {.site = "x"}), shard);
    }
  });
}

std::vector<float> values(const Tensor& x) { return to_vector<float>(cast(x, Dtype::kF32)); }

TEST(Shard, PartsMakeUpTheWholeAndItsNorm) {
  for (const int ranks : {2, 3, 8}) {
    for_each_shape(ranks, [](const Tensor& x, const Shard& shard) {
      const Tensor part = part_of(x, shard);
      EXPECT_EQ(part.elements(), shard.elements());
      EXPECT_EQ(values(whole_of(part, shard)), values(x));
      const Shard* const shards[] = {&shard, nullptr};
      const Tensors squares = squares_of_parts(std::array{part, x}, shards);
      EXPECT_EQ(item(squares[0]), item(squares[1]));
      EXPECT_EQ(item(squares[0]), item(squares_by_blocks(x)));
    });
  }
}

TEST(Shard, PartsAreRoundedAsTheWholeIs) {
  for_each_shape(3, [](const Tensor& x, const Shard& shard) {
    const Tensor key = rng_key(7);
    const Tensor part = part_of(x, shard);
    EXPECT_EQ(values(whole_of(stochastic_round(part, key_of_part(key, shard), 11), shard)),
              values(stochastic_round(x, key, 11)));
    const Blocks of_part = quantize_blocks(part, key_of_part(key, shard), 12, true);
    const Blocks of_all = quantize_blocks(x, key, 12, true);
    EXPECT_EQ(to_vector<uint8_t>(whole_of(of_part.codes, shard)), to_vector<uint8_t>(of_all.codes));
  });
}

TEST(Shard, PaddingIsZeroAgainWhereItIsAskedTo) {
  for_each_shape(8, [](const Tensor& x, const Shard& shard) {
    const Tensor part = without_padding(part_of(x, shard) + 1, shard);
    const Shard all{{shard.elements() * shard.axis.size}, shard.axis};
    std::vector<float> expected = values(x + 1);
    expected.resize(static_cast<size_t>(all.shape.elements()), 0);
    EXPECT_EQ(values(whole_of(part, all)), expected);
  });
}

TEST(Shard, SumsBeginWithWhatWasThereAndGoOnInTheOrderOfRanks) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    for_each_shape(3, [&](const Tensor& x, const Shard& shard) {
      const Tensor own = axis_index(shard.axis);
      const auto of_rank = [&](const Tensor& rank) {
        return cast(x * (1 + cast(rank, Dtype::kF32) / 3), dtype);
      };
      const Tensor begin = cast(x * 7, dtype);
      const Tensor sum = summed_part(of_rank(own), shard, Reduction::kSum, part_of(begin, shard));
      Tensor expected = begin;
      for (int rank = 0; rank < 3; ++rank) {
        expected = expected + of_rank(scalar(rank, Dtype::kI32));
      }
      EXPECT_EQ(values(whole_of(sum, shard)), values(expected));
    });
  }
}

}  // namespace
}  // namespace mstrain
