// Layout rules and the pass that follows them, on ranks that are threads.
#include "core/compile/partition.h"
#include <cmath>

#include "core/base/rng.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "tests/conformance/layout_parts.h"
#include "tests/conformance/random_programs.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

using SharedOp = OpTest;

Mesh line_of(int64_t ranks) { return {{{std::string(kTensorAxis), ranks}}}; }

std::string to_string(const Way& way) {
  std::string text;
  for (const Placement& placement : way.inputs) {
    text += mstrain::to_string(placement) + ' ';
  }
  text += "->";
  for (const Placement& placement : way.outputs) {
    text += ' ' + mstrain::to_string(placement);
  }
  return text;
}

// What each rank of `mesh` makes of its tensors; by output, rank.
using RankProgram = std::function<Tensors(const Tensors&)>;
std::vector<Tensors> on_ranks(const Mesh& mesh, const std::vector<Tensors>& inputs_by_rank,
                              const RankProgram& program) {
  std::vector<Tensors> by_rank(inputs_by_rank.size());
  run_ranks(mesh, [&](const std::shared_ptr<Ranks>& ranks) {
    const auto rank = static_cast<size_t>(ranks->rank());
    by_rank[rank] = program(inputs_by_rank[rank]);
  });
  std::vector<Tensors> by_output(by_rank[0].size());
  for (const Tensors& results : by_rank) {
    for (size_t i = 0; i < results.size(); ++i) {
      by_output[i].push_back(results[i]);
    }
  }
  return by_output;
}

std::vector<Tensors> by_rank(const std::vector<Tensors>& by_input, int64_t ranks) {
  std::vector<Tensors> result(static_cast<size_t>(ranks));
  for (const Tensors& parts : by_input) {
    for (size_t r = 0; r < result.size(); ++r) {
      result[r].push_back(parts[r]);
    }
  }
  return result;
}

void expect_way(const Case& it, const Way& way, const MeshAxis& axis, const Tensors& inputs,
                const Tensors& expected) {
  std::vector<Tensors> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(parts_of(inputs[i], way.inputs[i], axis.size, 5 + 31 * i));
  }
  const std::vector<Tensors> results =
      on_ranks(line_of(axis.size), by_rank(parts, axis.size), [&](const Tensors& own) {
        return way.program ? way.program(own, axis)
                           : apply(*it.op, own, way.attrs, SourceLocation::current());
      });
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const TensorType part = part_of(expected[i].type(), way.outputs[i], axis.size);
    for (const Tensor& own : results[i]) {
      ASSERT_EQ(own.type(), part) << "output " << i;
    }
    Tolerance tolerance = tolerance_for(*it.op, expected[i].dtype(), inputs, expected);
    // Terms of sums are of the size of numbers that are drawn, and round where nothing else does.
    const bool sums = std::any_of(way.inputs.begin(), way.inputs.end(),
                                  [](const Placement& placement) { return placement.partial(); });
    if (is_floating(expected[i].dtype()) && (sums || tolerance.relative > 0)) {
      tolerance = {10 * rounding_of(expected[i].dtype()), std::max(4.0, tolerance.scale)};
    }
    ASSERT_EQ(
        difference(joined(results[i], way.outputs[i], expected[i].type()), expected[i], tolerance),
        "")
        << "output " << i;
  }
}

// Every way of every sample that the ranks divide; under sanitizers on two ranks alone.
TEST_P(SharedOp, GivesOnPartsWhatItGivesOnTheWhole) {
  ASSERT_NE(op().layout, nullptr) << "states no layout rule; layout::whole is a statement";
  const ContextScope scope(context_of(backend_named("cpu")));
  std::vector<Dtype> dtypes{Dtype::kF64, Dtype::kI32};
  if (!accepts(op().dtypes, Dtype::kF64) && !accepts(op().dtypes, Dtype::kI32)) {
    dtypes.assign(std::begin(kAllDtypes), std::end(kAllDtypes));
  }
  if (kSanitized && accepts(op().dtypes, Dtype::kF64)) {
    dtypes = {Dtype::kF64};
  }
  const std::vector<int64_t> lines =
      kSanitized ? std::vector<int64_t>{2} : std::vector<int64_t>{2, 3, 5};
  int64_t stated = 0;
  int64_t tried = 0;
  for (const Case& it : cases_of(op(), dtypes)) {
    SCOPED_TRACE(to_string(it));
    const Tensors inputs = inputs_of(it);
    const Tensors expected = run(it, inputs);
    Types types;
    for (const Tensor& x : inputs) {
      types.push_back(x.type());
    }
    Types outputs;
    for (const Tensor& x : expected) {
      outputs.push_back(x.type());
    }
    for (const int64_t ranks : lines) {
      const MeshAxis axis{std::string(kTensorAxis), ranks};
      const LayoutRequest request{op(), it.sample.attrs, types, outputs, axis};
      for (const Way& way : op().layout(request)) {
        ++stated;
        if (fits(way, request)) {
          ++tried;
          SCOPED_TRACE(fmt::format("{} ranks: {}", ranks, to_string(way)));
          expect_way(it, way, axis, inputs, expected);
        }
        if (HasFailure()) {
          return;
        }
      }
    }
  }
  EXPECT_TRUE(tried > 0 || stated == 0 || kSanitized) << "no sample has dims that ranks divide";
}

MSTRAIN_FOR_OPS(SharedOp, [](const OpDef& op) { return op.samples != nullptr; });

// A layout that tensors of this shape can have.
Layout drawn_layout(Rng& rng, const TensorType& type, const Mesh& mesh, bool terms) {
  Layout layout;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    const int64_t choices = type.shape.rank() + (terms ? 2 : 1);
    const auto choice = static_cast<int>(rng.below(static_cast<uint64_t>(choices)));
    layout.push_back(choice < type.shape.rank()    ? sharded(choice)
                     : choice == type.shape.rank() ? kReplicated
                                                   : partial());
  }
  return layout;
}

constexpr uint64_t kFirstDivided = 7000;

// Programs of the whole table, with their gradients; layouts of inputs and outputs, meshes and the numbers of ranks are drawn.
TEST(Partition, ComputesOnManyRanksWhatOneComputes) {
  const ContextScope scope(context_of(backend_named("cpu")));
  const Mesh meshes[] = {line_of(2),
                         line_of(3),
                         line_of(4),
                         {{{std::string(kContextAxis), 2}, {std::string(kTensorAxis), 2}}}};
  const auto count = static_cast<uint64_t>(repetitions(120, 4000));
  for (uint64_t seed = kFirstDivided; seed < kFirstDivided + count; ++seed) {
    SCOPED_TRACE(fmt::format("program of seed {}", seed));
    const RandomProgram program(seed, {});
    const GraphPtr graph = gradient_graph(program);
    const Tensors inputs = program.inputs();
    const Tensors expected = replay(*graph, inputs);

    Rng rng(seed, 11);
    const Mesh& mesh = meshes[rng.below(std::size(meshes))];
    PartitionOptions options;
    std::vector<Tensors> parts;
    for (size_t i = 0; i < inputs.size(); ++i) {
      options.inputs.push_back(drawn_layout(rng, inputs[i].type(), mesh, true));
      parts.push_back(parts_of(inputs[i], options.inputs[i], mesh, seed + i));
    }
    for (const Tensor& x : expected) {
      const bool wanted = rng.below(2) == 0;
      options.outputs.push_back(wanted ? std::optional(drawn_layout(rng, x.type(), mesh, false))
                                       : std::nullopt);
    }
    options.pieces = 1 + static_cast<int64_t>(rng.below(3));
    const Partitioned divided = partition(*graph, mesh, options);
    const bool compiled = rng.below(2) == 0;
    const std::vector<Tensors> results =
        on_ranks(mesh, by_rank(parts, mesh.ranks()), [&](const Tensors& own) {
          return compiled ? compile(*divided.program, {})->run(own) : replay(*divided.program, own);
        });
    for (size_t i = 0; i < expected.size(); ++i) {
      if (options.outputs[i]) {
        EXPECT_EQ(divided.outputs[i], *options.outputs[i]);
      }
      double scale = 1;
      for (const double value : to_doubles(expected[i])) {
        scale = std::isfinite(value) ? std::max(scale, std::abs(value)) : scale;
      }
      EXPECT_EQ(difference(joined(results[i], divided.outputs[i], mesh, expected[i].type()),
                           expected[i], {1e-8, scale}),
                "")
          << "result " << i << " over " << mesh.describe();
    }
    if (HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace mstrain
