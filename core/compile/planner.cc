#include <algorithm>

#include "core/compile/fetch_ahead.h"
#include "core/compile/passes.h"
#include "core/compile/plan.h"
#include "core/compile/schedule.h"
#include "core/ir/fallback.h"
#include "core/ir/halves.h"
#include "core/ops/collective.h"
#include "core/ops/offload.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options)
      : graph_(graph),
        options_(options),
        order_(fetched_ahead(graph, schedule(graph, options.donated))),
        most_ahead_(most_fetched(graph, order_)),
        views_(graph.size()) {}

  Plan run() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value value = graph_.inputs()[i];
      const int buffer = add_buffer(graph_.type(value).bytes(), PlanBuffer::Kind::kInput);
      plan_.buffers.back().index = static_cast<int>(i);
      plan_.inputs.push_back(buffer);
      plan_.input_types.push_back(graph_.type(value));
      views_[value.node] = {{buffer, 0, ViewType::dense(graph_.type(value))}};
    }
    if (has_host_memory(options_.backend)) {
      find_inputs_on_host();
    }
    for (NodeId id : order_) {
      ensure(id);  // and constants where they are first needed
    }
    claim_outputs();
    while (!begun_.empty()) {
      end(begun_.front());
    }
    share_memory(plan_, options_);
    plan_memory(plan_);
    for (PlanStep& step : plan_.steps) {
      step.name = fmt::format("{}{}", step.waits_for < 0 ? std::string_view() : kWaitPrefix,
                              title_of(*step.op, step.attrs));
      plan_.cost.flops += step.cost.flops;
      plan_.cost.bytes += step.cost.bytes;
      plan_.cost.seconds += seconds_of_step(step);
      plan_.cost.link_bytes += link_bytes_of(step);
      plan_.cost.kernels += step.waits_for < 0 ? 1 : 0;
    }
    return std::move(plan_);
  }

 private:
  using Kind = PlanBuffer::Kind;

  int add_buffer(int64_t bytes, Kind kind = Kind::kArena) {
    plan_.buffers.push_back({.kind = kind, .bytes = bytes});
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  PlanBuffer& buffer(int id) { return plan_.buffers[static_cast<size_t>(id)]; }

  bool is_on_host(const PlanView& view) const {
    return plan_.buffers[static_cast<size_t>(view.buffer)].host;
  }

  // Those that are fetched.
  void find_inputs_on_host() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op == &fetch_op() && graph_.node(node.inputs[0].node).op == &kInputOp) {
        buffer(views_[node.inputs[0].node][0].buffer).host = true;
      }
    }
  }

  PlanView fresh(const TensorType& type) {
    return {add_buffer(type.bytes()), 0, ViewType::dense(type)};
  }

  const PlanView& view_of(Value value) {
    ensure(value.node);
    return views_[value.node][value.output];
  }

  void ensure(NodeId id) {
    if (!views_[id].empty()) {
      return;
    }
    const Node& node = graph_.node(id);
    std::vector<PlanView> inputs;
    for (const Value& value : node.inputs) {
      inputs.push_back(view_of(value));
    }
    if (auto aliases = alias_all(node, inputs)) {
      views_[id] = std::move(*aliases);
      return;
    }
    if (node.op->repeats_number && node.outputs[0].elements() > 1) {
      views_[id] = {repeated_number(node)};
      return;
    }
    PlanStep step{.op = node.op, .attrs = node.attrs, .place = node.place, .where = node.where};
    if (node.op->cost != nullptr) {
      step.cost = node.op->cost(graph_.types(node.inputs), node.outputs, node.attrs);
    }
    for (const TensorType& type : node.outputs) {
      step.outputs.push_back(fresh(type));
    }
    const std::vector<PlanView> outputs = step.outputs;
    if (node.op == &stow_op()) {
      buffer(outputs[0].buffer).host = has_host_memory(options_.backend);
    }
    check(node.op == &fetch_op() ||
              std::none_of(inputs.begin(), inputs.end(),
                           [&](const PlanView& view) { return is_on_host(view); }),
          "{} reads what lies in the host's memory; fetch() brings it", node.op->name);
    if (node.op->loop != nullptr) {
      const LoopForm form = node.op->loop(node.attrs);
      for (size_t i = static_cast<size_t>(form.carries); i < inputs.size(); ++i) {
        inputs[i] = dense(inputs[i], node);
      }
      step.inputs = std::move(inputs);
      for (int i = 0; i < form.carries; ++i) {
        step.in_place.push_back({i, i});
      }
      plan_loop(step, form);
    } else {
      prepare(step, std::move(inputs), node);
    }
    add(std::move(step));
    views_[id] = outputs;
  }

  // Adds a step, which begins what ends where another needs its results.
  void add(PlanStep step) {
    for (const PlanView& view : step.inputs) {
      const auto made_here = [&](int begun) {
        const std::vector<PlanView>& made = plan_.steps[static_cast<size_t>(begun)].outputs;
        return std::any_of(made.begin(), made.end(),
                           [&](const PlanView& output) { return output.buffer == view.buffer; });
      };
      const auto begun = std::find_if(begun_.begin(), begun_.end(), made_here);
      if (begun != begun_.end()) {
        end(*begun);
      }
    }
    if (step.kernel != nullptr && halves_of(*step.kernel) != nullptr &&
        !waits_in_place(step.attrs)) {
      begun_.push_back(static_cast<int>(plan_.steps.size()));
    }
    const bool stows = step.op == &stow_op();
    plan_.steps.push_back(std::move(step));
    if (stows) {
      keep_few_on_their_way();
    }
  }

  // What goes to the host is in the device's memory until it is there: the oldest is waited for where much is on its way, but
  // for what goes together with the newest.
  void keep_few_on_their_way() {
    const auto stow_at = [&](int s) {
      const PlanStep& step = plan_.steps[static_cast<size_t>(s)];
      return step.op == &stow_op() && step.waits_for < 0 ? &step : nullptr;
    };
    int newest = static_cast<int>(plan_.steps.size()) - 1;
    int64_t most = most_ahead_.of(stow_at(newest)->place.part == StepPart::kUpdate);
    while (newest > 0 && stow_at(newest - 1) != nullptr) {
      --newest;
    }
    std::vector<int> under_way = begun_;
    std::erase_if(under_way, [&](int s) { return stow_at(s) == nullptr; });
    for (const int s : under_way) {
      most -= stow_at(s)->outputs[0].view.type.bytes();
    }
    for (const int s : under_way) {
      if (most >= 0 || s >= newest) {
        break;
      }
      most += stow_at(s)->outputs[0].view.type.bytes();
      end(s);
    }
  }

  // A step that nothing follows yet is not divided.
  void end(int begun) {
    std::erase(begun_, begun);
    PlanStep& first = plan_.steps[static_cast<size_t>(begun)];
    if (static_cast<size_t>(begun) + 1 == plan_.steps.size()) {
      return;
    }
    first.begins = true;
    PlanStep second{
        .op = first.op, .attrs = first.attrs, .place = first.place, .where = first.where};
    second.kernel = first.kernel;
    second.backend = first.backend;
    second.waits_for = begun;
    plan_.steps.push_back(std::move(second));
  }

  // A constant is one element, repeated by strides; what needs it dense makes it so.
  PlanView repeated_number(const Node& node) {
    const TensorType& type = node.outputs[0];
    PlanStep step{.op = node.op,
                  .attrs = node.attrs.with("shape", Shape{}),
                  .place = node.place,
                  .where = node.where};
    PlanView view = fresh({type.dtype, {}});
    step.outputs = {view};
    step.cost = node.op->cost({}, std::span(&view.view.type, 1), step.attrs);
    prepare(step, {}, node);
    add(std::move(step));
    view.view = {type, Shape::filled(type.shape.rank(), 0)};
    return view;
  }

  // Views of the inputs where the operation only moves elements and strides can say how.
  static std::optional<std::vector<PlanView>> alias_all(const Node& node,
                                                        const std::vector<PlanView>& inputs) {
    if (node.op->alias == nullptr) {
      return std::nullopt;
    }
    const std::vector<ViewType> views = views_in(inputs);
    std::vector<PlanView> result;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto alias = node.op->alias(node.attrs, views, i);
      if (!alias) {
        return std::nullopt;
      }
      const PlanView& from = inputs[alias->input];
      const int64_t size = size_of(node.outputs[i].dtype);
      result.push_back(
          {from.buffer, from.offset + alias->offset * size, {node.outputs[i], alias->strides}});
    }
    return result;
  }

  std::pair<const KernelEntry&, const Backend*> kernel_for(const KernelRequest& request) const {
    const Backend* const backend = options_.backend;
    if (const KernelEntry* entry = usable_kernel(backend, request)) {
      return {*entry, backend};
    }
    return {fallback_kernel(backend, request), backend->fallback};
  }

  static std::vector<ViewType> views_in(const std::vector<PlanView>& views) {
    std::vector<ViewType> result;
    for (const PlanView& view : views) {
      result.push_back(view.view);
    }
    return result;
  }

  void prepare(PlanStep& step, std::vector<PlanView> inputs, const Node& node) {
    const std::vector<ViewType> outputs = views_in(step.outputs);
    std::vector<ViewType> views = views_in(inputs);
    const auto [entry, backend] =
        kernel_for({*step.op, step.attrs, views, outputs, options_.threads});
    step.backend = backend;
    if (!entry.strided_inputs) {
      for (PlanView& input : inputs) {
        input = dense(input, node);
      }
      views = views_in(inputs);
    }
    auto kernel = std::make_shared<Kernel>(entry.prepare(
        {*step.op, step.attrs, views, outputs, options_.threads, kept_among(inputs),
         node.place.scope, options_.batch_invariant && node.place.part == StepPart::kForward}));
    if (kernel->workspace_bytes > 0) {
      step.workspace = add_buffer(kernel->workspace_bytes);
      buffer(step.workspace).use = PlanBuffer::Use::kWorkspace;
    }
    if (const int packed = kernel->packed.input; packed >= 0) {
      step.pack = pack(inputs[static_cast<size_t>(packed)], kernel);
    }
    step.kernel = std::move(kernel);
    step.in_place = entry.in_place;
    step.in_place.insert(step.in_place.end(), step.kernel->in_place.begin(),
                         step.kernel->in_place.end());
    step.inputs = std::move(inputs);
  }

  int64_t most_packed() const {
    return options_.packed_bytes.value_or(options_.backend->limits.packed_bytes);
  }

  // A bit for each input that a packed form may be kept of: what the loop keeps, within its budget.
  uint32_t kept_among(const std::vector<PlanView>& inputs) {
    uint32_t bits = 0;
    for (size_t i = 0; i < std::min<size_t>(inputs.size(), 32); ++i) {
      const PlanBuffer& source = buffer(inputs[i].buffer);
      const auto index = static_cast<size_t>(source.index);
      if (source.kind == Kind::kInput && index < options_.kept.size() && options_.kept[index] &&
          plan_.packed_bytes + inputs[i].view.type.bytes() <= most_packed()) {
        bits |= uint32_t{1} << i;
      }
    }
    return bits;
  }

  // The pack that `kernel` asks for, shared by all that ask for the same.
  int pack(const PlanView& from, const std::shared_ptr<const Kernel>& kernel) {
    const int input = buffer(from.buffer).index;
    for (size_t i = 0; i < plan_.packs.size(); ++i) {
      const PlanPack& other = plan_.packs[i];
      if (other.input == input && other.offset == from.offset && other.view == from.view &&
          other.kernel->packed.layout == kernel->packed.layout) {
        return static_cast<int>(i);
      }
    }
    plan_.packs.push_back({input, from.offset, from.view, plan_.packed_bytes, kernel});
    plan_.packed_bytes += aligned(kernel->packed.bytes);
    return static_cast<int>(plan_.packs.size()) - 1;
  }

  PlanView dense(const PlanView& view, const Node& reason) {
    return view.view.contiguous() ? view : copied(view, reason);
  }

  PlanView copied(const PlanView& view, const Node& reason) {
    PlanStep step{.op = &copy_op(), .place = reason.place, .where = reason.where};
    const TensorType type = view.view.type;
    step.outputs = {fresh(type)};
    step.cost = copy_op().cost(std::span(&type, 1), std::span(&type, 1), {});
    const PlanView result = step.outputs[0];
    prepare(step, {view}, reason);
    add(std::move(step));
    return result;
  }

  std::shared_ptr<const Kernel> copy_kernel(const ViewType& from) {
    const ViewType to = ViewType::dense(from.type);
    const Attrs none;
    const KernelRequest request{copy_op(), none, std::span(&from, 1), std::span(&to, 1),
                                options_.threads};
    return std::make_shared<const Kernel>(kernel_for(request).first.prepare(request));
  }

  static OptimiseOptions optimisation(const PlanOptions& options) {
    return {options.level, options.backend, options.fusion, options.loss_chunks,
            options.offloaded_bytes};
  }

  void plan_loop(PlanStep& step, const LoopForm& form) {
    auto loop = std::make_unique<LoopPlan>();
    const GraphPtr& body = form.body;
    PlanOptions inner = options_;
    inner.pair_donations = true;
    if (step.attrs.find("loss_chunks") != nullptr) {
      inner.loss_chunks = 1;  // the body is a chunk
      inner.offloaded_bytes.reset();
    }
    loop->carries = form.carries;
    loop->constants = form.constants;
    loop->length = form.length;
    loop->reverse = form.reverse;
    loop->keep_carries = form.keep_carries;
    inner.donated.assign(body->inputs().size(), false);
    std::fill_n(inner.donated.begin(), loop->carries, true);
    inner.kept.assign(body->inputs().size(), false);
    // Chunks of a loss are there to save memory, and O0 runs the kernels of eager mode.
    if (options_.level > 0 && loop->length != 1 && step.attrs.find("loss_chunks") == nullptr) {
      std::fill_n(inner.kept.begin() + loop->carries, loop->constants, true);
    }
    loop->body = std::make_unique<Plan>(make_plan(*optimise(*body, optimisation(inner)), inner));
    int64_t bytes = 0;
    const auto reserve = [&](int64_t size) {
      const int64_t offset = bytes;
      bytes += aligned(size);
      return offset;
    };
    for (int i = 0; i < loop->carries; ++i) {
      const auto at = static_cast<size_t>(i);
      const int64_t size = loop->body->input_types[at].bytes();
      loop->load.push_back(copy_kernel(step.inputs[at].view));
      loop->staging_offsets.push_back(loop->body->output_alias[at] == i ? -1 : reserve(size));
    }
    loop->body_arena = reserve(loop->body->arena_bytes);
    loop->packed = reserve(loop->body->packed_bytes);
    if (form.condition != nullptr) {
      inner.donated.assign(body->inputs().size(), false);
      inner.kept.clear();
      const GraphPtr condition = optimise(*form.condition, optimisation(inner));
      loop->condition = std::make_unique<Plan>(make_plan(*condition, inner));
      loop->condition_offset = reserve(1);
      loop->condition_arena = reserve(loop->condition->arena_bytes);
    }
    const double runs = turns_of(*loop);
    step.cost = {loop->body->cost.flops * runs, loop->body->cost.bytes * runs};
    step.workspace = add_buffer(bytes);
    buffer(step.workspace).use = PlanBuffer::Use::kWorkspace;
    if (loop->body->host_arena_bytes > 0) {
      step.host_workspace = add_buffer(loop->body->host_arena_bytes);
      buffer(step.host_workspace).host = true;
    }
    step.loop = std::move(loop);
  }

  double seconds_of_step(const PlanStep& step) const {
    if (step.loop != nullptr) {
      return step.loop->body->cost.seconds * turns_of(*step.loop);
    }
    const std::optional<BackendRates>& rates = options_.backend->rates;
    if (link_bytes_of(step) > 0) {
      return 0;  // others work meanwhile
    }
    std::vector<Dtype> operands;
    for (const PlanView& input : step.inputs) {
      operands.push_back(input.view.type.dtype);
    }
    return rates ? seconds_of(*rates, step.cost, operands) : 0;
  }

  double link_bytes_of(const PlanStep& step) const {
    if (step.loop != nullptr) {
      return step.loop->body->cost.link_bytes * turns_of(*step.loop);
    }
    const bool copies = (step.op == &stow_op() || step.op == &fetch_op()) && step.waits_for < 0;
    return copies && has_host_memory(options_.backend)
               ? static_cast<double>(step.outputs[0].view.type.bytes())
               : 0;
  }

  // Of `while`, as if its body ran once.
  static double turns_of(const LoopPlan& loop) {
    return loop.condition == nullptr ? static_cast<double>(loop.length) : 1.0;
  }

  // Every output gets memory of its own: that of the value where it is whole and unclaimed, else a copy.
  void claim_outputs() {
    for (const Value& value : graph_.outputs()) {
      const PlanView view = view_of(value);
      const TensorType& type = graph_.type(value);
      plan_.output_types.push_back(type);
      plan_.output_alias.push_back(-1);
      const bool whole =
          view.offset == 0 && view.view.contiguous() && buffer(view.buffer).bytes == type.bytes();
      int claimed = view.buffer;
      if (!whole || buffer(claimed).kind != Kind::kArena) {
        claimed = copied(view, graph_.node(value.node)).buffer;
      }
      buffer(claimed).kind = Kind::kOutput;
      buffer(claimed).index = static_cast<int>(plan_.outputs.size());
      plan_.outputs.push_back(claimed);
    }
  }

  const Graph& graph_;
  const PlanOptions& options_;
  std::vector<NodeId> order_;
  AheadBytes most_ahead_;
  std::vector<std::vector<PlanView>> views_;  // by node, output
  Plan plan_;
  std::vector<int> begun_;  // steps whose end has no place yet
};

}  // namespace

Plan make_plan(const Graph& graph, const PlanOptions& options) {
  return Planner(graph, options).run();
}

}  // namespace mstrain
