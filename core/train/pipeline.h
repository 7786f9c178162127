// One rank's part in the micro-batches of a step: its chunks of the model, worked on in the order of a schedule.
//
// The gradient program of a micro-batch is cut where the model marks its layers (core/compile/cut.h). What chunks hand on to
// chunks of other ranks is sent as soon as it is made, and asked for in the order in which it is sent, so that nobody waits
// but for what it reads. Sums are formed in the order of the micro-batches, as by one rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "core/comm/communicator.h"
#include "core/compile/cut.h"
#include "core/schedule/schedule.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/accumulate.h"

namespace mstrain {

// When a rank did what its schedule says, in nanoseconds of the steady clock.
struct ActionTime {
  Work work = Work::kForward;
  int chunk = 0, micro_batch = 0;
  int64_t asked = 0;           // from here on it waited for what others make
  int64_t begin = 0, end = 0;  // of its work; what it made is on its way by then
};

class Pipeline {
 public:
  // How the inputs of the gradient program are meant: weights first, then tensors of which micro-batch i takes an equal
  // slice i of the leading dim, then what is the same for the whole step. `copies` micro-batches are one of the schedule's: its
  // programs compute them side by side.
  struct Inputs {
    size_t weights = 0;
    size_t batch = 0;
    int copies = 1;
    // Bytes that may be on their way to other ranks whoever is late. Where there are more, a rank waits for what its peers have taken
    // by a timetable when it begins the action before: so memory is bounded.
    int64_t under_way = int64_t{16} << 20;
  };
  // Results that one program makes, and which are summed up together.
  struct Group {
    std::vector<int> results;  // of the gradient program
    Types values;              // their types
    Types sums;                // those of the sums, as the rule keeps them
  };
  // How they are.
  using RuleOf = std::function<SumRule(const Group&)>;

  // For rank `rank` of the schedule, which must be valid; its chunk c begins with layer first[c]. Compiles for the current
  // context; allocates nothing.
  Pipeline(const Graph& gradient, const Inputs& inputs, const Schedule& schedule,
           std::span<const int64_t> first, int rank, const CompileOptions& options,
           const RuleOf& rule_of);
  ~Pipeline();

  // Whether this rank reads input i.
  bool reads(size_t input) const { return reads_[input]; }
  // The rank that makes a result of the gradient program, and those whose programs read an input of it, ascending.
  int maker(int result) const;
  std::vector<int> readers(size_t input) const;
  // Of this rank.
  const std::vector<Group>& groups() const { return groups_; }

  // The sums of each group over the micro-batches. `inputs`: of the gradient program, those that the rank reads, with all
  // micro-batches of the step. `ranks`: those of the schedule.
  std::vector<Tensors> run(std::span<const Tensor> inputs, Communicator& ranks);

  // What it holds at most besides its inputs, in `arena`: those of its programs, which each keep their own, sums, and in `saved`
  // what lies between them, on its way to other ranks or back.
  ProgramMemory memory() const;
  // Of a run.
  ProgramCost cost() const;
  // What `text_of` says of its programs.
  std::string text(const std::function<std::string(const Program&)>& text_of) const;
  // Appends every kernel, and every action, of the runs that follow, until called with null.
  void profile(std::vector<KernelTime>* kernels, std::vector<ActionTime>* actions);

 private:
  struct Stage;
  struct Run;
  // Of one micro-batch of the gradient program.
  struct Message {
    int link = 0, micro_batch = 0;
  };
  bool is_batch(const StageProgram::Source& source) const {
    const auto input = static_cast<size_t>(source.index);
    return !source.is_link && input >= inputs_.weights && input < inputs_.weights + inputs_.batch;
  }
  // How many tensors a program takes for an input: one for each copy, where copies do not read the same.
  int given_for(const StageProgram::Source& source) const {
    return source.is_link || is_batch(source) ? inputs_.copies : 1;
  }
  // The micro-batches that an action works on.
  std::vector<int> micro_batches_of(const Action& action) const;

  Stage make_stage(const StageProgram& it, const CompileOptions& options, const RuleOf& rule_of);
  void plan_messages(const Schedule& schedule);
  void plan_sends(const Schedule& schedule);
  std::vector<int> peers_of(const StageLink& link, int from) const;
  int readers_here(const StageLink& link) const;
  int64_t most_between_programs() const;
  std::string name_of(const Message& message) const;
  void ask(int peer, const Message& wanted, Run& run) const;
  Tensor take(int link, int micro_batch, Run& run) const;
  void hand_on(int link, int micro_batch, const Tensor& value, Run& run) const;
  size_t due(int link, int micro_batch, int peer) const;
  void settle(size_t action, Run& run) const;

  PipelineCut cut_;
  Inputs inputs_;
  int rank_, micro_batches_;  // of the schedule
  std::vector<int> chunk_rank_;
  std::vector<Action> actions_;
  std::vector<bool> reads_;
  std::vector<Group> groups_;
  std::vector<std::unique_ptr<Stage>> stages_;  // by program; null for those of other ranks
  std::vector<std::vector<Message>> messages_;  // by peer: those that it sends here, in its order
  // By link, micro-batch of the schedule and peer: the action before which what this rank sends may be waited for.
  std::map<std::tuple<int, int, int>, size_t> due_;
  std::vector<ActionTime>* times_ = nullptr;
};

}  // namespace mstrain
