#include "core/compile/partition.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>

#include "core/ops/attention.h"
#include "core/ops/build.h"
#include "core/ops/dot_general.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/ops/random.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/jit.h"
#include "core/transform/float8.h"
#include "core/transform/recompute.h"
#include "core/transform/scan.h"
#include "tests/core/compile/covered.h"
#include "tests/core/transform/support.h"

namespace mstrain {
namespace {

using testing::HasSubstr;
using Program = std::function<Tensors(std::span<const Tensor>)>;

const Mesh kTwoRanks{{{std::string(kTensorAxis), 2}}};
const Layout kWhole{kReplicated};
const Layout kColumns{sharded(1)};
const Layout kRows{sharded(0)};

GraphPtr traced(const Types& types, const Program& program) {
  Tensors captures;
  return trace_program(types, program, &captures);
}

void count_ops(const Graph& graph, std::map<std::string, int>& counts) {
  const std::vector<bool> live = graph.live();
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!live[id]) {
      continue;
    }
    const Node& node = graph.node(id);
    ++counts[std::string(node.op->name)];
    if (node.op->loop != nullptr) {
      count_ops(*node.op->loop(node.attrs).body, counts);
    }
  }
}
std::map<std::string, int> ops_of(const Graph& graph) {
  std::map<std::string, int> counts;
  count_ops(graph, counts);
  return counts;
}

// x + two products with an activation between them, as the feed-forward part of a layer is.
const Types kMlpTypes{{Dtype::kF32, {2, 6, 4}}, {Dtype::kF32, {4, 8}}, {Dtype::kF32, {8, 4}}};
Tensors mlp(std::span<const Tensor> in) {
  const Tensor hidden = gelu(dot_general(in[0], in[1], {"btc", "cf", "btf"}));
  return {in[0] + dot_general(hidden, in[2], {"btf", "fc", "btc"})};
}

TEST(Partition, AddsUpOnceBehindColumnsAndRows) {
  const Partitioned divided = partition(*traced(kMlpTypes, mlp), kTwoRanks,
                                        {.inputs = {kWhole, kColumns, kRows}, .outputs = {kWhole}});
  auto ops = ops_of(*divided.program);
  EXPECT_EQ(ops["all_reduce"], 1);
  EXPECT_EQ(ops["all_gather"] + ops["reduce_scatter"] + ops["all_to_all"], 0);
}

TEST(Partition, ScattersAStreamInsteadOfAddingItUpEverywhere) {
  const Partitioned divided = partition(*traced(kMlpTypes, mlp), kTwoRanks,
                                        {.inputs = {Layout{sharded(1)}, kColumns, kRows},
                                         .outputs = {},
                                         .scattered_along = std::string(kTensorAxis),
                                         .stream = {{2, 6}, 1}});
  auto ops = ops_of(*divided.program);
  EXPECT_EQ(ops["all_reduce"], 0);
  EXPECT_EQ(ops["all_gather"], 1);
  EXPECT_EQ(ops["reduce_scatter"], 1);
  EXPECT_EQ(divided.outputs[0], Layout{sharded(1)});
}

// Of each sharded operand the ranks' largest magnitude is the largest; codes, not numbers, are gathered.
TEST(Partition, SharesProductsOf8BitFloatsAsOthers) {
  // Rows that are long enough to be looked through one by one.
  const Types types{
      {Dtype::kBF16, {2, 6, 512}}, {Dtype::kBF16, {512, 1024}}, {Dtype::kBF16, {1024, 512}}};
  const auto in_codes = [](std::span<const Tensor> in) {
    const auto f = [](const Tensors& x) { return mlp(x)[0]; };
    return Tensors{
        in_float8(f, {{1, 2}, Tensors(6, full({}, 1)), 0})(Tensors(in.begin(), in.end()))};
  };
  const GraphPtr whole = traced(types, in_codes);
  PartitionOptions options{.inputs = {kWhole, kColumns, kRows}, .outputs = {kWhole}};
  auto ops = ops_of(*partition(*whole, kTwoRanks, options).program);
  EXPECT_EQ(ops["all_reduce"], 4);  // of both weights, what is between them, and the sum
  EXPECT_EQ(ops["all_gather"] + ops["reduce_scatter"] + ops["all_to_all"], 0);
  EXPECT_EQ(ops["float8_product"], 2);
  options.inputs[0] = Layout{sharded(1)};
  options.outputs.clear();
  options.scattered_along = std::string(kTensorAxis);
  options.stream = {{2, 6}, 1};
  const GraphPtr dealt_out = partition(*whole, kTwoRanks, options).program;
  ops = ops_of(*dealt_out);
  EXPECT_EQ(ops["all_gather"], 1);
  EXPECT_EQ(ops["reduce_scatter"], 1);
  for (NodeId id = 0; id < dealt_out->size(); ++id) {
    const Node& node = dealt_out->node(id);
    EXPECT_TRUE(node.op->name != "all_gather" || node.outputs[0].dtype == Dtype::kU8);
  }
}

TEST(Partition, ComputesProductsInPiecesBesideTheirExchanges) {
  PartitionOptions options{.inputs = {kWhole, kColumns, kRows}, .outputs = {kWhole}, .pieces = 2};
  auto ops = ops_of(*partition(*traced(kMlpTypes, mlp), kTwoRanks, options).program);
  EXPECT_EQ(ops["all_reduce"], 2);
  EXPECT_EQ(ops["dot_general"], 3);
  // Two layers over a stream, of which each gathers what the one before has dealt out.
  const auto layers = [](std::span<const Tensor> in) {
    const Tensor first = mlp(in)[0];
    return mlp(Tensors{first, in[1], in[2]});
  };
  options.outputs.clear();
  options.scattered_along = std::string(kTensorAxis);
  options.stream = {{2, 6}, 1};
  const GraphPtr dealt_out = partition(*traced(kMlpTypes, layers), kTwoRanks, options).program;
  ops = ops_of(*dealt_out);
  EXPECT_EQ(ops["reduce_scatter"], 4);
  EXPECT_EQ(ops["all_gather"], 2);
  EXPECT_EQ(ops["dot_general"], 7);
  // The first piece of each of the three.
  EXPECT_GE(covered_collectives(plan_of(*compile(*dealt_out, {}))), 3);
  // A single sample has its positions alone, which are dealt out.
  Types one = kMlpTypes;
  one[0].shape[0] = 1;
  options.stream.dims = {1, 6};
  ops = ops_of(*partition(*traced(one, layers), kTwoRanks, options).program);
  EXPECT_EQ(ops["reduce_scatter"], 2);
  EXPECT_EQ(ops["all_gather"], 1);
}

TEST(Partition, AddsUpTermsOfSumsTogether) {
  const Types types{{Dtype::kF32, {4, 8}}, {Dtype::kF32, {4, 8}}, {Dtype::kF32, {8, 4}}};
  const GraphPtr graph = traced(types, [](std::span<const Tensor> in) -> Tensors {
    const Tensor a = dot_general(in[0], in[2], {"rk", "kn", "rn"});
    const Tensor b = dot_general(in[1], in[2], {"rk", "kn", "rn"});
    return {2 * a - transpose(b) / 3};
  });
  const Partitioned divided =
      partition(*graph, kTwoRanks, {.inputs = {kColumns, kColumns, kRows}, .outputs = {kWhole}});
  EXPECT_EQ(ops_of(*divided.program)["all_reduce"], 1);
}

TEST(Partition, BringsATensorIntoOnePlaceOnce) {
  const Types types{{Dtype::kF32, {4, 8}}};
  const GraphPtr graph = traced(types, [](std::span<const Tensor> in) -> Tensors {
    return {cumsum(in[0], 1), sum(cumsum(in[0], 1, true))};
  });
  const Partitioned divided = partition(*graph, kTwoRanks, {.inputs = {kColumns}});
  EXPECT_EQ(ops_of(*divided.program)["all_gather"] + ops_of(*divided.program)["all_to_all"], 1);
}

TEST(Partition, GathersNoLogitsAndNoTableOfAVocabulary) {
  const Types types{{Dtype::kI32, {2, 6}}, {Dtype::kF32, {11, 4}}, {Dtype::kI32, {2, 6}}};
  const GraphPtr graph = traced(types, [](std::span<const Tensor> in) -> Tensors {
    const Tensor x = gather(in[1], in[0], 0);
    return {linear_cross_entropy(x, in[1], in[2], {.transpose_weight = true}).loss};
  });
  const Partitioned divided =
      partition(*graph, kTwoRanks, {.inputs = {kWhole, kRows, kWhole}, .outputs = {kWhole}});
  EXPECT_EQ(ops_of(*divided.program)["all_gather"], 0);
  for (NodeId id = 0; id < divided.program->size(); ++id) {
    for (const TensorType& type : divided.program->node(id).outputs) {
      EXPECT_TRUE(type.shape.rank() == 0 || type.shape.back() != 11) << to_string(type);
    }
  }
}

TEST(Partition, KeepsTermsOfASumInTheCarryOfALoop) {
  const Types types{{Dtype::kF32, {3, 4, 8}}, {Dtype::kF32, {8, 5}}};
  const GraphPtr graph = traced(types, [](std::span<const Tensor> in) -> Tensors {
    const auto f = [&](const Tensor& c, const Tensor& x) {
      return std::pair(c + dot_general(x, in[1], {"rk", "kn", "rn"}), sum(x));
    };
    return {scan(f, zeros({Dtype::kF32, {4, 5}}), in[0]).first};
  });
  const Partitioned divided =
      partition(*graph, kTwoRanks, {.inputs = {Layout{sharded(2)}, kRows}, .outputs = {kWhole}});
  // The loop's body has none: it stands behind the loop.
  EXPECT_EQ(ops_of(*divided.program)["all_reduce"], 1);
  const Node& last = divided.program->node(divided.program->outputs()[0].node);
  EXPECT_EQ(last.op->name, "all_reduce");
}

// Along the carry that is replicated its sum is made, which the other could be terms of.
TEST(Partition, GivesOneValueToCarriesOfTwoLayouts) {
  const Types types{{Dtype::kF32, {3, 8}}, {Dtype::kF32, {8, 4}}, {Dtype::kF32, {3, 4}}};
  for (const bool is_one : {true, false}) {
    const GraphPtr graph = traced(types, [&](std::span<const Tensor> in) -> Tensors {
      const auto f = [&](const Tensors& c, const std::tuple<>&) {
        const Tensor next = (c[0] + dot_general(in[0], in[1], {"bc", "cf", "bf"})) * 0.5;
        return std::pair(Tensors{next, is_one ? next : next * 1.5}, std::tuple<>());
      };
      const Tensors from{zeros({Dtype::kF32, {3, 4}}), in[2]};
      return scan(f, from, std::tuple<>(), {.length = 3}).first;
    });
    const PartitionOptions options{.inputs = {kColumns, kRows, kWhole},
                                   .outputs = {kWhole, kWhole}};
    EXPECT_NO_THROW(partition(*graph, kTwoRanks, options)) << is_one;
  }
}

TEST(Partition, DrawsOnlyItsPartOfWhatIsDropped) {
  const Types types{{Dtype::kF32, {4, 6}}, {Dtype::kU32, {2}}};
  const GraphPtr graph = traced(
      types, [](std::span<const Tensor> in) -> Tensors { return {dropout(in[0], 0.5, in[1])}; });
  const Partitioned divided = partition(*graph, kTwoRanks, {.inputs = {kColumns, kWhole}});
  const std::vector<bool> live = divided.program->live();
  for (NodeId id = 0; id < divided.program->size(); ++id) {
    const Node& node = divided.program->node(id);
    if (live[id] && node.op->kind == OpKind::kRandom) {
      EXPECT_EQ(node.outputs[0].shape, (Shape{4, 3}));
    }
  }
}

// What results are brought into place by is looked up when the program that they are recomputed by has been walked through.
TEST(Partition, BringsWhatIsRecomputedIntoPlace) {
  const auto of = [](const Tensor& x) { return tanh(x); };
  const GraphPtr product =
      traced({{Dtype::kF32, {6, 4}}, {Dtype::kF32, {4, 8}}}, [&](std::span<const Tensor> x) {
        return Tensors{dot_general(recompute(of)(x[0]), x[1], {"bc", "cf", "bf"})};
      });
  const Partitioned summed = partition(
      *product, kTwoRanks,
      {.inputs = {Layout{sharded(1)}, Layout{sharded(0)}}, .outputs = {kWhole}, .pieces = 2});
  EXPECT_EQ(ops_of(*summed.program)["dot_general"], 2);

  const auto draw = [](const Tensor& key) { return uniform(key, {6, 8}); };
  const GraphPtr drawn = traced({{Dtype::kU32, {2}}}, [&](std::span<const Tensor> key) {
    return Tensors{recompute(draw)(key[0]) * 1.0};
  });
  const Partitioned parts =
      partition(*drawn, kTwoRanks, {.inputs = {kWhole}, .outputs = {Layout{sharded(1)}}});
  EXPECT_EQ(parts.program->types(parts.program->outputs())[0].shape, (Shape{6, 4}));
}

TEST(Partition, RefusesWhatNoRuleAllowsAndSaysWhere) {
  const Types types{{Dtype::kF32, {4}}};
  const GraphPtr identity_of =
      traced(types, [](std::span<const Tensor> in) -> Tensors { return {sin(in[0])}; });
  try {
    partition(*identity_of, kTwoRanks, {.inputs = {kWhole}, .outputs = {Layout{partial()}}});
    FAIL() << "made terms of a sum out of a whole";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("is replicated along tensor and cannot become partial(sum)"));
    EXPECT_THAT(error.what(), HasSubstr("partition_test.cc"));
  }
  EXPECT_THROW(partition(*identity_of, kTwoRanks, {.inputs = {kColumns}}), Error);
}

TEST(Partition, IsTheSameProgramOnAMeshOfOne) {
  const GraphPtr graph = traced(kMlpTypes, mlp);
  const Partitioned divided =
      partition(*graph, {{{std::string(kTensorAxis), 1}}}, {.inputs = {kWhole, kColumns, kRows}});
  EXPECT_TRUE(*divided.program == *graph);
}

}  // namespace
}  // namespace mstrain
