// Pipelines of ranks that are threads against one rank that has all layers: the same bits, by every schedule.
#include "core/train/pipeline.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/tensor/host.h"
#include "tests/core/compile/layered_net.h"
#include "tests/ranks.h"

namespace mstrain {
namespace {

constexpr int64_t kMicroRows = 5;

// Sums of the program's results over the micro-batches, by one rank, in a loop.
Tensors sums_of_one_rank(const Whole& whole, size_t weights, int micro_batches) {
  Context context = current_context();
  context.threads = 1;  // as ranks have
  const ContextScope scope(context);
  return jit([&](const Tensors& inputs) {
    return accumulate(micro_batches, [&](const Tensor& ids) {
      Tensors given = inputs;
      given[weights] = ids;
      return replay(*whole.program, given);
    })(inputs[weights]);
  })(whole.inputs);
}

Tensor made_here(const Tensor& given) {
  const HostRead from(given);
  HostWrite to(given.type());
  std::ranges::copy(from.bytes(), to.bytes().begin());
  return to.finish();
}

// Of what it reads a copy on this rank's own device.
Tensors inputs_here(const Pipeline& pipeline, const Tensors& given) {
  Tensors inputs(given.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = pipeline.reads(i) ? made_here(given[i]) : Tensor();
  }
  return inputs;
}

// Layers dealt evenly.
std::vector<int64_t> even_layers(int chunks) {
  std::vector<int64_t> first;
  for (int c = 0; c < chunks; ++c) {
    first.push_back(c * LayeredNet::kLayers / chunks);
  }
  return first;
}

void expect_sums_of_one_rank(const LayeredNet& net, const Schedule& schedule) {
  SCOPED_TRACE(schedule.name + " on " + std::to_string(schedule.ranks));
  const Whole whole = gradient_of(net, kMicroRows, schedule.micro_batches);
  const size_t weights = whole.program->outputs().size() - 1;
  const Tensors expected = sums_of_one_rank(whole, weights, schedule.micro_batches);
  std::vector<int> makers(expected.size(), 0);
  std::mutex mutex;
  run_ranks(Mesh{{{std::string(kPipelineAxis), schedule.ranks}}},
            [&](const std::shared_ptr<Ranks>& ranks) {
              Communicator& group = ranks->along(kPipelineAxis);
              Pipeline pipeline(*whole.program, {.weights = weights, .batch = 1}, schedule,
                                even_layers(schedule.chunks), group.rank(), {},
                                [](const Pipeline::Group&) { return plain_sums(false); });
              const Tensors inputs = inputs_here(pipeline, whole.inputs);
              for (int step = 0; step < 2; ++step) {
                const std::vector<Tensors> sums = pipeline.run(inputs, group);
                const std::lock_guard lock(mutex);
                for (size_t g = 0; g < sums.size(); ++g) {
                  for (size_t i = 0; i < sums[g].size(); ++i) {
                    const auto result = static_cast<size_t>(pipeline.groups()[g].results[i]);
                    expect_equal(sums[g][i], expected[result]);
                    ++makers[result];
                  }
                }
              }
            });
  EXPECT_THAT(makers, testing::Each(2));  // each result is one rank's, in both steps
}

std::vector<Schedule> all_schedules(int ranks, int micro_batches) {
  return {gpipe_schedule(ranks, micro_batches), one_f_one_b_schedule(ranks, micro_batches),
          interleaved_schedule(ranks, 2, micro_batches), zb_h1_schedule(ranks, micro_batches),
          zbv_schedule(ranks, micro_batches)};
}

TEST(Pipeline, EveryScheduleGivesTheSumsOfOneRank) {
  for (const int ranks : {2, 4}) {
    for (const int micro_batches : {ranks, 2 * ranks}) {
      for (const Schedule& schedule : all_schedules(ranks, micro_batches)) {
        expect_sums_of_one_rank({}, schedule);
      }
    }
  }
}

TEST(Pipeline, DropoutTiesSkipsAndRecomputationCrossStages) {
  for (const Schedule& schedule : all_schedules(2, 4)) {
    expect_sums_of_one_rank({.dropout = 0.25, .skips = true, .ties = true}, schedule);
    expect_sums_of_one_rank({.recompute = Recompute::kFull, .dropout = 0.25, .ties = true},
                            schedule);
  }
  expect_sums_of_one_rank({.skips = true, .ties = true}, interleaved_schedule(4, 2, 8));
}

TEST(Pipeline, OneRankIsAPipelineToo) { expect_sums_of_one_rank({}, gpipe_schedule(1, 3)); }

// What a rank has taken from its allocator after a run is what was planned, though rank `late` comes long after the others.
void expect_planned_memory(const Schedule& schedule, int late) {
  constexpr int64_t kRows = 80;
  SCOPED_TRACE(fmt::format("{} on {}, rank {} late", schedule.name, schedule.ranks, late));
  const Whole whole = gradient_of({.ties = true}, kRows, schedule.micro_batches);
  const size_t weights = whole.program->outputs().size() - 1;
  run_ranks(Mesh{{{std::string(kPipelineAxis), schedule.ranks}}},
            [&](const std::shared_ptr<Ranks>& ranks) {
              Communicator& group = ranks->along(kPipelineAxis);
              Pipeline pipeline(*whole.program, {.weights = weights, .batch = 1, .under_way = 0},
                                schedule, even_layers(schedule.chunks), group.rank(), {},
                                [](const Pipeline::Group&) { return plain_sums(false); });
              const Tensors inputs = inputs_here(pipeline, whole.inputs);
              const auto held = [] {
                const MemoryStats stats = current_context().allocator->stats();
                return stats.live_bytes + stats.cached_bytes;
              };
              const int64_t before = held();
              if (group.rank() == late) {
                std::this_thread::sleep_for(std::chrono::milliseconds(30));
              }
              pipeline.run(inputs, group);
              const int64_t taken = held() - before;
              const int64_t planned = pipeline.memory().arena;
              // Sums and slices of the batch are rounded up.
              EXPECT_LE(taken, planned + 1024) << group.rank();
              EXPECT_GE(static_cast<double>(taken), 0.9 * static_cast<double>(planned))
                  << group.rank();
            });
}

TEST(Pipeline, HoldsWhatIsPlannedWhoeverIsLate) {
  for (const Schedule& schedule : all_schedules(2, 8)) {
    expect_planned_memory(schedule, 0);
    expect_planned_memory(schedule, 1);
  }
  for (const Schedule& schedule : all_schedules(4, 8)) {
    expect_planned_memory(schedule, 2);
  }
}

// A rank that does not come is named with what it was to send.
TEST(Pipeline, ARankThatIsGoneIsNamed) {
  const Whole whole = gradient_of({}, kMicroRows, 2);
  const size_t weights = whole.program->outputs().size() - 1;
  const Schedule schedule = one_f_one_b_schedule(2, 2);
  EXPECT_THAT(message_of<CommError>([&] {
                run_ranks(Mesh{{{std::string(kPipelineAxis), 2}}},
                          [&](const std::shared_ptr<Ranks>& ranks) {
                            if (ranks->rank() == 0) {
                              return;
                            }
                            Pipeline pipeline(
                                *whole.program, {.weights = weights, .batch = 1}, schedule,
                                even_layers(2), 1, {},
                                [](const Pipeline::Group&) { return plain_sums(false); });
                            pipeline.run(whole.inputs, ranks->along(kPipelineAxis));
                          });
              }),
              testing::AllOf(testing::HasSubstr("rank 0 is gone"), testing::HasSubstr("F0.0")));
}

}  // namespace
}  // namespace mstrain
