// Programs on parts that the ranks do not divide. What fills these up is no number of the program, and functions make of it what
// they will: log 0, 0 / 0, exp of what is no maximum's.
#include <cmath>
#include <limits>

#include "core/base/rng.h"
#include "core/compile/partition.h"
#include "core/ops/build.h"
#include "core/ops/dot_general.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/ops/softmax.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "tests/amount.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/layout_parts.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

// Of square matrices, whose numbers are between 0.5 and 1.5: all that it does is finite there.
class PartialFunctions {
 public:
  explicit PartialFunctions(uint64_t seed) : rng_(seed, 3) {}

  Tensor operator()(const Tensors& inputs) {
    pool_ = inputs;
    for (int i = 0; i < 5; ++i) {
      pool_.push_back(around_1(next()));
    }
    Tensor all = full({}, 0, Dtype::kF64);
    for (const Tensor& x : pool_) {
      all = all + sum(log(x) * any()) + sum(product(x, any()));
    }
    return all;
  }

 private:
  static Tensor around_1(const Tensor& x) { return 1 + tanh(x) * 0.5; }
  static Tensor product(const Tensor& x, const Tensor& y) {
    return dot_general(x, y, {"ik", "kj", "ij"});
  }
  const Tensor& any() { return pool_[rng_.below(pool_.size())]; }

  Tensor next() {
    const Tensor x = any();
    const auto axis = static_cast<int>(rng_.below(2));
    switch (rng_.below(10)) {
      case 0: return product(log(x), any());
      case 1: return product(any(), x / any());
      case 2: return product(rsqrt(x), log(any() - 0.25));
      case 3: return exp(where(x < 0.25, 1000, x));  // of 0 more than a double
      case 4: return product(pow(x, -any()), any());
      case 5: return x / sum(x, {axis}, true);
      case 6: return x - log(sum(exp(x * 3), {axis}, true));
      case 7: return softmax(log(x), axis);
      case 8: return max(log(x), {axis}, true) + sqrt(x - 0.25);
      default: {  // attention, whose first row sees one place; one that is 0 would see none
        const Tensor seen = logical_and(iota(x.shape(), 1) <= iota(x.shape(), 0), any() > 0);
        const double unseen = -std::numeric_limits<double>::infinity();
        return product(softmax(where(seen, product(x, any()), unseen), 1), any());
      }
    }
  }

  Rng rng_;
  Tensors pool_;
};

Placement drawn(Rng& rng) {
  const auto choice = static_cast<int>(rng.below(3));
  return choice == 2 ? kReplicated : sharded(choice);
}

TEST(UnevenParts, HoldNothingThatReachesAnElement) {
  const ContextScope scope(context_of(backend_named("cpu")));
  for (int64_t seed = 0; seed < repetitions(60, 2000); ++seed) {
    SCOPED_TRACE(fmt::format("program of seed {}", seed));
    Rng rng(static_cast<uint64_t>(seed), 5);
    const int64_t ranks = 2 + static_cast<int64_t>(rng.below(3));
    const int64_t size = rng.below(2) == 0 ? 5 : 7;
    const Mesh mesh{{{std::string(kTensorAxis), ranks}}};
    Tensors inputs;
    for (int i = 0; i < 3; ++i) {
      std::vector<double> values(static_cast<size_t>(size * size));
      for (double& value : values) {
        value = rng.uniform(0.5, 1.5);
      }
      inputs.push_back(tensor<double>(values, {size, size}));
    }
    const auto f = [&](const Tensors& x) {
      return PartialFunctions(static_cast<uint64_t>(seed))(x);
    };
    const Types types(3, inputs[0].type());
    Tensors captures;
    const GraphPtr graph = trace_program(
        types,
        [&](std::span<const Tensor> x) {
          auto [value, gradients] = value_and_grad(f)(Tensors(x.begin(), x.end()));
          gradients.push_back(value);
          return gradients;
        },
        &captures);
    const Tensors expected = replay(*graph, inputs);

    PartitionOptions options;
    std::vector<Tensors> parts(static_cast<size_t>(ranks));
    for (size_t i = 0; i < inputs.size(); ++i) {
      options.inputs.push_back({drawn(rng)});
      const Tensors of_ranks = parts_of(inputs[i], options.inputs[i], mesh, 1);
      for (size_t r = 0; r < parts.size(); ++r) {
        parts[r].push_back(of_ranks[r]);
      }
    }
    const Partitioned divided = partition(*graph, mesh, options);
    std::vector<Tensors> results(expected.size(), Tensors(static_cast<size_t>(ranks)));
    run_ranks(mesh, [&](const std::shared_ptr<Ranks>& own) {
      const auto rank = static_cast<size_t>(own->rank());
      const Tensors made = seed % 2 == 0 ? compile(*divided.program, {})->run(parts[rank])
                                         : replay(*divided.program, parts[rank]);
      for (size_t i = 0; i < made.size(); ++i) {
        results[i][rank] = made[i];
      }
    });
    for (size_t i = 0; i < expected.size(); ++i) {
      double scale = 1;
      for (const double value : to_doubles(expected[i])) {
        ASSERT_TRUE(std::isfinite(value));
        scale = std::max(scale, std::abs(value));
      }
      EXPECT_EQ(difference(joined(results[i], divided.outputs[i], mesh, expected[i].type()),
                           expected[i], {1e-8, scale}),
                "")
          << "result " << i;
    }
    if (HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace mstrain
