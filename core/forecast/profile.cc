#include "core/forecast/profile.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"

namespace mstrain {
namespace {

// Operations for each byte from which a composite is worth counting by them: fused attention.
constexpr double kDense = 16;

// What a buffer holds at a step.
struct Held {
  bool divided = false;
  bool partial = false;  // a sum over ranks that is still to be made
  bool gathered = false;
  int weight = -1;  // a parameter, or what was made of it alone
};

class ProfileReader {
 public:
  ProfileReader(const Plan& plan, const TrainTask& task, std::span<const TensorType> state,
                const std::vector<bool>& in_blocks, std::optional<int64_t> ids, int64_t blocks)
      : plan_(plan), task_(task), state_(state), in_blocks_(in_blocks), blocks_(blocks) {
    for (size_t i = 0; i < task.parameters.size(); ++i) {
      const Shape& shape = task.parameters[i].type.shape;
      has_ids_.push_back(ids && !in_blocks[i] && shape.rank() > 1 &&
                         std::find(shape.begin(), shape.end(), *ids) != shape.end());
    }
    divided_.assign(task.parameters.size(), false);
    read_in_.assign(task.parameters.size(), {});
  }

  Profile read() {
    const PlanStep& loop = find_loop();
    const Plan& body = *loop.loop->body;
    std::vector<Held> held(body.buffers.size());
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      held[static_cast<size_t>(body.inputs[i])].weight = weight_of(loop, i);
    }
    find_regions(body, held, static_cast<size_t>(loop.loop->carries));
    divided_at_.assign(body.buffers.size(), true);
    for (size_t s = 0; s < body.steps.size(); ++s) {
      region_ = region_at_[s];
      backward_ = static_cast<int>(s) >= first_backward_;
      read_step(body, body.steps[s], held, /*times=*/1, &body);
    }
    read_parameters();
    read_memory(body);
    read_update(loop);
    for (WorkItem& item : out_.items) {
      if (item.region == Region::kBlock) {
        item.count /= static_cast<double>(blocks_);
      }
    }
    out_.items = merged(out_.items);
    return std::move(out_);
  }

 private:
  const PlanStep& find_loop() const {
    for (const PlanStep& step : plan_.steps) {
      if (step.loop != nullptr && step.loop->condition == nullptr && step.loop->length > 1) {
        return step;
      }
    }
    fail("the plan of a step has no loop over micro-batches");
  }

  // The parameter that input i of the loop's body is, or -1.
  int weight_of(const PlanStep& loop, size_t i) const {
    const auto carries = static_cast<size_t>(loop.loop->carries);
    if (i < carries || i >= carries + static_cast<size_t>(loop.loop->constants)) {
      return -1;
    }
    const PlanBuffer& buffer = plan_.buffers[static_cast<size_t>(loop.inputs[i].buffer)];
    return buffer.kind == PlanBuffer::Kind::kInput &&
                   buffer.index < static_cast<int>(task_.parameters.size())
               ? buffer.index
               : -1;
  }

  bool is_block_weight(int weight) const {
    return weight >= 0 && in_blocks_[static_cast<size_t>(weight)];
  }

  // Blocks are from the first step that reads one of their parameters to the last, forward and backward.
  void find_regions(const Plan& body, std::vector<Held> held, size_t carries) {
    for (const PlanStep& step : body.steps) {
      const int weight = weight_alone(step, held);
      for (const PlanView& view : step.outputs) {
        int& it = held[static_cast<size_t>(view.buffer)].weight;
        it = it < 0 ? weight : it;
      }
    }
    const int steps = static_cast<int>(body.steps.size());
    first_backward_ = steps;
    for (int s = steps; s-- > 0;) {
      if (body.steps[static_cast<size_t>(s)].place.part == StepPart::kBackward) {
        first_backward_ = s;
      }
    }
    const auto reads_block = [&](int s) {
      const PlanStep& step = body.steps[static_cast<size_t>(s)];
      return std::any_of(step.inputs.begin(), step.inputs.end(), [&](const PlanView& view) {
        return is_block_weight(held[static_cast<size_t>(view.buffer)].weight);
      });
    };
    // Gradients of the first block's weights are made behind all that reads these.
    std::set<int> gradients;
    const size_t count = in_blocks_.size();
    for (size_t i = 0; i < count; ++i) {
      if (in_blocks_[i]) {
        gradients.insert(body.outputs[carries - count + i]);
      }
    }
    const auto makes_gradient = [&](int s) {
      const PlanStep& step = body.steps[static_cast<size_t>(s)];
      return std::any_of(step.outputs.begin(), step.outputs.end(),
                         [&](const PlanView& view) { return gradients.contains(view.buffer); });
    };
    const auto mark = [&](int begin, int end, Region before, Region behind) {
      int first = end;
      int last = begin - 1;
      for (int s = begin; s < end; ++s) {
        first = reads_block(s) ? std::min(first, s) : first;
        last = reads_block(s) || makes_gradient(s) ? s : last;
      }
      for (int s = begin; s < end; ++s) {
        region_at_[static_cast<size_t>(s)] = s < first   ? before
                                             : s <= last ? Region::kBlock
                                                         : behind;
      }
    };
    region_at_.assign(body.steps.size(), Region::kBlock);
    mark(0, first_backward_, Region::kFirst, Region::kLast);
    mark(first_backward_, steps, Region::kLast, Region::kFirst);
  }

  WorkItem work_of(WorkKind kind, const PlanStep& step, double times) const {
    WorkItem item;
    item.kind = kind;
    item.region = region_;
    item.backward = backward_;
    item.flops = step.cost.flops;
    item.bytes = step.cost.bytes;
    item.count = times;
    for (const PlanView& view : step.inputs) {
      if (is_floating(view.view.type.dtype) || kind == WorkKind::kProduct) {
        item.dtype = view.view.type.dtype;
        break;
      }
    }
    return item;
  }

  void add_collective(WorkKind kind, double bytes, double times, bool backward) {
    WorkItem item;
    item.kind = kind;
    item.region = region_;
    item.backward = backward;
    item.bytes = bytes;
    item.count = times;
    out_.items.push_back(item);
  }

  // A sum over ranks is made once, when it is read; several that are read together were added up before.
  void finish_sums(const PlanStep& step, std::vector<Held>& held, double times) {
    double most = 0;
    for (const PlanView& view : step.inputs) {
      Held& it = held[static_cast<size_t>(view.buffer)];
      if (it.partial) {
        most = std::max(most, static_cast<double>(view.view.type.bytes()));
        it.partial = false;
      }
    }
    if (most > 0) {
      add_collective(WorkKind::kReduce, most, times, backward_);
    }
  }

  void read_step(const Plan& plan, const PlanStep& step, std::vector<Held>& held, double times,
                 const Plan* body) {
    if (step.loop != nullptr) {
      finish_sums(step, held, times);
      read_loop(step, held, times);
    } else if (step.op->kind == OpKind::kContract && step.attrs.find("dims") != nullptr) {
      read_product(step, held, times);
    } else {
      read_other(plan, step, held, times);
    }
    if (body != &plan) {
      return;
    }
    for (const PlanView& view : step.outputs) {
      const auto at = static_cast<size_t>(view.buffer);
      divided_at_[at] = divided_at_[at] && held[at].divided;
    }
    if (step.workspace >= 0) {
      const auto at = static_cast<size_t>(step.workspace);
      divided_at_[at] = loop_divides_;
      loop_divides_ = false;
    }
  }

  // The weight that a step makes something else of, such as its codes, or -1. Numbers, such as their unit, do not count.
  static int weight_alone(const PlanStep& step, const std::vector<Held>& held) {
    int weight = -1;
    for (const PlanView& view : step.inputs) {
      if (view.view.type.shape.rank() > 0) {
        weight = held[static_cast<size_t>(view.buffer)].weight;
        if (weight < 0) {
          break;
        }
      }
    }
    return weight;
  }

  void note_read(int weight) {
    if (weight >= 0 && !backward_) {
      read_in_[static_cast<size_t>(weight)].insert(region_);
    }
  }

  void read_product(const PlanStep& step, std::vector<Held>& held, double times) {
    const PlanView& a = step.inputs[0];
    const PlanView& b = step.inputs[1];
    Held& left = held[static_cast<size_t>(a.buffer)];
    Held& right = held[static_cast<size_t>(b.buffer)];
    Held& weight = right.weight >= 0 ? right : left;
    Held& other = right.weight >= 0 ? left : right;
    const PlanView& other_view = right.weight >= 0 ? a : b;
    // Sums that were begun go on in a product that adds to them.
    bool adds_to_sum = false;
    for (size_t i = 2; i < step.inputs.size(); ++i) {
      adds_to_sum = adds_to_sum || held[static_cast<size_t>(step.inputs[i].buffer)].partial;
    }
    const auto finish = [&](const PlanView& view, Held& it) {
      if (it.partial) {
        add_collective(WorkKind::kReduce, static_cast<double>(view.view.type.bytes()), times,
                       backward_);
        it.partial = false;
      }
    };
    finish(a, left);
    finish(b, right);
    WorkItem item = work_of(WorkKind::kProduct, step, times);
    set_sizes(item, step);
    Held result;
    const int w = weight.weight;
    if (w >= 0) {
      note_read(w);
      const bool divides = is_block_weight(w) || has_ids_[static_cast<size_t>(w)] || other.divided;
      if (other.divided) {
        item.divides = Divides::kSummed;
        result.partial = true;
      } else if (divides) {
        item.divides = &weight == &right ? Divides::kColumns : Divides::kRows;
        result.divided = true;
        gather_input(other_view, other, times);
      }
      if (divides) {
        divided_[static_cast<size_t>(w)] = true;
      }
    } else {
      item.weights = backward_ && item.batch == 1;
      if (left.divided && right.divided) {
        item.divides = item.batch > 1 ? Divides::kBatch : Divides::kSummed;
        result.divided = item.batch > 1;
        result.partial = item.batch <= 1;
      } else if (left.divided || right.divided) {
        item.divides = left.divided ? Divides::kRows : Divides::kColumns;
        result.divided = true;
      }
    }
    item.divided = item.divides != Divides::kNothing;
    loop_divides_ = loop_divides_ || item.divided;
    out_.items.push_back(item);
    if (adds_to_sum && !result.partial) {
      for (size_t i = 2; i < step.inputs.size(); ++i) {
        finish(step.inputs[i], held[static_cast<size_t>(step.inputs[i].buffer)]);
      }
    }
    for (const PlanView& view : step.outputs) {
      held[static_cast<size_t>(view.buffer)] = result;
    }
  }

  // With sequence parallelism an operand is gathered again where its weight's gradient is made.
  void gather_input(const PlanView& view, Held& held, double times) {
    if (!backward_ && !held.gathered) {
      held.gathered = true;
      add_collective(WorkKind::kGather, static_cast<double>(view.view.type.bytes()), times, true);
    }
  }

  void read_other(const Plan& plan, const PlanStep& step, std::vector<Held>& held, double times) {
    bool any_divided = false;
    bool from_ids = false;
    const int made_of = weight_alone(step, held);
    int weight = -1;
    for (const PlanView& view : step.inputs) {
      const Held& it = held[static_cast<size_t>(view.buffer)];
      any_divided = any_divided || it.divided;
      if (it.weight >= 0) {
        weight = it.weight;
        note_read(it.weight);
        from_ids = from_ids || has_ids_[static_cast<size_t>(it.weight)];
      }
    }
    finish_sums(step, held, times);
    const bool is_attention =
        step.op->decompose != nullptr && step.cost.flops > kDense * step.cost.bytes;
    WorkItem item = work_of(is_attention ? WorkKind::kAttention : WorkKind::kMemory, step, times);
    item.divided = any_divided || is_block_weight(made_of);
    item.weights = backward_ && ends_outside(plan, step);
    if (is_attention) {
      item.scores = scores_of(step);
    }
    out_.items.push_back(item);
    Held result;
    result.divided = item.divided;
    if (made_of >= 0) {
      result.weight = made_of;
    } else if (from_ids && !any_divided && !backward_) {
      result.partial = true;  // rows of the ids that this rank has
      divided_[static_cast<size_t>(weight)] = true;
    }
    for (const PlanView& view : step.outputs) {
      held[static_cast<size_t>(view.buffer)] = result;
    }
  }

  // Whether it only adds to what the whole step sums up.
  static bool ends_outside(const Plan& plan, const PlanStep& step) {
    return std::all_of(step.outputs.begin(), step.outputs.end(), [&](const PlanView& view) {
      return plan.buffers[static_cast<size_t>(view.buffer)].kind != PlanBuffer::Kind::kArena;
    });
  }

  void read_loop(const PlanStep& step, std::vector<Held>& outer, double times) {
    const Plan& body = *step.loop->body;
    std::vector<Held> held(body.buffers.size());
    for (size_t i = 0; i < body.inputs.size() && i < step.inputs.size(); ++i) {
      held[static_cast<size_t>(body.inputs[i])] = outer[static_cast<size_t>(step.inputs[i].buffer)];
    }
    const double rounds = times * static_cast<double>(std::max<int64_t>(1, step.loop->length));
    for (const PlanStep& inner : body.steps) {
      read_step(body, inner, held, rounds, nullptr);
    }
    for (size_t o = 0; o < body.outputs.size() && o < step.outputs.size(); ++o) {
      outer[static_cast<size_t>(step.outputs[o].buffer)] =
          held[static_cast<size_t>(body.outputs[o])];
    }
  }

  void read_parameters() {
    for (size_t i = 0; i < task_.parameters.size(); ++i) {
      const auto elements = static_cast<double>(task_.parameters[i].type.elements());
      const auto note = [&](Region region, double share) {
        RegionProfile& it = out_.regions[static_cast<size_t>(region)];
        (divided_[i] ? it.parameters.divided : it.parameters.whole) += share * elements;
      };
      out_.parameters += elements;
      if (in_blocks_[i]) {
        note(Region::kBlock, 1 / static_cast<double>(blocks_));
        continue;
      }
      const bool in_first = read_in_[i].contains(Region::kFirst);
      const bool in_last = read_in_[i].contains(Region::kLast) || !in_first;
      if (in_first) {
        note(Region::kFirst, 1);
      }
      if (in_last) {
        note(Region::kLast, 1);
      }
      if (in_first && in_last) {
        (divided_[i] ? out_.tied.divided : out_.tied.whole) += elements;
      }
    }
  }

  void read_memory(const Plan& body) {
    const size_t steps = body.steps.size();
    std::vector<DividedBytes> change(steps + 2);
    for (size_t id = 0; id < body.buffers.size(); ++id) {
      const PlanBuffer& buffer = body.buffers[id];
      if (buffer.kind != PlanBuffer::Kind::kArena || buffer.last < 0 || buffer.bytes == 0) {
        continue;
      }
      const auto bytes = static_cast<double>(aligned(buffer.bytes));
      const auto note = [&](DividedBytes& to, double sign) {
        (divided_at_[id] ? to.divided : to.whole) += sign * bytes;
      };
      const auto first = static_cast<size_t>(buffer.first);
      if (buffer.use == PlanBuffer::Use::kSaved) {
        const Region region = region_at_[std::min(first, steps - 1)];
        note(out_.regions[static_cast<size_t>(region)].saved,
             region == Region::kBlock ? 1 / static_cast<double>(blocks_) : 1);
        if (region == Region::kBlock && !divided_at_[id]) {
          out_.boundary_bytes = std::max(out_.boundary_bytes, bytes);
        }
        continue;
      }
      note(change[first], 1);
      note(change[static_cast<size_t>(buffer.last) + 1], -1);
    }
    DividedBytes live;
    for (size_t s = 0; s < steps; ++s) {
      live.divided += change[s].divided;
      live.whole += change[s].whole;
      out_.regions[static_cast<size_t>(region_at_[s])].beside.push_back(live);
    }
  }

  void read_update(const PlanStep& loop) {
    for (const PlanStep& step : plan_.steps) {
      if (&step != &loop) {
        out_.update_bytes += step.cost.bytes;
        out_.update_kernels += 1;
      }
    }
    for (const TensorType& type : task_.batch_types(1)) {
      out_.batch_bytes += static_cast<double>(type.bytes());
    }
    const size_t count = task_.parameters.size();
    double parameters = 0;
    double sums = 0;
    for (size_t i = 0; i < state_.size(); ++i) {
      (i < count ? parameters : out_.optimizer_bytes) += static_cast<double>(state_[i].bytes());
    }
    for (size_t i = 0; i < count; ++i) {
      // The carries end with the gradients, in the order of the parameters.
      const auto carry = static_cast<size_t>(loop.loop->carries) - count + i;
      sums += static_cast<double>(loop.outputs[carry].view.type.bytes());
    }
    out_.parameter_bytes = parameters / out_.parameters;
    out_.gradient_bytes = sums / out_.parameters;
  }

  const Plan& plan_;
  const TrainTask& task_;
  std::span<const TensorType> state_;
  const std::vector<bool>& in_blocks_;
  int64_t blocks_;
  std::vector<bool> has_ids_;  // by parameter
  std::vector<bool> divided_;
  std::vector<std::set<Region>> read_in_;
  std::vector<Region> region_at_;  // by step
  std::vector<bool> divided_at_;   // by buffer: all that it ever holds
  int first_backward_ = 0;
  Region region_ = Region::kFirst;
  bool backward_ = false;
  bool loop_divides_ = false;
  Profile out_;
};

}  // namespace

Profile read_profile(const Plan& plan, const TrainTask& task, std::span<const TensorType> state,
                     const std::vector<bool>& in_blocks, std::optional<int64_t> ids,
                     int64_t blocks) {
  return ProfileReader(plan, task, state, in_blocks, ids, blocks).read();
}

}  // namespace mstrain
