#include "core/compile/fuse.h"

#include <algorithm>

#include "core/ops/shape.h"

namespace mstrain {
namespace {

// What groups and nodes that may join them say about their sizes.
struct Form {
  std::optional<FusedExtent> extent;  // where some member needs rows
  std::set<int64_t> counts;           // elements of values that are walked
  std::optional<int64_t> summed;      // of a value that is summed up as a whole: no number a row

  // Empty where both agree, after which this is the form of both; else why not.
  std::string join(const Form& other) {
    Form both = *this;
    both.counts.insert(other.counts.begin(), other.counts.end());
    if (other.extent) {
      if (both.extent && !(*both.extent == *other.extent)) {
        return fmt::format("rows of {} and of {} elements", both.extent->n, other.extent->n);
      }
      both.extent = other.extent;
    }
    if (other.summed) {
      both.summed = other.summed;
    }
    if (both.extent && both.summed && *both.summed != both.extent->elements()) {
      return "a sum over everything takes no numbers of rows";
    }
    for (int64_t count : both.counts) {
      const bool fits = both.extent ? count == both.extent->elements() || count == both.extent->rows
                                    : both.counts.size() == 1;
      if (!fits) {
        return fmt::format("sizes differ");
      }
    }
    *this = std::move(both);
    return {};
  }
  FusedExtent final_extent() const {
    return extent ? *extent : FusedExtent{1, counts.empty() ? 1 : *counts.begin()};
  }
};

class Grouper {
 public:
  Grouper(const Graph& graph, const FuseOptions& options)
      : graph_(graph), options_(options), live_(graph.live()) {
    result_.group_of.assign(graph.size(), -1);
    result_.origin.resize(graph.size());
  }

  FusionGroups run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (!live_[id] || node.op == &kInputOp || node.op->kind == OpKind::kSource) {
        continue;
      }
      if (node.op->order != Order::kOther) {
        follow(id);
      } else if (node.op->kind == OpKind::kMovement) {
        read_from_outside(id, fmt::format("{} moves elements", node.op->name));
      } else {
        place(id);
      }
    }
    return finish();
  }

 private:
  struct Open {
    std::vector<NodeId> members;
    Form form;
    std::set<Value> inputs;
    StepPart part = StepPart::kForward;  // memory is told apart by the parts: they do not mix
    bool open = true;
    std::string closed_by;
    int merged_into = -1;
  };

  int root(int group) const {
    while (group >= 0 && groups_[static_cast<size_t>(group)].merged_into >= 0) {
      group = groups_[static_cast<size_t>(group)].merged_into;
    }
    return group;
  }
  Open& at(int group) { return groups_[static_cast<size_t>(group)]; }

  // The member's value behind moves, or the value itself.
  Value origin_of(const Value& value) const {
    const auto& origin = result_.origin[value.node];
    return origin ? *origin : value;
  }
  int group_of(const Value& value) const { return root(result_.group_of[origin_of(value).node]); }

  std::string name_of(const Value& value) const {
    return std::string(graph_.node(origin_of(value).node).op->name);
  }

  void close(int group, const std::string& why) {
    if (group >= 0 && at(group).open) {
      at(group).open = false;
      at(group).closed_by = why;
      open_.erase(group);
    }
  }

  void refuse(const Value& value, NodeId reader, const std::string& reason) const {
    if (options_.log != nullptr) {
      const Node& node = graph_.node(reader);
      options_.log->add_refusal(name_of(value), node.op->name, reason, to_string(node.place));
    }
  }

  void read_from_outside(NodeId id, const std::string& why) {
    for (const Value& value : graph_.node(id).inputs) {
      if (const int group = group_of(value); group >= 0) {
        refuse(value, id, why);
        close(group, fmt::format("{} had read from it", graph_.node(id).op->name));
      }
    }
  }

  // Whether a value can only leave its group.
  bool is_final(const Value& value) const {
    const Node& node = graph_.node(value.node);
    const auto role = final_roles_.find(value.node);
    return role != final_roles_.end() || is_fused_column_sum(*node.op, value.output);
  }

  // A move of a member's value: part of the group if what reads it is.
  void follow(NodeId id) {
    const Value value = graph_.node(id).inputs[0];
    const int group = group_of(value);
    if (group >= 0 && at(group).open && !is_final(origin_of(value))) {
      result_.origin[id] = origin_of(value);
    } else {
      read_from_outside(id, "its result leaves the group");
    }
  }

  // What a node says about sizes; nothing where it is never a member.
  std::optional<Form> form_of(const Node& node, const Types& inputs) const {
    const bool map = node.op->kind == OpKind::kElementwise;
    Form form;
    form.extent = fused_extent(*node.op, node.attrs, inputs, longest_row());
    const bool total = !map && !form.extent &&
                       fused_role(*node.op, node.attrs, inputs, node.outputs,
                                  {1, inputs.empty() ? 0 : inputs[0].elements()},
                                  longest_row()) == FusedRole::kFoldAll;
    if (!map && !form.extent && !total) {
      return std::nullopt;
    }
    form.counts = {map ? node.outputs[0].elements() : inputs[0].elements()};
    if (total) {
      form.summed = *form.counts.begin();
    }
    return *form.counts.begin() == 0 ? std::nullopt : std::optional(form);
  }

  int64_t longest_row() const { return options_.limits.fused_row; }

  std::optional<FusedRole> role_in(const Node& node, const Types& inputs,
                                   const FusedExtent& extent) const {
    return fused_role(*node.op, node.attrs, inputs, node.outputs, extent, longest_row());
  }

  // Why no role fits: the length of rows, else `reason`.
  std::string misfit(const Form& form, const std::string& reason) const {
    const int64_t n = form.final_extent().n;
    return n > longest_row() ? fmt::format("rows of {} elements are too long", n) : reason;
  }

  // Why a node is no member at all; empty where it may be.
  std::string exclusion(const Node& node, const Types& inputs, const Form& form) const {
    const auto role = role_in(node, inputs, form.final_extent());
    if (!role) {
      return misfit(form,
                    fmt::format("{} reduces other dims than the first or the last", node.op->name));
    }
    const GroupRule* rule = rule_of(*role);
    return rule != nullptr && options_.off.contains(rule->name)
               ? fmt::format("the rule {} is off", rule->name)
               : std::string();
  }

  void place(NodeId id) {
    const Node& node = graph_.node(id);
    const Types inputs = graph_.types(node.inputs);
    const std::optional<Form> form = form_of(node, inputs);
    if (!form) {
      stop_at(id);
      return;
    }
    if (const std::string why = exclusion(node, inputs, *form); !why.empty()) {
      read_from_outside(id, why);
      return;
    }
    join(id, inputs, *form);
  }

  // An operation that is never a member: no group reaches over it.
  void stop_at(NodeId id) {
    const std::string name(graph_.node(id).op->name);
    read_from_outside(id, fmt::format("{} is never part of a group", name));
    while (!open_.empty()) {
      close(*open_.begin(), fmt::format("{} came between", name));
    }
  }

  // Why `id` cannot be in one group with the value of its input `i`; adds to `form` what their connection asks for.
  std::string link(NodeId id, size_t i, Form& form) {
    const Node& node = graph_.node(id);
    const Value value = node.inputs[i];
    const Open& group = at(group_of(value));
    if (!group.open) {
      return group.closed_by;
    }
    if (is_final(origin_of(value))) {
      return fmt::format("{} sums over rows or everything", name_of(value));
    }
    if (is_fused_parameter(*node.op, i)) {
      return "it is a parameter of every row";
    }
    if (group.part != node.place.part) {
      return "it belongs to another part of the step";
    }
    const int64_t from = graph_.type(origin_of(value)).elements();
    const int64_t to = graph_.type(value).elements();
    Form connection{{}, {from, to}};
    if (from != to) {
      if (options_.off.contains(rule_of(FusedRole::kSpread)->name)) {
        return "the rule spread is off";
      }
      connection.extent = FusedExtent{from, to / from};
    }
    if (const std::string why = form.join(connection); !why.empty()) {
      return why;
    }
    return moves_fit(value, form.final_extent())
               ? std::string()
               : misfit(form, "a broadcast does not repeat whole rows");
  }

  bool moves_fit(Value value, const FusedExtent& extent) const {
    while (result_.origin[value.node]) {
      const Node& move = graph_.node(value.node);
      if (!role_in(move, graph_.types(move.inputs), extent)) {
        return false;
      }
      value = move.inputs[0];
    }
    return true;
  }

  void join(NodeId id, const Types& types, Form form) {
    const Node& node = graph_.node(id);
    // A group that one input cannot connect to is read from outside.
    std::map<int, std::string> refused;
    std::map<int, Form> candidates;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int group = group_of(node.inputs[i]);
      if (group < 0) {
        continue;
      }
      Form& linked = candidates.try_emplace(group, form).first->second;
      if (const std::string why = link(id, i, linked); !why.empty()) {
        refused.try_emplace(group, why);
      }
    }
    std::vector<int> joined;
    std::set<Value> inputs;
    size_t members = 1;
    for (const auto& [group, linked] : candidates) {
      if (refused.contains(group)) {
        continue;
      }
      Form both = form;
      std::string why = both.join(linked);
      why = why.empty() ? both.join(at(group).form) : why;
      if (why.empty() && !role_in(node, types, both.final_extent())) {
        why = fmt::format("{} has no place among rows of {}", node.op->name, both.final_extent().n);
      }
      const BackendLimits& limits = options_.limits;
      if (why.empty() &&
          (members + at(group).members.size() > limits.fused_members ||
           inputs.size() + at(group).inputs.size() + types.size() > limits.fused_inputs)) {
        why = "the group would be too large";
      }
      if (!why.empty()) {
        refused[group] = why;
        continue;
      }
      form = both;
      members += at(group).members.size();
      inputs.insert(at(group).inputs.begin(), at(group).inputs.end());
      joined.push_back(group);
    }
    for (const Value& value : node.inputs) {
      const int group = group_of(value);
      if (const auto why = refused.find(group); why != refused.end()) {
        refuse(value, id, why->second);
        close(group, fmt::format("{} had read from it", node.op->name));
      } else if (group < 0) {
        refuse_producer(value, id);
      }
    }
    add_to(joined, id, form, inputs);
    if (const auto role = role_in(node, types, form.final_extent());
        role == FusedRole::kFoldAll || role == FusedRole::kFoldColumns) {
      final_roles_.insert(id);
    }
  }

  // What computes an input that no group makes.
  void refuse_producer(const Value& value, NodeId reader) const {
    const Node& node = graph_.node(value.node);
    if (node.op != &kInputOp && node.op->kind != OpKind::kSource &&
        node.op->kind != OpKind::kMovement) {
      refuse(value, reader, fmt::format("{} is never part of a group", node.op->name));
    }
  }

  void add_to(const std::vector<int>& joined, NodeId id, const Form& form,
              std::set<Value>& inputs) {
    int target = joined.empty() ? -1 : joined[0];
    if (target < 0) {
      target = static_cast<int>(groups_.size());
      groups_.push_back({});
      at(target).part = graph_.node(id).place.part;
      open_.insert(target);
    }
    for (size_t i = 1; i < joined.size(); ++i) {
      Open& other = at(joined[i]);
      at(target).members.insert(at(target).members.end(), other.members.begin(),
                                other.members.end());
      other = Open{.open = false, .merged_into = target};
      open_.erase(joined[i]);
    }
    Open& group = at(target);
    group.members.push_back(id);
    group.form = form;
    group.inputs = std::move(inputs);
    result_.group_of[id] = target;
    for (const Value& value : graph_.node(id).inputs) {
      if (group_of(value) != target) {
        group.inputs.insert(value);
      }
    }
  }

  FusionGroups finish() {
    std::vector<int> number(groups_.size(), -1);
    for (size_t i = 0; i < groups_.size(); ++i) {
      Open& group = groups_[i];
      if (group.members.size() < 2) {
        continue;
      }
      number[i] = static_cast<int>(result_.groups.size());
      std::sort(group.members.begin(), group.members.end());
      result_.groups.push_back({group.members, group.form.final_extent()});
    }
    for (int& group : result_.group_of) {
      group = group < 0 ? -1 : number[static_cast<size_t>(root(group))];
    }
    return std::move(result_);
  }

  const Graph& graph_;
  const FuseOptions& options_;
  std::vector<bool> live_;
  std::vector<Open> groups_;
  std::set<int> open_;
  std::set<NodeId> final_roles_;  // whose results can only leave
  FusionGroups result_;
};

}  // namespace

std::span<const GroupRule> group_rules() {
  static constexpr GroupRule kRules[] = {
      {{"map", "elementwise operations with what makes their operands"}, FusedRole::kMap},
      {{"spread", "numbers of rows with what repeats them along the row"}, FusedRole::kSpread},
      {{"fold_rows", "reductions of rows with their neighbours"}, FusedRole::kFoldRow},
      {{"fold_columns", "sums over rows with what they add up"}, FusedRole::kFoldColumns},
      {{"fold_all", "sums over everything with what they add up"}, FusedRole::kFoldAll},
      {{"rows", "norms and softmax, forward and backward, with their neighbours"}, FusedRole::kRow},
  };
  return kRules;
}

const GroupRule* rule_of(FusedRole role) {
  for (const GroupRule& rule : group_rules()) {
    if (rule.role == role) {
      return &rule;
    }
  }
  return nullptr;
}

FusionGroups find_groups(const Graph& graph, const FuseOptions& options) {
  return Grouper(graph, options).run();
}

GraphPtr fuse(const Graph& graph, const FuseOptions& options) {
  const FusionGroups groups = find_groups(graph, options);
  GraphPtr result = put_together(graph, groups);
  if (options.log != nullptr) {
    const std::vector<bool> live = result->live();
    for (NodeId id = 0; id < result->size(); ++id) {
      const Node& node = result->node(id);
      if (live[id] && node.op == &fused_op()) {
        options.log->add_group(title_of(*node.op, node.attrs), to_string(node.place));
      }
    }
  }
  return result;
}

void FusionLog::add_group(const std::string& members, const std::string& scope) {
  Line& line = groups_.try_emplace(members, Line{0, scope}).first->second;
  ++line.count;
}

void FusionLog::add_refusal(std::string_view from, std::string_view to, const std::string& reason,
                            const std::string& scope) {
  const std::string key = fmt::format("{} with {}: {}", to, from, reason);
  Line& line = refusals_.try_emplace(key, Line{0, scope}).first->second;
  ++line.count;
}

std::string FusionLog::lines(const std::map<std::string, Line>& all) {
  std::string text;
  for (const auto& [what, line] : all) {
    text += fmt::format("  {:>5} × {}{}\n", line.count, what,
                        line.scope.empty() ? "" : fmt::format("  (first in {})", line.scope));
  }
  return text;
}

std::string FusionLog::text() const {
  return "fused\n" + lines(groups_) + "not fused\n" + lines(refusals_);
}

}  // namespace mstrain
