#include "core/train/pipeline.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "core/base/clock.h"
#include "core/ops/shape.h"
#include "core/schedule/check.h"
#include "core/schedule/order.h"
#include "core/schedule/simulate.h"
#include "core/train/device_messages.h"

namespace mstrain {
namespace {

Elements elements_of(const std::byte* data, const TensorType& type) {
  return {const_cast<std::byte*>(data), type.elements(), type.dtype};
}

// Operations, and bytes moved as one each.
double work_of(const Graph* graph) {
  double sum = 0;
  for (NodeId id = 0; graph != nullptr && id < graph->size(); ++id) {
    const Node& node = graph->node(id);
    if (node.op->cost != nullptr) {
      const Cost cost = node.op->cost(graph->types(node.inputs), node.outputs, node.attrs);
      sum += cost.flops + cost.bytes;
    }
  }
  return sum;
}

}  // namespace

// A program of this rank: sums so far, then its inputs -> links, copy by copy, then the new sums.
struct Pipeline::Stage {
  std::unique_ptr<Program> program;
  Tensors captures;
  SumRule rule;
  int group = -1;  // of the rank's, where it has results
};

// What one run holds for programs to come, and sends.
struct Pipeline::Run {
  // A value, and how many programs of this rank have not read it.
  struct Held {
    Tensor value;
    int readers = 0;
    std::optional<HostWrite> coming = {};  // from another rank
    Event arrived = {};
  };
  struct Sent {
    size_t due;
    int64_t bytes;
    std::optional<HostRead> read;  // through the host
    Tensor value;                  // else: whoever takes its memory waits on the device
    Event gone;
    void wait() const {
      if (read) {
        gone.wait();
      }
    }
  };
  Communicator& ranks;
  DeviceLinks* links = device_links(ranks);       // null: through the host
  std::map<std::pair<int, int>, Held> held = {};  // by link and micro-batch
  std::vector<Sent> sent = {};
  std::vector<size_t> asked;  // by peer: how many of its messages
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

// Other ranks whose programs read `link`, which rank `from` makes.
std::vector<int> Pipeline::peers_of(const StageLink& link, int from) const {
  std::vector<int> peers;
  for (int program : link.to) {
    const int peer = chunk_rank_[static_cast<size_t>(PipelineCut::chunk_of(program))];
    if (peer != from && std::find(peers.begin(), peers.end(), peer) == peers.end()) {
      peers.push_back(peer);
    }
  }
  return peers;
}

void Pipeline::plan_messages(const Schedule& schedule) {
  messages_.resize(static_cast<size_t>(schedule.ranks));
  for (const Action& action : schedule.actions) {
    if (action.rank == rank_ || action.work == Work::kUpdate) {
      continue;
    }
    for (int micro_batch : micro_batches_of(action)) {
      for (int link : cut_.program(action.chunk, action.work).links) {
        const std::vector<int> peers = peers_of(cut_.links[static_cast<size_t>(link)], action.rank);
        if (std::find(peers.begin(), peers.end(), rank_) != peers.end()) {
          messages_[static_cast<size_t>(action.rank)].push_back({link, micro_batch});
        }
      }
    }
  }
}

// By a timetable in which programs take as long as they have operations. What one action waits for begins before it there, and so
// waits never go in a circle, whatever the times.
void Pipeline::plan_sends(const Schedule& schedule) {
  const ActionOrder order(schedule);
  std::vector<double> begin(order.size());
  std::vector<ChunkTimes> times;
  for (int chunk = 0; chunk < cut_.chunks(); ++chunk) {
    const auto time = [&](Work work) { return 1 + work_of(cut_.program(chunk, work).graph.get()); };
    times.push_back({time(Work::kForward), time(Work::kBackward), time(Work::kWeights)});
  }
  for (const SimulatedAction& it : simulate(schedule, times).actions) {
    begin[order.id(it.action)] = it.begin;
  }
  const auto begin_of = [&](const Action& action) { return begin[order.id(action)]; };
  for (auto it = actions_.begin(); it != actions_.end(); ++it) {
    for (const int link : cut_.program(it->chunk, it->work).links) {
      std::map<int, double> taken;  // by peer
      for (const int program : cut_.links[static_cast<size_t>(link)].to) {
        const StageProgram& reader = cut_.programs[static_cast<size_t>(program)];
        const int peer = chunk_rank_[static_cast<size_t>(reader.chunk)];
        const double at = begin_of({peer, reader.work, reader.chunk, it->micro_batch});
        const auto [found, is_new] = taken.emplace(peer, at);
        found->second = std::min(found->second, at);
      }
      taken.erase(rank_);
      for (const auto& [peer, at] : taken) {
        const auto beside = std::find_if(
            it + 1, actions_.end(), [&](const Action& action) { return begin_of(action) >= at; });
        due_[{link, it->micro_batch, peer}] = static_cast<size_t>(beside - actions_.begin()) + 1;
      }
    }
  }
}

size_t Pipeline::due(int link, int micro_batch, int peer) const {
  return due_.at({link, micro_batch / inputs_.copies, peer});
}

int Pipeline::readers_here(const StageLink& link) const {
  return static_cast<int>(std::count_if(link.to.begin(), link.to.end(), [&](int program) {
    return chunk_rank_[static_cast<size_t>(PipelineCut::chunk_of(program))] == rank_;
  }));
}

// "the result of F0.3", for errors.
std::string Pipeline::name_of(const Message& message) const {
  const StageProgram& from =
      cut_.programs[static_cast<size_t>(cut_.links[static_cast<size_t>(message.link)].from)];
  return "the result of " + to_string(Action{.work = from.work,
                                             .chunk = from.chunk,
                                             .micro_batch = message.micro_batch / inputs_.copies});
}

// Messages of a peer come in its order: what is asked for has all those before it asked for.
void Pipeline::ask(int peer, const Message& wanted, Run& run) const {
  const std::vector<Message>& messages = messages_[static_cast<size_t>(peer)];
  size_t& asked = run.asked[static_cast<size_t>(peer)];
  while (!run.held.contains({wanted.link, wanted.micro_batch})) {
    check(asked < messages.size(), "rank {} of the pipeline does not send link {}", peer,
          wanted.link);
    const Message& next = messages[asked++];
    const StageLink& link = cut_.links[static_cast<size_t>(next.link)];
    Run::Held held{.readers = readers_here(link)};
    if (run.links != nullptr) {
      held.value = receive_tensor(*run.links, link.type, peer, name_of(next));
    } else {
      held.coming.emplace(link.type);
      held.arrived = run.ranks.receive(elements_of(held.coming->bytes().data(), link.type), peer,
                                       name_of(next));
    }
    run.held.emplace(std::pair(next.link, next.micro_batch), std::move(held));
  }
}

Tensor Pipeline::take(int link, int micro_batch, Run& run) const {
  const int from = cut_.links[static_cast<size_t>(link)].from;
  const int peer = chunk_rank_[static_cast<size_t>(PipelineCut::chunk_of(from))];
  if (peer != rank_) {
    ask(peer, {link, micro_batch}, run);
  }
  const auto found = run.held.find({link, micro_batch});
  Run::Held& held = found->second;
  if (held.coming) {
    held.arrived.wait();
    held.value = held.coming->finish();
    held.coming.reset();
  }
  if (--held.readers > 0) {
    return held.value;
  }
  Tensor value = std::move(held.value);
  run.held.erase(found);
  return value;
}

void Pipeline::hand_on(int link, int micro_batch, const Tensor& value, Run& run) const {
  const StageLink& it = cut_.links[static_cast<size_t>(link)];
  const std::string name = name_of({link, micro_batch});
  for (int peer : peers_of(it, rank_)) {
    Run::Sent sent{due(link, micro_batch, peer), it.type.bytes(), {}, {}, {}};
    if (run.links != nullptr) {
      sent.value = value;
      sent.gone = send_tensor(*run.links, value, peer, name);
    } else {
      sent.read.emplace(value);
      sent.gone = run.ranks.send(elements_of(sent.read->data(), it.type), peer, name);
    }
    run.sent.push_back(std::move(sent));
  }
  if (const int readers = readers_here(it); readers > 0) {
    run.held.emplace(std::pair(link, micro_batch), Run::Held{.value = value, .readers = readers});
  }
}

// Lets go of what has gone, and sees to it that no more is on its way before an action than the plan counts.
void Pipeline::settle(size_t action, Run& run) const {
  std::erase_if(run.sent, [](const Run::Sent& sent) { return sent.gone.done(); });
  int64_t bytes = 0;
  for (const Run::Sent& sent : run.sent) {
    bytes += sent.bytes;
  }
  for (auto sent = run.sent.begin(); bytes > inputs_.under_way && sent != run.sent.end();) {
    if (sent->due > action) {
      ++sent;
      continue;
    }
    sent->wait();
    bytes -= sent->bytes;
    sent = run.sent.erase(sent);
  }
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
