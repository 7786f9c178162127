// Where buffers lie in the arena, for lifetimes of any kind.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/rng.h"
#include "core/compile/plan.h"

namespace mstrain {
namespace {

bool meet(const PlanBuffer& a, const PlanBuffer& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The lowest offset for `buffer` beside those that have their place: each end of one of them, or 0, is tried.
int64_t lowest_place(const PlanBuffer& buffer, const std::vector<const PlanBuffer*>& placed) {
  std::vector<int64_t> places{0};
  for (const PlanBuffer* other : placed) {
    places.push_back(other->offset + aligned(other->bytes));
  }
  std::sort(places.begin(), places.end());
  for (const int64_t place : places) {
    const bool is_free = std::none_of(placed.begin(), placed.end(), [&](const PlanBuffer* other) {
      return meet(buffer, *other) && other->offset < place + aligned(buffer.bytes) &&
             place < other->offset + aligned(other->bytes);
    });
    if (is_free) {
      return place;
    }
  }
  return -1;
}

TEST(MemoryPlan, TheLargerABufferIsTheEarlierItGetsTheLowestPlaceThatIsFree) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Plan plan;
    plan.steps.resize(1 + rng.below(70));
    const size_t times = plan.steps.size() + 1;  // results live on after the last step
    plan.buffers.resize(rng.below(200));
    for (PlanBuffer& buffer : plan.buffers) {
      buffer.bytes = static_cast<int64_t>(rng.below(rng.below(2) == 0 ? 5 * kPlanAlignment : 3000));
      const uint64_t first = rng.below(times);
      const uint64_t most =
          rng.below(4) == 0 ? times - first : std::min<uint64_t>(4, times - first);
      buffer.first = static_cast<int>(first);
      buffer.last = static_cast<int>(first + rng.below(most));
    }
    plan_memory(plan);
    std::vector<const PlanBuffer*> order;
    for (const PlanBuffer& buffer : plan.buffers) {
      if (buffer.bytes > 0) {
        order.push_back(&buffer);
      }
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
    std::vector<const PlanBuffer*> placed;
    int64_t arena = 0;
    for (const PlanBuffer* buffer : order) {
      ASSERT_EQ(buffer->offset, lowest_place(*buffer, placed)) << placed.size();
      placed.push_back(buffer);
      arena = std::max(arena, buffer->offset + aligned(buffer->bytes));
    }
    ASSERT_EQ(plan.arena_bytes, arena);
  }
}

}  // namespace
}  // namespace mstrain
