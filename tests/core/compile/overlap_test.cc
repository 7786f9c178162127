// Collectives under other work: where plans begin and end them, and that memory lasts meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/exec/execute.h"
#include "core/ir/halves.h"
#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/dot_general.h"
#include "tests/core/transform/support.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

using ::testing::ElementsAre;

const MeshAxis kTwo{"data", 2};
const TensorType kMatrix{Dtype::kF32, {32, 32}};

// Numbers that travel as late as they can: when somebody waits for them. So whoever changes or reads memory before that gets other
// results than those of eager mode.
class Late final : public Communicator {
 public:
  explicit Late(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view name() const override { return inner_->name(); }

  Event all_reduce(Elements in, Elements out, Reduction reduction, std::string_view what) override {
    return later(
        [=, this](std::string_view text) { return inner_->all_reduce(in, out, reduction, text); },
        what);
  }
  Event reduce_scatter(Elements in, Elements out, std::span<const int64_t> counts,
                       Reduction reduction, std::string_view what) override {
    return later(
        [=, this, own = copied(counts)](std::string_view text) {
          return inner_->reduce_scatter(in, out, own, reduction, text);
        },
        what);
  }
  Event all_gather(Elements in, Elements out, std::span<const int64_t> counts,
                   std::string_view what) override {
    return later([=, this, own = copied(counts)](
                     std::string_view text) { return inner_->all_gather(in, out, own, text); },
                 what);
  }
  Event all_to_all(Elements in, Elements out, std::span<const int64_t> sends,
                   std::span<const int64_t> receives, std::string_view what) override {
    return later(
        [=, this, gone = copied(sends), come = copied(receives)](std::string_view text) {
          return inner_->all_to_all(in, out, gone, come, text);
        },
        what);
  }
  Event broadcast(Elements inout, int root, std::string_view what) override {
    return inner_->broadcast(inout, root, what);
  }
  // Whoever receives waits for it.
  Event send(Elements in, int peer, std::string_view what) override {
    return inner_->send(in, peer, what);
  }
  Event receive(Elements out, int peer, std::string_view what) override {
    return later([=, this](std::string_view text) { return inner_->receive(out, peer, text); },
                 what);
  }
  void barrier(std::string_view what) override { inner_->barrier(what); }
  std::unique_ptr<Communicator> split(int colour, std::string name) override {
    return std::make_unique<Late>(inner_->split(colour, std::move(name)));
  }

 private:
  struct Ending : Event::State {
    std::function<void()> end;
    bool ended = false;
    bool done() const override { return ended; }
    void wait() override {
      if (!std::exchange(ended, true)) {
        end();
      }
    }
  };

  static std::vector<int64_t> copied(std::span<const int64_t> counts) {
    return {counts.begin(), counts.end()};
  }

  template <class Begin>
  static Event later(Begin begin, std::string_view what) {
    const auto ending = std::make_shared<Ending>();
    ending->end = [begin = std::move(begin), what = std::string(what)] { begin(what).wait(); };
    return Event(ending);
  }

  std::unique_ptr<Communicator> inner_;
};

// f on two ranks whose numbers come late.
void on_late_ranks(const std::function<void()>& f) {
  run_ranks(2, [&](const std::shared_ptr<Ranks>& ranks) {
    Context context = current_context();
    context.ranks = std::make_shared<Ranks>(
        ranks->mesh(), std::make_unique<Late>(ranks->world().split(0, "late")));
    const ContextScope scope(context);
    f();
  });
}

using ProgramFunction = std::function<Tensors(std::span<const Tensor>)>;

std::unique_ptr<Program> program_of(const Types& types, const ProgramFunction& f,
                                    std::vector<bool> donated = {}) {
  Tensors captures;
  return compile(*trace_program(types, f, &captures), {.donated = std::move(donated)});
}

// Products, and what begins and ends: "all_reduce 0" where the first begins, "end 0" where something waits for it.
std::vector<std::string> order_of(const Plan& plan) {
  std::vector<std::string> order;
  std::map<int, int> numbers;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    if (step.waits_for >= 0) {
      order.push_back(fmt::format("end {}", numbers.at(step.waits_for)));
    } else if (step.op->kind == OpKind::kCollective) {
      const auto number = static_cast<int>(numbers.size());
      numbers[static_cast<int>(s)] = number;
      order.push_back(fmt::format("{} {}{}", step.op->name, number, step.begins ? "" : " at once"));
    } else if (step.op->kind == OpKind::kContract) {
      order.push_back("product");
    }
  }
  return order;
}

TEST(Overlap, ACollectiveBeginsWhenItsOperandIsThereAndEndsWhereItsResultIsRead) {
  const auto program = program_of({kMatrix, kMatrix}, [](std::span<const Tensor> in) {
    const Tensor total = all_reduce(in[0], kTwo);
    const Tensor product = matmul(in[1], in[1]);
    return Tensors{exp(total), product};
  });
  EXPECT_THAT(order_of(plan_of(*program)), ElementsAre("all_reduce 0", "product", "end 0"));
  const auto alone = program_of(
      {kMatrix}, [](std::span<const Tensor> in) { return Tensors{exp(all_reduce(in[0], kTwo))}; });
  EXPECT_THAT(order_of(plan_of(*alone)), ElementsAre("all_reduce 0 at once"));
}

TEST(Overlap, ACollectiveThatWaitsBeginsAndEndsInItsPlace) {
  const auto program = program_of({kMatrix, kMatrix}, [](std::span<const Tensor> in) {
    const WaitScope scope(true);
    return Tensors{exp(all_reduce(in[0], kTwo)), matmul(in[1], in[1])};
  });
  EXPECT_THAT(order_of(plan_of(*program)), ElementsAre("all_reduce 0 at once", "product"));
}

// Gradients are reduced under the product that makes the next one, and added to the sums then: two at a time.
TEST(Overlap, WhatReadsACollectiveIsNotPulledBeforeTheNextOneBegins) {
  constexpr int kLayers = 3;
  const ProgramFunction f = [](std::span<const Tensor> in) {
    Tensors gradients;
    for (int i = 0; i < kLayers; ++i) {
      gradients.push_back(matmul(in[0], in[static_cast<size_t>(1 + i)]));
    }
    Tensors sums;
    for (size_t i = 0; i < kLayers; ++i) {
      sums.push_back(in[1 + kLayers + i] + all_reduce(gradients[i], kTwo));
    }
    return sums;
  };
  std::vector<bool> donated(1 + 2 * kLayers, false);
  std::fill(donated.begin() + 1 + kLayers, donated.end(), true);
  const auto program = program_of(Types(1 + 2 * kLayers, kMatrix), f, donated);
  EXPECT_THAT(order_of(plan_of(*program)),
              ElementsAre("product", "all_reduce 0", "product", "all_reduce 1", "end 0", "product",
                          "all_reduce 2", "end 1", "end 2"));
  EXPECT_LE(program->memory().arena, 3 * kMatrix.bytes());  // and tiles of the products
}

// However many layers there are, and wherever the program asks for their weights.
TEST(Overlap, AGatherBeginsBeforeWhatReadsTheOneBefore) {
  const auto layers = [](int count, bool waits = false) {
    const WaitScope scope(waits);
    const TensorType shard{Dtype::kF32, {16, 32}};
    Types types(static_cast<size_t>(1 + count), shard);
    types[0] = kMatrix;
    return program_of(types, [](std::span<const Tensor> in) {
      Tensors weights;
      for (const Tensor& part : in.subspan(1)) {
        weights.push_back(all_gather(part * 0.5, kTwo, 0));
      }
      Tensor x = in[0];
      for (const Tensor& weight : weights) {
        x = matmul(x, weight);
      }
      return Tensors{x};
    });
  };
  EXPECT_THAT(order_of(plan_of(*layers(3))),
              ElementsAre("all_gather 0", "all_gather 1", "end 0", "product", "all_gather 2",
                          "end 1", "product", "end 2", "product"));
  EXPECT_EQ(layers(4)->memory().arena, layers(9)->memory().arena);
  // One at a time where nothing goes on under them.
  EXPECT_THAT(order_of(plan_of(*layers(3, true))),
              ElementsAre("all_gather 0 at once", "product", "all_gather 1 at once", "product",
                          "all_gather 2 at once", "product"));
  EXPECT_LE(layers(9, true)->memory().arena, layers(9)->memory().arena - kMatrix.bytes());
}

// Any chain of numbers, some of them from other ranks, small enough to stay finite.
Tensors random_program(uint64_t seed, const Tensor& x, const Tensor& y) {
  Rng rng(seed);
  Tensors values{x, y};
  const auto any = [&] { return values[rng.below(values.size())]; };
  for (int i = 0; i < 24; ++i) {
    switch (rng.below(9)) {
      case 0:
      case 1: values.push_back(all_reduce(any(), kTwo)); break;
      case 2: values.push_back(shift(any(), kTwo, 1)); break;
      case 3: values.push_back(sum(all_gather(any(), kTwo, 1), {1}, true) * any()); break;
      case 4: values.push_back(all_gather(reduce_scatter(any(), kTwo, 0), kTwo, 0)); break;
      case 5: {
        const Tensor begun = slice(any(), 0, 0, 4);
        values.push_back(
            all_gather(reduce_scatter(any(), kTwo, 0, Reduction::kSum, begun), kTwo, 0));
        break;
      }
      case 6: values.push_back(all_to_all(reshape(any(), {4, 8}), kTwo, 1, 0)); break;
      case 7: values.push_back(matmul(any(), transpose(any()))); break;
      default: values.push_back(any() + tanh(any()));
    }
    values.back() = tanh(reshape(values.back(), {8, -1}));
    if (values.back().dim(1) != 4) {
      values.back() = slice(values.back(), 1, 0, 4);
    }
  }
  // The last ones, and one that others read too.
  return {values[values.size() - 1], values[values.size() - 2], values[values.size() / 2]};
}

TEST(Overlap, NumbersThatComeAsLateAsTheyCanChangeNothing) {
  on_late_ranks([] {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const auto rank = static_cast<uint64_t>(current_context().ranks->rank());
      const auto given = [&](uint64_t i) {
        return random_tensor({8, 4}, 100 * seed + 10 * i + rank);
      };
      const auto program =
          program_of({given(0).type(), given(1).type()},
                     [&](std::span<const Tensor> in) { return random_program(seed, in[0], in[1]); },
                     {seed % 2 == 0, seed % 3 == 0});
      const Tensors expected = random_program(seed, given(0), given(1));
      for (int run = 0; run < 2; ++run) {
        const Tensors got = program->run({given(0), given(1)});
        for (size_t i = 0; i < got.size(); ++i) {
          SCOPED_TRACE(fmt::format("seed {}, result {}", seed, i));
          expect_near(got[i], expected[i]);
        }
      }
    }
  });
}

TEST(Overlap, AStepThatFailsLeavesNothingOnItsWay) {
  struct Counting final : Event::State {
    explicit Counting(int& ended) : ended(ended) {}
    bool done() const override { return false; }
    void wait() override { ++ended; }
    int& ended;
  };
  int ended = 0;
  const auto kernel = std::make_shared<Kernel>();
  kernel->run =
      Halves{[&](const KernelMemory&) { return Event(std::make_shared<Counting>(ended)); },
             [](const KernelMemory&) {}};
  const auto failing = std::make_shared<Kernel>();
  failing->run = [](const KernelMemory&) { fail("it fails"); };
  Plan plan;
  plan.steps.resize(3);
  for (PlanStep& step : plan.steps) {
    step.op = &kDotGeneral;
  }
  plan.steps[0].kernel = kernel;
  plan.steps[0].begins = true;
  plan.steps[1].kernel = failing;
  plan.steps[2].kernel = kernel;
  plan.steps[2].waits_for = 0;
  PlanAddresses addresses(plan);
  EXPECT_EQ(message_of<Error>([&] {
              execute(plan, {}, {}, {nullptr}, addresses,
                      {host_device()->queue(Device::Use::kKernels)});
            }),
            "it fails");
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace mstrain
