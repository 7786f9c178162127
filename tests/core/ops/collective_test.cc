// Operations among ranks that are threads: values, derivatives, batches, loops, eager and compiled.
#include "core/ops/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "core/transform/scan.h"
#include "core/transform/vmap.h"
#include "tests/core/base/message_of.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const MeshAxis kFour{"data", 4};
const MeshAxis kTwo{"data", 2};

Tensor of(std::initializer_list<double> values, Dtype dtype = Dtype::kF64) {
  return vector(values, dtype);
}

// f(rank's x) in eager mode and compiled, on as many ranks as `axis` has.
void on_ranks(const MeshAxis& axis, const std::function<void(int rank, bool compiled)>& f) {
  for (const bool compiled : {false, true}) {
    run_ranks(Mesh{{axis}},
              [&](const std::shared_ptr<Ranks>& ranks) { f(ranks->rank(), compiled); });
  }
}

using Function = std::function<Tensor(const Tensor&)>;
Tensor call(const Function& f, const Tensor& x, bool compiled) {
  return compiled ? jit([&](const Tensor& y) { return f(y); })(x) : f(x);
}

TEST(Collective, ReduceGatherScatterAndExchange) {
  on_ranks(kTwo, [](int rank, bool compiled) {
    const double r = rank;
    const Tensor x = of({r + 1, 10 * (r + 1), 5 - r, r});
    const auto values = [&](const Function& f) { return to_doubles(call(f, x, compiled)); };
    EXPECT_THAT(values([](const Tensor& y) { return all_reduce(y, kTwo); }),
                ElementsAre(3, 30, 9, 1));
    EXPECT_THAT(values([](const Tensor& y) { return all_reduce(y, kTwo, Reduction::kMax); }),
                ElementsAre(2, 20, 5, 1));
    EXPECT_THAT(values([](const Tensor& y) { return all_gather(slice(y, 0, 0, 1), kTwo, 0); }),
                ElementsAre(1, 2));
    EXPECT_THAT(values([](const Tensor& y) {
                  return all_gather(reshape(y, {2, 2}), kTwo, 1);
                }),
                ElementsAre(1, 10, 2, 20, 5, 0, 4, 1));
    const std::vector<double> sums{3, 30, 9, 1};
    EXPECT_THAT(values([](const Tensor& y) { return reduce_scatter(y, kTwo, 0); }),
                ElementsAre(sums[2 * rank], sums[2 * rank + 1]));
    EXPECT_THAT(values([](const Tensor& y) {
                  return reduce_scatter(reshape(y, {2, 2}), kTwo, 1, Reduction::kFastSum,
                                        full({2, 1}, 100, Dtype::kF64));
                }),
                rank == 0 ? ElementsAre(103, 109) : ElementsAre(130, 101));
    // Rows go, columns come.
    EXPECT_THAT(values([](const Tensor& y) {
                  return all_to_all(reshape(y, {2, 2}), kTwo, 0, 1);
                }),
                rank == 0 ? ElementsAre(1, 10, 2, 20) : ElementsAre(5, 0, 4, 1));
    EXPECT_THAT(values([](const Tensor& y) { return shift(slice(y, 0, 0, 1), kTwo, 1); }),
                ElementsAre(rank == 0 ? 2 : 1));
    EXPECT_THAT(values([](const Tensor& y) {
                  return slice(y, 0, 0, 1) * 0 + cast(axis_index(kTwo), y.dtype());
                }),
                ElementsAre(r));
  });
}

TEST(Collective, ShiftsGoRoundTheAxis) {
  on_ranks(kFour, [](int rank, bool compiled) {
    for (const int64_t by : {0, 1, 3, 4, -1, -6}) {
      const Tensor x = of({static_cast<double>(rank)});
      const double from = static_cast<double>(((rank - by) % 4 + 4) % 4);
      EXPECT_THAT(
          to_doubles(call([&](const Tensor& y) { return shift(y, kFour, by); }, x, compiled)),
          ElementsAre(from));
    }
  });
}

TEST(Collective, PermutationsSendToAnyRank) {
  on_ranks(kFour, [](int rank, bool compiled) {
    const std::vector<int64_t> to{3, 1, 0, 2};
    const double from[] = {2, 1, 3, 0};
    const Tensor x = of({static_cast<double>(rank)});
    EXPECT_THAT(
        to_doubles(call([&](const Tensor& y) { return permute(y, kFour, to); }, x, compiled)),
        ElementsAre(from[rank]));
  });
  const std::vector<int64_t> twice{1, 1, 0, 2};
  EXPECT_THAT(error_of([&] { permute(of({1.0}), kFour, twice); }),
              testing::HasSubstr("each of 4 ranks gets one rank's part"));
}

// A sum begins with what a rank has so far and is formed in the order of ranks.
TEST(Collective, SumsAreCarriedOnInTheOrderOfRanks) {
  run_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
    const bool first = ranks->rank() == 0;
    const Tensor x = of({first ? 1e8 : -1e8, first ? 3.0 : 4.0}, Dtype::kF32);
    const Tensor begun = of({1.0}, Dtype::kF32);
    const double sum = item(reduce_scatter(x, kTwo, 0, Reduction::kSum, begun));
    EXPECT_EQ(sum, first ? static_cast<double>((1.0F + 1e8F) + -1e8F) : 8.0);
    const Tensor halves = cast(x, Dtype::kBF16);
    EXPECT_EQ(reduce_scatter(halves, kTwo, 0, Reduction::kSum, begun).dtype(), Dtype::kF32);
    EXPECT_EQ(reduce_scatter(halves, kTwo, 0).dtype(), Dtype::kBF16);
  });
}

// Seen as one function of what all ranks have, with the sum of what all of them get as its objective: against differences.
TEST(Collective, DerivativesAreThoseOfTheFunctionOverAllRanks) {
  const std::vector<Function> functions{
      [](const Tensor& x) { return all_reduce(square(x), kTwo); },
      [](const Tensor& x) { return all_reduce(x, kTwo, Reduction::kMax); },
      [](const Tensor& x) { return all_reduce(x, kTwo, Reduction::kMin); },
      [](const Tensor& x) { return all_gather(x * x, kTwo, 0); },
      [](const Tensor& x) { return reduce_scatter(x, kTwo, 0); },
      [](const Tensor& x) {
        return reduce_scatter(x, kTwo, 0, Reduction::kSum, square(slice(x, 0, 0, 2)));
      },
      [](const Tensor& x) {
        return all_to_all(reshape(x, {2, 2}), kTwo, 0, 1);
      },
      [](const Tensor& x) { return shift(x, kTwo, 1); },
      [](const Tensor& x) {
        return permute(square(x), kTwo, std::vector<int64_t>{0, 1});
      }};
  constexpr double kStep = 1e-5;
  for (size_t f = 0; f < functions.size(); ++f) {
    // Element i of rank r moves; weights make all results count differently.
    const auto objective = [&](const Tensor& x, int rank) {
      const Tensor y = functions[f](x);
      const Tensor weights =
          cast(iota({y.elements()}, 0), Dtype::kF64) * 0.3 + (rank == 0 ? 1.0 : -2.0);
      return sum(square(reshape(y, {y.elements()})) * weights);
    };
    run_ranks(2, [&](const std::shared_ptr<Ranks>& ranks) {
      const int me = ranks->rank();
      const std::vector<double> start{0.7 + me, -0.4 + 2 * me, 1.3 - me, 0.2 * me - 0.1};
      const auto at = [&](int rank, size_t element, double by) {
        std::vector<double> values = start;
        values[element] += rank == me ? by : 0;
        return tensor<double>(values, {4});
      };
      const Tensor gradient = grad([&](const Tensor& x) { return objective(x, me); })(at(0, 0, 0));
      for (int rank = 0; rank < 2; ++rank) {
        for (size_t i = 0; i < 4; ++i) {
          const auto total = [&](double by) {
            return item(all_reduce(objective(at(rank, i, by), me), kTwo));
          };
          const double slope = (total(kStep) - total(-kStep)) / (2 * kStep);
          if (rank == me) {
            EXPECT_NEAR(to_doubles(gradient)[i], slope, 1e-6) << "function " << f;
          }
        }
      }
      // Forward mode: the derivative along a direction of this rank.
      const Tensor direction = of({0.5, -1.0, 0.25, 2.0});
      const auto pushed =
          jvp([&](const Tensor& x) { return objective(x, me); }, at(0, 0, 0), direction).second;
      const auto along = [&](double by) {
        return item(objective(at(0, 0, 0) + by * direction, me));
      };
      EXPECT_NEAR(item(pushed), (along(kStep) - along(-kStep)) / (2 * kStep), 1e-6)
          << "function " << f;
    });
  }
}

TEST(Collective, ABatchIsEachOfItsSamples) {
  run_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
    const Tensor xs = reshape(cast(iota({24}, 0), Dtype::kF64) * (1.0 + ranks->rank()), {3, 4, 2});
    const auto same = [&](const Function& f) {
      const Tensor batched = vmap(f)(xs);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(to_doubles(select(batched, 0, i)), to_doubles(f(select(xs, 0, i))));
      }
    };
    same([](const Tensor& x) { return all_reduce(x, kTwo); });
    same([](const Tensor& x) { return all_gather(x, kTwo, 1); });
    same([](const Tensor& x) { return reduce_scatter(x, kTwo, 0); });
    same([](const Tensor& x) { return all_to_all(x, kTwo, 0, 1); });
    same([](const Tensor& x) { return shift(x, kTwo, 1); });
  });
}

TEST(Collective, RunsInLoops) {
  on_ranks(kTwo, [](int rank, bool compiled) {
    const auto f = [](const Tensor& x) {
      return scan(
                 [](const Tensor& carry, const Tensor& step) {
                   return std::pair(all_reduce(carry, kTwo) * step, std::tuple<>{});
                 },
                 x, cast(iota({3}, 0), Dtype::kF64) + 1)
          .first;
    };
    // ((x0 + x1) * 1 * 2) * 2 * 2 * 3
    EXPECT_THAT(to_doubles(call(f, of({1.0 + rank}), compiled)), ElementsAre(3 * 2 * 2 * 2 * 3));
  });
}

// What waits in its place is another node than what does not, and stays so in derivatives and batches.
TEST(Collective, ThatWaitIsToldByItsAttributes) {
  const auto made = [](const Function& f) {
    Tensors captures;
    const Types types{{Dtype::kF64, {3, 4}}};
    const GraphPtr graph = trace_program(
        types, [&](std::span<const Tensor> in) { return Tensors{f(in[0])}; }, &captures);
    std::pair<int, int> waits_and_not;
    for (NodeId id = 0; id < graph->size(); ++id) {
      const Node& node = graph->node(id);
      if (graph->live()[id] && node.op->kind == OpKind::kCollective) {
        ++(waits_in_place(node.attrs) ? waits_and_not.first : waits_and_not.second);
      }
    }
    return waits_and_not;
  };
  const auto waiting = [](const Tensor& x) {
    const WaitScope scope(true);
    return reduce_scatter(all_gather(all_to_all(shift(x, kTwo, 1), kTwo, 1, 0), kTwo, 0), kTwo, 0);
  };
  EXPECT_EQ(made(waiting), std::pair(4, 0));
  const auto gradient = [&](const Tensor& x) {
    return grad([&](const Tensor& y) { return sum(square(waiting(y))); })(x);
  };
  EXPECT_EQ(made(gradient), std::pair(8, 0));
  EXPECT_EQ(made([&](const Tensor& x) {
              return vmap(waiting)(reshape(x, {1, 3, 4}));
            }),
            std::pair(4, 0));
  EXPECT_EQ(made([](const Tensor& x) {
              const WaitScope scope(true);
              const Tensor sum = all_reduce(x, kTwo);
              const WaitScope inner(false);
              return sum + all_reduce(x, kTwo) + cast(axis_index(kTwo), x.dtype());
            }),
            std::pair(1, 1));
}

TEST(Collective, ErrorsNameTheOperationItsScopeAndWhatIsMissing) {
  const Tensor x = of({1, 2, 3});
  EXPECT_THAT(message_of<Error>([&] { to_doubles(all_reduce(x, kTwo)); }),
              HasSubstr("the plan was made without ranks"));
  EXPECT_THAT(message_of<Error>([&] { reduce_scatter(x, kTwo, 0); }),
              HasSubstr("does not divide among 2 ranks"));
  EXPECT_THAT(message_of<Error>([] {
                run_ranks(2, [](const std::shared_ptr<Ranks>& ranks) {
                  const NameScope scope("h.3.mlp");
                  if (ranks->rank() == 0) {
                    to_doubles(all_reduce(of({1}), kTwo));
                  }
                });
              }),
              HasSubstr("rank 1 is gone, and does not come to all_reduce h.3.mlp"));
  EXPECT_THAT(
      message_of<Error>([] {
        run_ranks(2, [](const std::shared_ptr<Ranks>&) { to_doubles(all_reduce(of({1}), kFour)); });
      }),
      HasSubstr("the program is for 4 ranks along data, there are 2"));
}

}  // namespace
}  // namespace mstrain
