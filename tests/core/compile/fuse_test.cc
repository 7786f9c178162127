#include "core/compile/fuse.h"

#include <gmock/gmock.h>

#include "core/exec/execute.h"
#include "core/ops/build.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/matmul.h"
#include "core/ops/norm.h"
#include "core/ops/softmax.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Function = std::function<Tensors(std::span<const Tensor>)>;

GraphPtr recorded(const Types& types, const Function& f) {
  Tensors captures;
  return trace_program(types, f, &captures);
}

// What each group of the fused program is made of, in order.
std::vector<std::string> groups_in(const GraphPtr& graph, const FuseOptions& options = {}) {
  const GraphPtr fused = fuse(*graph, options);
  const std::vector<bool> live = fused->live();
  std::vector<std::string> names;
  for (NodeId id = 0; id < fused->size(); ++id) {
    const Node& node = fused->node(id);
    if (live[id] && node.op->name == "fused") {
      names.push_back(fused_name(*node.attrs.graph("body")));
    }
  }
  return names;
}
std::vector<std::string> groups(const Types& types, const Function& f,
                                const FuseOptions& options = {}) {
  return groups_in(recorded(types, f), options);
}

const TensorType kX{Dtype::kF32, {6, 10}};
const TensorType kRow{Dtype::kF32, {10}};
const TensorType kColumn{Dtype::kF32, {6}};

// One program for each rule: what it becomes, and that it does not without the rule.
struct RuleCase {
  std::string_view rule;
  Types types;
  Function f;
  std::string with;
  std::vector<std::string> without;
};

std::vector<RuleCase> rule_cases() {
  return {
      {"map", {kX, kX}, [](auto x) { return Tensors{exp(x[0] * x[1])}; }, "mul + exp", {}},
      {"spread",
       {kColumn, kX},
       [](auto x) { return Tensors{x[1] * expand_dims(exp(x[0]), 1)}; },
       "exp + mul",
       {}},
      {"fold_rows",
       {kX},
       [](auto x) { return Tensors{sum(exp(x[0]), {1})}; },
       "exp + reduce_sum",
       {}},
      {"fold_columns",
       {kX},
       [](auto x) {
         return Tensors{exp(x[0]), sum(exp(x[0]), {0})};
       },
       "exp + reduce_sum",
       {}},
      {"fold_all",
       {{Dtype::kF32, {200, 100}}},
       [](auto x) { return Tensors{sum(exp(x[0]))}; },
       "exp + reduce_sum",
       {}},
      {"rows",
       {kX, kRow, kRow, kX},
       [](auto x) { return Tensors{layer_norm(x[0] + x[3], x[1], x[2])}; },
       "add + layer_norm",
       {}},
  };
}

TEST(Fuse, HasATestForEveryRuleOfGroups) {
  std::vector<std::string_view> tested;
  for (const RuleCase& it : rule_cases()) {
    tested.push_back(it.rule);
  }
  std::vector<std::string_view> all;
  for (const GroupRule& rule : group_rules()) {
    all.push_back(rule.name);
  }
  EXPECT_EQ(tested, all);
}

TEST(Fuse, EachRuleAppliesAndCanBeSwitchedOff) {
  for (const RuleCase& it : rule_cases()) {
    SCOPED_TRACE(it.rule);
    EXPECT_THAT(groups(it.types, it.f), ElementsAre(it.with));
    FuseOptions options;
    options.off = {std::string(it.rule)};
    EXPECT_EQ(groups(it.types, it.f, options), it.without);
  }
}

TEST(Fuse, MakesSoftmaxByPartsOneGroup) {
  const auto f = [](std::span<const Tensor> x) {
    const Tensor e = exp(x[0] - max(x[0], {1}, true));
    return Tensors{e / sum(e, {1}, true)};
  };
  EXPECT_THAT(groups({kX}, f), ElementsAre("reduce_max + sub + exp + reduce_sum + div"));
}

TEST(Fuse, KeepsWhatOthersReadAsResults) {
  const GraphPtr fused = fuse(*recorded({kX, kX}, [](std::span<const Tensor> x) {
    const Tensor sum = x[0] + x[1];
    return Tensors{sum, tanh(sum)};
  }));
  const Node& node = fused->node(fused->outputs()[0].node);
  EXPECT_EQ(node.op->name, "fused");
  EXPECT_EQ(node.outputs.size(), 2U);
}

TEST(Fuse, ReachesOverNoProductAndNoRandomNumbers) {
  const TensorType square{Dtype::kF32, {8, 8}};
  EXPECT_THAT(groups({square, square},
                     [](std::span<const Tensor> x) {
                       const Tensor before = exp(x[0]);
                       const Tensor product = matmul(x[1], x[1]);
                       return Tensors{before + product};
                     }),
              IsEmpty());
}

// b reads a through a product: a and c in one group would wait for each other.
TEST(Fuse, MakesNoCycle) {
  const TensorType square{Dtype::kF32, {8, 8}};
  const auto f = [](std::span<const Tensor> x) {
    const Tensor a = exp(x[0]);
    const Tensor b = matmul(a, x[0]);
    return Tensors{tanh(a + b)};
  };
  EXPECT_THAT(groups({square}, f), ElementsAre("add + tanh"));
}

TEST(Fuse, DoesNotMixThePartsOfAStep) {
  const auto f = [](std::span<const Tensor> x) {
    const Tensor forward = exp(x[0]);
    const PartScope part(StepPart::kBackward);
    return Tensors{forward * x[1]};
  };
  EXPECT_THAT(groups({kX, kX}, f), IsEmpty());
}

TEST(Fuse, LeavesParametersAndOtherSizesOutside) {
  // The weight is computed from a vector: not row by row.
  EXPECT_THAT(
      groups({kX, kRow, kRow},
             [](std::span<const Tensor> x) { return Tensors{rms_norm(x[0], x[1] * x[2])}; }),
      IsEmpty());
  EXPECT_THAT(
      groups({kX}, [](std::span<const Tensor> x) { return Tensors{exp(transpose(tanh(x[0])))}; }),
      IsEmpty());
}

// A tile holds whole rows of what a number is repeated along: long ones would be as large as the tensor.
TEST(Fuse, RepeatsNoNumberMadeInTheGroupAlongLongRows) {
  const auto scaled = [](std::span<const Tensor> x) {
    return Tensors{x[0] * exp(x[1] * x[2]) + x[0]};
  };
  const TensorType scalar{Dtype::kF32, {}};
  EXPECT_THAT(groups({{Dtype::kF32, {16, 1000}}, scalar, scalar}, scaled),
              ElementsAre("mul + exp + add"));
  FusionLog log;
  FuseOptions options;
  options.log = &log;
  EXPECT_THAT(groups({{Dtype::kF32, {20, 1000}}, scalar, scalar}, scaled, options),
              ElementsAre("mul + exp", "mul + add"));
  EXPECT_THAT(log.text(), HasSubstr("mul with exp: rows of 20000 elements are too long"));
}

// A sum over rows is there when all rows are: what reads it comes after.
TEST(Fuse, ReadsSumsOverRowsFromOutside) {
  const auto f = [](std::span<const Tensor> x) {
    const Tensor y = exp(x[0]);
    return Tensors{y, sqrt(sum(y, {0}))};
  };
  EXPECT_THAT(groups({kX}, f), ElementsAre("exp + reduce_sum"));
}

// What is summed up is one number a row for what repeats it: it cannot be both.
TEST(Fuse, SumsUpNoNumbersOfRows) {
  const auto f = [](std::span<const Tensor> x) {
    const Tensor y = exp(x[0]);
    const Tensor total = sum_squares(y);
    return Tensors{total, x[1] * broadcast_to(y, {10})};
  };
  EXPECT_THAT(groups({{Dtype::kF32, {1}}, kRow}, f), ElementsAre("exp + sum_squares"));
}

TEST(Fuse, SaysWhatItRefusesAndWhy) {
  FusionLog log;
  FuseOptions options;
  options.log = &log;
  const TensorType square{Dtype::kF32, {8, 8}};
  groups(
      {square, square},
      [](std::span<const Tensor> x) {
        const NameScope scope("net");
        const Tensor a = exp(x[0]) + x[1];
        const Tensor b = matmul(a, x[1]);
        return Tensors{sin(b), sum(tanh(a), {1})};
      },
      options);
  const std::string text = log.text();
  EXPECT_THAT(text, HasSubstr("1 × exp + add  (first in net)"));
  EXPECT_THAT(text, HasSubstr("dot_general with add: dot_general is never part of a group"));
  EXPECT_THAT(text, HasSubstr("sin with dot_general: dot_general is never part of a group"));
  EXPECT_THAT(text, HasSubstr("tanh with add: dot_general had read from it"));
}

TEST(Fuse, RefusesARuleThatDoesNotExist) {
  const auto f = [](const Tensor& x) { return exp(x); };
  EXPECT_THAT([&] { jit(f, {.rules_off = {"fold_row"}})(random_tensor({3}, 1)); },
              testing::ThrowsMessage<Error>(HasSubstr("no rule of fusion called 'fold_row'")));
}

// Elementwise groups give the bits of their members one by one, whatever the type and however operands lie.
TEST(Fuse, MapsGiveTheSameBits) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16, Dtype::kF16, Dtype::kI32}) {
    for (const Shape& shape :
         {Shape{1}, Shape{3, 5}, Shape{4, 255}, Shape{3, 257}, Shape{2, 1025}}) {
      const int64_t n = shape.back();
      const auto f = [&](const Tensor& x, const Tensor& y, const Tensor& bias) {
        const Tensor a = x * y + bias;
        const Tensor b = maximum(a, y) - x;
        return std::pair(a, where(less(b, 2), b * b, cast(less(x, y), dtype)));
      };
      const auto of = [&](const Shape& s, uint64_t seed) {
        return cast(3 * random_tensor(s, seed), dtype);
      };
      const Tensor x = of(shape, 1), bias = of({n}, 3);
      // Dense, and a transposed view.
      for (const Tensor& y :
           {of(shape, 2),
            shape.rank() == 2 ? transpose(of({shape[1], shape[0]}, 4)) : of(shape, 5)}) {
        const auto [a, b] = f(x, y, bias);
        const auto [fused_a, fused_b] = jit(f)(x, y, bias);
        expect_equal(fused_a, a);
        expect_equal(fused_b, b);
      }
    }
  }
}

}  // namespace
}  // namespace mstrain
