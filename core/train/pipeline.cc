#include "core/train/pipeline.h"

#include <algorithm>
#include <numeric>

#include "core/base/clock.h"
#include "core/ops/shape.h"
#include "core/schedule/check.h"
#include "core/train/pipeline_run.h"

namespace mstrain {

// A program of this rank: sums so far, then its inputs -> links, copy by copy, then the new sums.
struct Pipeline::Stage {
  std::unique_ptr<Program> program;
  Tensors captures;
  SumRule rule;
  int group = -1;  // of the rank's, where it has results
};

Pipeline::Pipeline(const Graph& gradient, const Inputs& inputs, const Schedule& schedule,
                   std::span<const int64_t> first, int rank, const CompileOptions& options,
                   const RuleOf& rule_of)
    : cut_(cut_stages(gradient, first, schedule.splits_backward())),
      inputs_(inputs),
      rank_(rank),
      micro_batches_(schedule.micro_batches),
      chunk_rank_(check_schedule(schedule).chunk_rank),
      reads_(gradient.inputs().size(), false),
      stages_(cut_.programs.size()) {
  check(cut_.chunks() == schedule.chunks, "{} stages do not follow a schedule of {} chunks",
        cut_.chunks(), schedule.chunks);
  actions_ = schedule.by_rank()[static_cast<size_t>(rank)];
  std::erase_if(actions_, [](const Action& action) { return action.work == Work::kUpdate; });
  plan_messages(schedule);
  plan_sends(schedule);
  for (size_t i = 0; i < cut_.programs.size(); ++i) {
    const StageProgram& it = cut_.programs[i];
    if (it.graph != nullptr && chunk_rank_[static_cast<size_t>(it.chunk)] == rank) {
      stages_[i] = std::make_unique<Stage>(make_stage(it, options, rule_of));
    }
  }
}

Pipeline::Stage Pipeline::make_stage(const StageProgram& it, const CompileOptions& options,
                                     const RuleOf& rule_of) {
  for (const StageProgram::Source& source : it.inputs) {
    if (!source.is_link) {
      reads_[static_cast<size_t>(source.index)] = true;
    }
  }
  Stage stage;
  Types types;
  if (!it.results.empty()) {
    Group group{it.results, {}, {}};
    for (size_t i = it.links.size(); i < it.graph->outputs().size(); ++i) {
      group.values.push_back(it.graph->type(it.graph->outputs()[i]));
    }
    stage.rule = rule_of(group);
    const Trace trace(Trace::Mode::kAbstract);
    types = types_of(stage.rule.zeros(group.values));
    group.sums = types;
    stage.group = static_cast<int>(groups_.size());
    groups_.push_back(std::move(group));
  }
  const size_t sums = types.size();
  for (size_t i = 0; i < it.inputs.size(); ++i) {
    types.insert(types.end(), static_cast<size_t>(given_for(it.inputs[i])),
                 it.graph->type(it.graph->inputs()[i]));
  }
  const GraphPtr graph = trace_program(
      types,
      [&](std::span<const Tensor> given) {
        std::vector<Tensors> by_copy(static_cast<size_t>(inputs_.copies));
        size_t next = sums;
        for (const StageProgram::Source& source : it.inputs) {
          const auto each = static_cast<size_t>(given_for(source));
          for (size_t copy = 0; copy < by_copy.size(); ++copy) {
            by_copy[copy].push_back(given[next + copy % each]);
          }
          next += each;
        }
        Tensors out;
        Tensors after(given.begin(), given.begin() + static_cast<ptrdiff_t>(sums));
        for (const Tensors& values : replay_in_turns(*it.graph, by_copy)) {
          out.insert(out.end(), values.begin(),
                     values.begin() + static_cast<ptrdiff_t>(it.links.size()));
          if (stage.group >= 0) {
            after = stage.rule.add(after, std::span(values).subspan(it.links.size()));
          }
        }
        out.insert(out.end(), after.begin(), after.end());
        return out;
      },
      &stage.captures);
  CompileOptions mine = options;
  mine.keeps_results = false;  // those of one program serve others
  mine.donated.assign(sums, true);
  mine.donated.resize(types.size() + stage.captures.size(), false);
  stage.program = compile(*graph, mine);
  return stage;
}

Pipeline::~Pipeline() = default;

std::vector<int> Pipeline::micro_batches_of(const Action& action) const {
  std::vector<int> all(static_cast<size_t>(inputs_.copies));
  std::iota(all.begin(), all.end(), action.micro_batch * inputs_.copies);
  return all;
}

std::vector<Tensors> Pipeline::run(std::span<const Tensor> inputs, Communicator& ranks) {
  Run run{.ranks = ranks, .asked = std::vector<size_t>(messages_.size(), 0)};
  std::vector<Tensors> sums(groups_.size());
  for (const auto& stage : stages_) {
    if (stage != nullptr && stage->group >= 0) {
      const auto group = static_cast<size_t>(stage->group);
      for (const Tensor& zero : stage->rule.zeros(groups_[group].values)) {
        sums[group].push_back(copy(zero));
      }
    }
  }
  const auto given_as = [&](const StageProgram::Source& source, int micro_batch) -> Tensor {
    if (source.is_link) {
      return take(source.index, micro_batch, run);
    }
    const Tensor& x = inputs[static_cast<size_t>(source.index)];
    if (!is_batch(source)) {
      return x;
    }
    const int64_t rows = x.dim(0) / (micro_batches_ * inputs_.copies);
    return slice(x, 0, micro_batch * rows, (micro_batch + 1) * rows);
  };
  for (size_t turn = 0; turn < actions_.size(); ++turn) {
    const Action& action = actions_[turn];
    const size_t program = PipelineCut::index_of(action.chunk, action.work);
    if (stages_[program] == nullptr) {
      continue;  // nothing to do
    }
    settle(turn, run);
    const Stage& stage = *stages_[program];
    const StageProgram& it = cut_.programs[program];
    const int64_t asked = nanoseconds_now();
    Tensors given =
        stage.group >= 0 ? std::move(sums[static_cast<size_t>(stage.group)]) : Tensors();
    const std::vector<int> micro_batches = micro_batches_of(action);
    for (const StageProgram::Source& source : it.inputs) {
      for (int i = 0; i < given_for(source); ++i) {
        given.push_back(given_as(source, micro_batches[static_cast<size_t>(i)]));
      }
    }
    given.insert(given.end(), stage.captures.begin(), stage.captures.end());
    const int64_t begin = nanoseconds_now();
    Tensors values = stage.program->run(std::move(given));
    auto value = values.begin();
    for (int micro_batch : micro_batches) {
      for (int link : it.links) {
        hand_on(link, micro_batch, *value++, run);
      }
    }
    if (stage.group >= 0) {
      sums[static_cast<size_t>(stage.group)].assign(std::make_move_iterator(value),
                                                    std::make_move_iterator(values.end()));
    }
    if (times_ != nullptr) {
      times_->push_back(
          {action.work, action.chunk, action.micro_batch, asked, begin, nanoseconds_now()});
    }
  }
  for (const Run::Sent& sent : run.sent) {
    sent.wait();
  }
  return sums;
}

int Pipeline::maker(int result) const {
  const auto makes = [&](const StageProgram& it) {
    return std::find(it.results.begin(), it.results.end(), result) != it.results.end();
  };
  const auto found = std::find_if(cut_.programs.begin(), cut_.programs.end(), makes);
  return chunk_rank_[static_cast<size_t>(found->chunk)];
}

std::vector<int> Pipeline::readers(size_t input) const {
  std::vector<int> ranks;
  for (const StageProgram& it : cut_.programs) {
    const bool reads = std::any_of(it.inputs.begin(), it.inputs.end(), [&](const auto& source) {
      return !source.is_link && static_cast<size_t>(source.index) == input;
    });
    if (reads) {
      ranks.push_back(chunk_rank_[static_cast<size_t>(it.chunk)]);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

ProgramMemory Pipeline::memory() const {
  ProgramMemory sum;
  for (const auto& stage : stages_) {
    if (stage != nullptr) {
      const ProgramMemory memory = stage->program->memory();
      sum.arena += memory.arena;
      sum.gradients = std::max(sum.gradients, memory.gradients);
      sum.transient = std::max(sum.transient, memory.transient);
      sum.workspace = std::max(sum.workspace, memory.workspace);
      sum.packed = std::max(sum.packed, memory.packed);
    }
  }
  int64_t sums = 0;
  for (const Group& group : groups_) {
    for (const TensorType& type : group.sums) {
      sums += type.bytes();
    }
  }
  sum.gradients += sums;
  sum.saved = most_between_programs();
  sum.arena += sums + sum.saved;
  return sum;
}

ProgramCost Pipeline::cost() const {
  ProgramCost sum;
  for (const auto& stage : stages_) {
    if (stage != nullptr) {
      const ProgramCost cost = stage->program->cost();
      sum.flops += cost.flops * micro_batches_;
      sum.bytes += cost.bytes * micro_batches_;
      sum.kernels += cost.kernels * micro_batches_;
      sum.seconds += cost.seconds * micro_batches_;
    }
  }
  return sum;
}

std::string Pipeline::text(const std::function<std::string(const Program&)>& text_of) const {
  constexpr std::string_view kWorks[] = {"forward", "backward", "weights"};
  std::string text;
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i] != nullptr) {
      const StageProgram& it = cut_.programs[i];
      text += fmt::format("== part {} of the model, {}\n{}", it.chunk,
                          kWorks[static_cast<size_t>(it.work)], text_of(*stages_[i]->program));
    }
  }
  return text;
}

void Pipeline::profile(std::vector<KernelTime>* kernels, std::vector<ActionTime>* actions) {
  times_ = actions;
  for (const auto& stage : stages_) {
    if (stage != nullptr) {
      stage->program->profile(kernels);
    }
  }
}

}  // namespace mstrain
