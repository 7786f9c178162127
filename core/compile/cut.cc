#include "core/compile/cut.h"

#include <algorithm>
#include <map>

#include "core/compile/passes.h"
#include "core/ir/tensor.h"
#include "core/ops/stage.h"

namespace mstrain {
namespace {

class Cutter {
 public:
  Cutter(const Graph& graph, std::span<const int64_t> first, bool splits_backward)
      : graph_(graph),
        first_(first),
        splits_backward_(splits_backward),
        layers_(marked_layers(graph)),
        live_(graph.live()),
        owner_(graph.size(), kNoOwner) {
    check(!first.empty() && first[0] == 0, "the first stage begins with layer 0");
    for (size_t c = 1; c < first.size(); ++c) {
      check(first[c] > first[c - 1] && first[c] <= layers_,
            "stage {} of {} begins with layer {}: stages hold one layer at least, of {}", c,
            first.size(), first[c], layers_);
    }
    find_owners();
    move_scatters_to_sums();
    find_awaited();
    keep_sums_with_terms();
  }

  PipelineCut run() {
    std::vector<std::vector<NodeId>> nodes(first_.size() * kStageWorks);
    std::vector<NodeId> anywhere;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (owner_[id] >= 0) {
        nodes[static_cast<size_t>(owner_[id])].push_back(id);
      } else if (owner_[id] == kAnywhere) {
        anywhere.push_back(id);
      }
    }
    find_links(nodes);
    for (std::vector<NodeId>& of_program : nodes) {
      add_needed(anywhere, {}, of_program);
    }
    std::vector<std::vector<int>> results(nodes.size());
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      results[program_of_output(i, nodes)].push_back(static_cast<int>(i));
    }
    for (size_t program = 0; program < nodes.size(); ++program) {
      add_needed(anywhere, results[program], nodes[program]);
      cut_.programs.push_back(build(static_cast<int>(program), nodes[program], results[program]));
    }
    return std::move(cut_);
  }

 private:
  static constexpr int kAnywhere = -1;
  static constexpr int kNoOwner = -2;  // not live, or an input

  // Points in the order of the pass: layer i forward at i, backward at 2 layers + 1 - i.
  int64_t backward_time(int64_t layer) const { return 2 * layers_ + 1 - layer; }

  int chunk_with(int64_t layer) const {
    return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), layer) -
                            first_.begin()) -
           1;
  }

  // A node belongs where the latest of what it reads is computed.
  void find_owners() {
    std::vector<int64_t> time(graph_.size(), -1);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (!live_[id] || node.op == &kInputOp) {
        continue;
      }
      int64_t at = -1;
      for (const Value& value : node.inputs) {
        at = std::max(at, time[value.node]);
      }
      if (node.op == &kStagePoint) {
        const StagePoint point = stage_point_of(node.attrs);
        at = std::max(at, point.backward ? backward_time(point.layer - 1) : point.layer);
      } else if (node.place.part != StepPart::kForward && at >= 0 && at <= layers_) {
        at = backward_time(at);
      }
      time[id] = at;
      if (at < 0) {
        owner_[id] = kAnywhere;
        continue;
      }
      const bool forward = at <= layers_;
      const int64_t layer = forward ? at : std::max<int64_t>(2 * layers_ + 1 - at, 0);
      const Work work = forward            ? Work::kForward
                        : splits_backward_ ? Work::kWeights
                                           : Work::kBackward;
      owner_[id] = program_of(chunk_with(layer), work);
    }
  }

  // sum_into_scatter gives the terms of a sum an order where some of them are scatters, which it
  // finds only where one program has all of them. So scatters, and sums with them, go where the sum
  // that reads them is formed.
  void move_scatters_to_sums() {
    std::vector<bool> goes(graph_.size(), false);
    std::vector<std::vector<NodeId>> readers(graph_.size());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (owner_[id] < 0) {
        continue;
      }
      const Node& node = graph_.node(id);
      const auto is_going = [&](const Value& value) { return goes[value.node]; };
      goes[id] = scatters_into_sum(node) ||
                 (is_sum(node) && std::any_of(node.inputs.begin(), node.inputs.end(), is_going));
      for (const Value& value : node.inputs) {
        readers[value.node].push_back(id);
      }
    }
    for (const Value& value : graph_.outputs()) {
      goes[value.node] = false;
    }
    for (auto id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
      if (!goes[id] || readers[id].empty()) {
        continue;
      }
      const int to = owner_[readers[id].front()];
      const auto sums_there = [&](NodeId it) {
        return is_sum(graph_.node(it)) && owner_[it] == to;
      };
      if (std::all_of(readers[id].begin(), readers[id].end(), sums_there)) {
        owner_[id] = to;
      }
    }
  }

  // Of the backward pass of a chunk, what cotangents pass through on their way to the layers before is what others wait for.
  void find_awaited() {
    std::vector<bool> awaited(graph_.size(), false);
    for (auto id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
      if (owner_[id] < 0) {
        continue;
      }
      const Node& node = graph_.node(id);
      if (work_of(owner_[id]) == Work::kWeights && (awaited[id] || node.op == &kStagePoint)) {
        owner_[id] = program_of(PipelineCut::chunk_of(owner_[id]), Work::kBackward);
        awaited[id] = true;
      }
      for (const Value& value : node.inputs) {
        const int from = owner_[value.node];
        awaited[value.node] =
            awaited[value.node] || awaited[id] ||
            (from >= 0 && PipelineCut::chunk_of(from) != PipelineCut::chunk_of(owner_[id]));
      }
    }
  }

  // Sums of what a backward program makes are formed there, as in the whole program: fused with their terms they have other bits than
  // apart from them. They are smaller, too.
  void keep_sums_with_terms() {
    std::vector<bool> follows_no_product(graph_.size(), false);
    std::vector<bool> is_term(graph_.size(), false);
    const auto is_of_weights = [&](NodeId id) {
      return owner_[id] >= 0 && work_of(owner_[id]) == Work::kWeights;
    };
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      const OpKind kind = node.op->kind;
      follows_no_product[id] =
          is_of_weights(id) &&
          (kind == OpKind::kElementwise || kind == OpKind::kMovement || kind == OpKind::kReduce) &&
          std::all_of(node.inputs.begin(), node.inputs.end(), [&](const Value& value) {
            return !is_of_weights(value.node) || follows_no_product[value.node];
          });
    }
    for (auto id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
      const Node& node = graph_.node(id);
      if (follows_no_product[id] && (is_term[id] || node.op->kind == OpKind::kReduce)) {
        owner_[id] = program_of(PipelineCut::chunk_of(owner_[id]), Work::kBackward);
        for (const Value& value : node.inputs) {
          is_term[value.node] = true;
        }
      }
    }
  }

  static Work work_of(int program) { return static_cast<Work>(program % kStageWorks); }
  static int program_of(int chunk, Work work) {
    return chunk * kStageWorks + static_cast<int>(work);
  }

  // What can be computed anywhere is given by the program that ends the forward pass, unless others alone compute it anyway: so no
  // weight is read where its layer is not.
  size_t program_of_output(size_t output, std::span<const std::vector<NodeId>> nodes) const {
    const NodeId node = graph_.outputs()[output].node;
    if (owner_[node] >= 0) {
      return static_cast<size_t>(owner_[node]);
    }
    const size_t last = (first_.size() - 1) * kStageWorks;
    const auto computes = [&](const std::vector<NodeId>& of_program) {
      return std::binary_search(of_program.begin(), of_program.end(), node);
    };
    const auto found = std::find_if(nodes.begin(), nodes.end(), computes);
    return computes(nodes[last]) || found == nodes.end()
               ? last
               : static_cast<size_t>(found - nodes.begin());
  }

  // What programs read of each other.
  void find_links(const std::vector<std::vector<NodeId>>& nodes) {
    for (size_t program = 0; program < nodes.size(); ++program) {
      for (NodeId id : nodes[program]) {
        for (const Value& value : graph_.node(id).inputs) {
          const int from = owner_[value.node];
          if (from < 0 || from == static_cast<int>(program)) {
            continue;
          }
          const auto [found, is_new] =
              link_of_.try_emplace(value, static_cast<int>(cut_.links.size()));
          if (is_new) {
            cut_.links.push_back({graph_.type(value), from, {}});
            linked_.push_back(value);
          }
          std::vector<int>& to = cut_.links[static_cast<size_t>(found->second)].to;
          if (to.empty() || to.back() != static_cast<int>(program)) {
            to.push_back(static_cast<int>(program));
          }
        }
      }
    }
  }

  // To the nodes of a program, those of `anywhere` that they or its results read.
  void add_needed(const std::vector<NodeId>& anywhere, const std::vector<int>& results,
                  std::vector<NodeId>& nodes) const {
    std::vector<bool> wanted(graph_.size(), false);
    const auto want_inputs = [&](NodeId id) {
      for (const Value& value : graph_.node(id).inputs) {
        wanted[value.node] = true;
      }
    };
    std::for_each(nodes.begin(), nodes.end(), want_inputs);
    for (int result : results) {
      wanted[graph_.outputs()[static_cast<size_t>(result)].node] = true;
    }
    for (auto id = anywhere.rbegin(); id != anywhere.rend(); ++id) {
      if (wanted[*id]) {
        want_inputs(*id);
        nodes.push_back(*id);
      }
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }

  StageProgram build(int program, const std::vector<NodeId>& nodes,
                     const std::vector<int>& results) {
    StageProgram out{PipelineCut::chunk_of(program), work_of(program), nullptr, {}, {}, results};
    if (nodes.empty() && results.empty()) {
      return out;
    }
    const StepPart part = out.work == Work::kForward ? StepPart::kForward : StepPart::kBackward;
    Trace trace(Trace::Mode::kAbstract);
    std::map<Value, Tensor> made;
    const auto get = [&](const Value& value) -> const Tensor& {
      const auto found = made.find(value);
      if (found != made.end()) {
        return found->second;
      }
      const Node& node = graph_.node(value.node);
      const bool is_link = node.op != &kInputOp;
      out.inputs.push_back(
          {is_link, is_link ? link_of_.at(value) : static_cast<int>(node.attrs.integer("index"))});
      return made.emplace(value, trace.input(graph_.type(value))).first->second;
    };
    for (NodeId id : nodes) {
      const Node& node = graph_.node(id);
      Tensors inputs;
      for (const Value& value : node.inputs) {
        inputs.push_back(get(value));
      }
      const PlaceScope place({std::max(part, node.place.part), node.place.scope});
      const Tensors values = trace.record(*node.op, inputs, node.attrs, node.outputs, node.where);
      for (size_t i = 0; i < values.size(); ++i) {
        made.emplace(Value{id, static_cast<uint32_t>(i)}, values[i]);
      }
    }
    Tensors outputs;
    for (size_t link = 0; link < cut_.links.size(); ++link) {
      if (cut_.links[link].from == program) {
        out.links.push_back(static_cast<int>(link));
        outputs.push_back(get(linked_[link]));
      }
    }
    for (int result : results) {
      outputs.push_back(get(graph_.outputs()[static_cast<size_t>(result)]));
    }
    out.graph = trace.finish(outputs);
    return out;
  }

  const Graph& graph_;
  std::span<const int64_t> first_;
  bool splits_backward_;
  int64_t layers_;
  std::vector<bool> live_;
  std::vector<int> owner_;  // by node: its program, kAnywhere or kNoOwner
  std::map<Value, int> link_of_;
  std::vector<Value> linked_;  // by link
  PipelineCut cut_;
};

}  // namespace

int64_t marked_layers(const Graph& program) {
  int64_t last = -1;
  const std::vector<bool> live = program.live();
  for (NodeId id = 0; id < program.size(); ++id) {
    if (live[id] && program.node(id).op == &kStagePoint) {
      last = std::max(last, stage_point_of(program.node(id).attrs).layer);
    }
  }
  check(last > 0, "the model marks no layers, so that it cannot be dealt to stages");
  return last;
}

PipelineCut cut_stages(const Graph& program, std::span<const int64_t> first, bool splits_backward) {
  return Cutter(program, first, splits_backward).run();
}

}  // namespace mstrain
