#include <algorithm>
#include <map>
#include <numeric>

#include "core/compile/plan.h"

namespace mstrain {
namespace {

class Sharing {
 public:
  Sharing(Plan& plan, const PlanOptions& options) : plan_(plan), options_(options) {}

  void run() {
    find_lifetimes();
    share_in_place();
    outlast_waits();
    take_over_inputs(false);
  }

 private:
  using Kind = PlanBuffer::Kind;

  // Whether a result should lie where the input of its number lies, even if others could use that memory until then: a step whose
  // results are its next run's arguments is captured where it lies.
  bool keeps_places() const { return options_.backend->limits.keeps_places; }

  PlanBuffer& buffer(int id) { return plan_.buffers[static_cast<size_t>(id)]; }

  void find_lifetimes() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const int now = static_cast<int>(s);
      for (int id : used_by(plan_.steps[s])) {
        PlanBuffer& used = buffer(id);
        if (used.last < 0) {
          used.first = now;
        }
        used.last = now;
      }
    }
    for (int id : plan_.outputs) {
      buffer(id).last = static_cast<int>(plan_.steps.size());
    }
  }

  // Results take the place of operands that die in the same step, where the kernel allows it: the program's results of
  // donated inputs, then all of what lies in the arena, then chains of such steps that end in a result of inputs.
  void share_in_place() {
    share_in_place(Kind::kInput);
    if (keeps_places()) {
      take_over_inputs(true);
    }
    share_in_place(Kind::kArena);
    share_in_place(Kind::kInput);
  }

  void share_in_place(Kind sources) {
    std::vector<int> becomes(plan_.buffers.size());
    std::iota(becomes.begin(), becomes.end(), 0);
    std::vector<Accesses> accesses(plan_.buffers.size());   // of the step; none between steps
    std::vector<int> busy_until(plan_.buffers.size(), -1);  // the wait for what began before
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      PlanStep& step = plan_.steps[s];
      for (auto* views : {&step.inputs, &step.outputs}) {
        for (PlanView& view : *views) {
          view.buffer = becomes[static_cast<size_t>(view.buffer)];
        }
      }
      if (step.in_place.empty() && !step.begins) {
        continue;
      }
      count_accesses(step, 1, accesses);
      const auto share = [&](bool only_own) {
        for (const auto& [output, input] : step.in_place) {
          PlanView& to = step.outputs[static_cast<size_t>(output)];
          const PlanView& from = step.inputs[static_cast<size_t>(input)];
          if (to.buffer != from.buffer && buffer(from.buffer).kind == sources &&
              (!only_own || buffer(from.buffer).index == buffer(to.buffer).index) &&
              busy_until[static_cast<size_t>(from.buffer)] < static_cast<int>(s) &&
              may_share(from, to, static_cast<int>(s), accesses)) {
            becomes[static_cast<size_t>(to.buffer)] = from.buffer;
            merge(from.buffer, to.buffer);
            --accesses[static_cast<size_t>(to.buffer)].writes;
            ++accesses[static_cast<size_t>(from.buffer)].writes;
            to.buffer = from.buffer;
          }
        }
      };
      if (keeps_places()) {
        share(true);
      }
      share(false);
      count_accesses(step, -1, accesses);
      if (step.begins) {
        for (int id : used_by(step)) {
          int& until = busy_until[static_cast<size_t>(id)];
          until = std::max(until, end_of(s));
        }
      }
    }
    for (int& id : plan_.outputs) {
      id = becomes[static_cast<size_t>(id)];
    }
  }

  // The buffers that a step names.
  static std::vector<int> used_by(const PlanStep& step) {
    std::vector<int> ids;
    for (const auto* views : {&step.inputs, &step.outputs}) {
      for (const PlanView& view : *views) {
        ids.push_back(view.buffer);
      }
    }
    for (int id : {step.workspace, step.host_workspace}) {
      if (id >= 0) {
        ids.push_back(id);
      }
    }
    return ids;
  }

  // The step that waits for `begun`.
  int end_of(size_t begun) const {
    const auto waits = [&](const PlanStep& step) {
      return step.waits_for == static_cast<int>(begun);
    };
    const auto end =
        std::find_if(plan_.steps.begin() + static_cast<ptrdiff_t>(begun), plan_.steps.end(), waits);
    return static_cast<int>(end - plan_.steps.begin());
  }

  // When each buffer is last in use: what a step names that begins something, until the end of that.
  std::vector<int> ends_of_use() const {
    std::vector<int> ends;
    for (const PlanBuffer& it : plan_.buffers) {
      ends.push_back(it.last);
    }
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const int begun = plan_.steps[s].waits_for;
      if (begun >= 0) {
        for (int id : used_by(plan_.steps[static_cast<size_t>(begun)])) {
          int& end = ends[static_cast<size_t>(id)];
          end = std::max(end, static_cast<int>(s));
        }
      }
    }
    return ends;
  }
  void outlast_waits() {
    const std::vector<int> ends = ends_of_use();
    for (size_t i = 0; i < ends.size(); ++i) {
      plan_.buffers[i].last = ends[i];
    }
  }

  // How many of a step's inputs and outputs lie in a buffer.
  struct Accesses {
    int reads = 0, writes = 0;
  };
  static void count_accesses(const PlanStep& step, int by, std::vector<Accesses>& accesses) {
    for (const PlanView& view : step.inputs) {
      accesses[static_cast<size_t>(view.buffer)].reads += by;
    }
    for (const PlanView& view : step.outputs) {
      accesses[static_cast<size_t>(view.buffer)].writes += by;
    }
  }

  bool donated(const PlanBuffer& input) const {
    const auto index = static_cast<size_t>(input.index);
    return index < options_.donated.size() && options_.donated[index];
  }

  // By a result: no other has place in it.
  bool is_taken_over(const PlanBuffer& input) const {
    return std::find(plan_.output_alias.begin(), plan_.output_alias.end(), input.index) !=
           plan_.output_alias.end();
  }

  bool may_share(const PlanView& from, const PlanView& to, int now,
                 const std::vector<Accesses>& accesses) {
    const PlanBuffer& source = buffer(from.buffer);
    const PlanBuffer& target = buffer(to.buffer);
    const bool same_place = from.offset == 0 && from.view.contiguous() &&
                            from.view.type.bytes() == source.bytes &&
                            source.bytes == target.bytes && source.bytes > 0;
    const Accesses& of_source = accesses[static_cast<size_t>(from.buffer)];
    const Accesses& of_target = accesses[static_cast<size_t>(to.buffer)];
    if (!same_place || source.host != target.host || source.last != now || target.first != now ||
        of_source.reads != 1 || of_source.writes != 0 || of_target.reads != 0) {
      return false;
    }
    switch (source.kind) {
      case Kind::kArena:
        return target.kind != Kind::kOutput ||
               plan_.output_alias[static_cast<size_t>(target.index)] < 0;
      case Kind::kOutput: return false;
      case Kind::kInput:
        return donated(source) && target.kind == Kind::kOutput && !is_taken_over(source) &&
               plan_.output_alias[static_cast<size_t>(target.index)] < 0 &&
               (!options_.pair_donations || source.index == target.index);
    }
    return false;
  }

  void merge(int into, int from) {
    PlanBuffer& kept = buffer(into);
    const PlanBuffer& gone = buffer(from);
    kept.last = gone.last;
    if (kept.kind == Kind::kInput) {
      plan_.output_alias[static_cast<size_t>(gone.index)] = kept.index;
    } else if (gone.kind == Kind::kOutput) {
      kept.kind = Kind::kOutput;
      kept.index = gone.index;
    }
    buffer(from).bytes = 0;
    buffer(from).last = -1;
  }

  // A result may also take the memory of a donated input that nothing reads any more when it is first written; `only_own`: of the
  // input of its own number.
  void take_over_inputs(bool only_own) {
    if (options_.pair_donations) {
      return;
    }
    using Size = std::pair<int64_t, bool>;
    const auto size_of = [](const PlanBuffer& it) { return Size(it.bytes, it.host); };
    std::map<Size, std::vector<int>> free;  // donated inputs by size and memory, the first one last
    std::vector<bool> taken(plan_.inputs.size(), false);
    for (int input : plan_.output_alias) {
      if (input >= 0) {
        taken[static_cast<size_t>(input)] = true;
      }
    }
    for (auto in = plan_.inputs.rbegin(); in != plan_.inputs.rend(); ++in) {
      if (donated(buffer(*in)) && !taken[static_cast<size_t>(buffer(*in).index)]) {
        free[size_of(buffer(*in))].push_back(*in);
      }
    }
    const std::vector<int> ends = ends_of_use();
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      const PlanBuffer& out = buffer(plan_.outputs[o]);
      const auto of_size = free.find(size_of(out));
      if (out.kind != Kind::kOutput || out.bytes == 0 || of_size == free.end() ||
          plan_.output_alias[o] >= 0) {
        continue;
      }
      std::vector<int>& inputs = of_size->second;
      const auto unread = std::find_if(inputs.rbegin(), inputs.rend(), [&](int in) {
        return ends[static_cast<size_t>(in)] < out.first &&
               (!only_own || buffer(in).index == static_cast<int>(o));
      });
      if (unread != inputs.rend()) {
        plan_.output_alias[o] = buffer(*unread).index;
        inputs.erase(std::next(unread).base());
      }
    }
  }

  Plan& plan_;
  const PlanOptions& options_;
};

}  // namespace

void share_memory(Plan& plan, const PlanOptions& options) { Sharing(plan, options).run(); }

}  // namespace mstrain
