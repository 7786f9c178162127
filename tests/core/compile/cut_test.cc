// The programs of a pipeline, run one after another, against the program that they were cut from.
#include "core/compile/cut.h"

#include <map>

#include "tests/core/compile/layered_net.h"

namespace mstrain {
namespace {

// Forward from the first chunk to the last, backward from the last to the first.
std::vector<int> usual_order(const PipelineCut& cut) {
  std::vector<int> order;
  for (int chunk = 0; chunk < cut.chunks(); ++chunk) {
    order.push_back(chunk * kStageWorks);
  }
  for (int chunk = cut.chunks(); chunk-- > 0;) {
    order.push_back(chunk * kStageWorks + static_cast<int>(Work::kBackward));
  }
  for (int chunk = 0; chunk < cut.chunks(); ++chunk) {
    order.push_back(chunk * kStageWorks + static_cast<int>(Work::kWeights));
  }
  return order;
}

Tensors run_cut(const PipelineCut& cut, const Tensors& inputs, size_t results) {
  std::map<int, Tensor> links;
  Tensors out(results);
  for (int program : usual_order(cut)) {
    const StageProgram& it = cut.programs[static_cast<size_t>(program)];
    if (it.graph == nullptr) {
      continue;
    }
    Tensors given;
    for (const StageProgram::Source& source : it.inputs) {
      given.push_back(source.is_link ? links.at(source.index)
                                     : inputs[static_cast<size_t>(source.index)]);
    }
    const Tensors values = compile(*it.graph)->run(std::move(given));
    for (size_t i = 0; i < it.links.size(); ++i) {
      links[it.links[i]] = values[i];
    }
    for (size_t i = 0; i < it.results.size(); ++i) {
      out[static_cast<size_t>(it.results[i])] = values[it.links.size() + i];
    }
  }
  return out;
}

void expect_same_bits(const LayeredNet& net, const std::vector<int64_t>& first) {
  const Whole whole = gradient_of(net);
  const Tensors expected = compile(*whole.program)->run(whole.inputs);
  for (const bool splits : {false, true}) {
    const PipelineCut cut = cut_stages(*whole.program, first, splits);
    ASSERT_EQ(cut.chunks(), static_cast<int>(first.size()));
    const Tensors actual = run_cut(cut, whole.inputs, expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(i);
      expect_equal(actual[i], expected[i]);
    }
  }
}

const std::vector<int64_t> kCuts[] = {{0}, {0, 3}, {0, 1, 2, 3, 4, 5}, {0, 5, 6}, {0, 2, 5}};

TEST(Cut, GivesTheBitsOfTheWholeWhereverItIsCut) {
  for (const auto& first : kCuts) {
    expect_same_bits({}, first);
  }
}

TEST(Cut, DropoutDrawsTheSameBits) {
  for (const auto& first : kCuts) {
    expect_same_bits({.dropout = 0.3}, first);
  }
}

TEST(Cut, ComputesAgainWhatTheWholeComputesAgain) {
  for (const auto& first : kCuts) {
    expect_same_bits({.recompute = Recompute::kFull, .dropout = 0.2}, first);
  }
}

TEST(Cut, WhatSkipsLayersAndWeightsThatAreTiedCrossStages) {
  for (const auto& first : kCuts) {
    expect_same_bits({.skips = true, .ties = true}, first);
  }
}

// The terms of the table's gradient are rows, and run into one place in the order of the whole.
TEST(Cut, RowsOfOneTableThatStagesReadAddUpInOneOrder) {
  for (const auto& first : kCuts) {
    for (const bool ties : {false, true}) {
      expect_same_bits({.ties = ties, .again = 4}, first);
    }
  }
}

// A stage hands on its stream and a cotangent, each once, to its neighbour.
TEST(Cut, NeighboursExchangeTheStreamAndItsCotangentAlone) {
  const Whole whole = gradient_of({});
  const PipelineCut cut = cut_stages(*whole.program, std::vector<int64_t>{0, 2, 4}, true);
  std::map<std::pair<int, int>, int> sent;
  for (const StageLink& link : cut.links) {
    for (int to : link.to) {
      if (PipelineCut::chunk_of(to) != PipelineCut::chunk_of(link.from)) {
        ++sent[{link.from, to}];
        EXPECT_EQ(to_string(link.type),
                  to_string(TensorType{Dtype::kF32, {5, LayeredNet::kWidth}}));
      }
    }
  }
  const std::map<std::pair<int, int>, int> expected{
      {{0, 3}, 1}, {{3, 6}, 1}, {{7, 4}, 1}, {{4, 1}, 1}};
  EXPECT_EQ(sent, expected);
}

// What the layers before wait for computes no gradient of a weight.
TEST(Cut, BackwardProgramsLeaveTheGradientsOfWeightsToTheirOwn) {
  const Whole whole = gradient_of({});
  const PipelineCut cut = cut_stages(*whole.program, std::vector<int64_t>{0, 3}, true);
  size_t gradients = 0;
  for (const StageProgram& program : cut.programs) {
    for (const int result : program.results) {
      const Value& value = whole.program->outputs()[static_cast<size_t>(result)];
      const int rank = whole.program->type(value).shape.rank();
      // Matrices come of products, all else of sums; the table's of a sum of rows.
      if (program.work != Work::kForward) {
        EXPECT_EQ(program.work, rank == 2 ? Work::kWeights : Work::kBackward) << result;
        ++gradients;
      }
    }
    if (program.work == Work::kBackward) {
      EXPECT_FALSE(program.links.empty()) << "chunk " << program.chunk;
    }
  }
  EXPECT_EQ(cut.programs[0].results.size(), 0U);
  EXPECT_EQ(cut.programs[3].results.size(), 1U);  // the loss
  EXPECT_EQ(gradients, whole.program->outputs().size() - 1);
}

TEST(Cut, SaysWhereStagesHoldNoLayer) {
  const Whole whole = gradient_of({});
  const auto cut_at = [&](std::vector<int64_t> first) {
    return message_of<Error>([&] { cut_stages(*whole.program, first, false); });
  };
  EXPECT_THAT(cut_at({0, 3, 3}), testing::HasSubstr("stage 2 of 3 begins with layer 3"));
  EXPECT_THAT(cut_at({0, 9}), testing::HasSubstr("stage 1 of 2 begins with layer 9"));
  EXPECT_THAT(cut_at({1}), testing::HasSubstr("begins with layer 0"));
  Tensors none;
  const GraphPtr plain = trace_program(
      Types{{Dtype::kF32, {2}}}, [](std::span<const Tensor> x) { return Tensors{x[0] * 2}; },
      &none);
  EXPECT_THAT(message_of<Error>([&] {
                cut_stages(*plain, std::vector<int64_t>{0, 1}, false);
              }),
              testing::HasSubstr("marks no layers"));
}

}  // namespace
}  // namespace mstrain
