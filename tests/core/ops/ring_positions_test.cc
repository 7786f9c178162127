#include "core/ops/ring_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/tensor/host.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

constexpr int64_t kPiece = 3;

// Positions of a rank's pieces.
std::vector<int64_t> held(const RingPositions& positions, const Tensor& rank) {
  std::vector<int64_t> result;
  for (int64_t piece = 0; piece < positions.pieces(); ++piece) {
    const auto first = static_cast<int64_t>(item(positions.first_of(rank, piece, kPiece)));
    for (int64_t i = 0; i < kPiece; ++i) {
      result.push_back(first + i);
    }
  }
  return result;
}

TEST(RingPositions, OfAZigzagHaveEquallyManyVisiblePairsWhateverKeysComeBy) {
  for (const int64_t size : {2, 3, 5}) {
    const MeshAxis axis{"data", size};
    std::mutex mutex;
    std::set<int64_t> counts;
    run_ranks(Mesh{{axis}}, [&](const std::shared_ptr<Ranks>& ranks) {
      const RingPositions positions(true, axis);
      const std::vector<int64_t> queries = held(positions, positions.rank());
      for (int64_t other = 0; other < size; ++other) {
        if (other == ranks->rank()) {
          continue;  // sees the pairs on the diagonal as well, on every rank
        }
        int64_t pairs = 0;
        for (const int64_t key : held(positions, scalar(static_cast<double>(other), Dtype::kI32))) {
          pairs += std::count_if(queries.begin(), queries.end(),
                                 [&](int64_t query) { return key <= query; });
        }
        const std::scoped_lock lock(mutex);
        counts.insert(pairs);
      }
    });
    EXPECT_THAT(counts, testing::ElementsAre(2 * kPiece * kPiece)) << size;
  }
}

TEST(RingPositions, AreDealtOutAndComeBack) {
  for (const int64_t size : {1, 2, 3, 4}) {
    const MeshAxis axis{"data", size};
    for (const bool zigzag : {false, true}) {
      run_ranks(Mesh{{axis}}, [&](const std::shared_ptr<Ranks>& ranks) {
        const RingPositions positions(zigzag, axis);
        const int64_t part = positions.pieces() * kPiece;
        const Tensor x = iota({1, part}, 1) + static_cast<double>(ranks->rank() * part);
        const Tensor dealt = positions.dealt(x, 1);
        const std::vector<int64_t> expected = held(positions, positions.rank());
        EXPECT_EQ(to_doubles(dealt), std::vector<double>(expected.begin(), expected.end()));
        EXPECT_EQ(to_doubles(positions.returned(dealt, 1)), to_doubles(x));
      });
    }
  }
}

}  // namespace
}  // namespace mstrain
