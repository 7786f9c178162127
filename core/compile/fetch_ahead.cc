#include "core/compile/fetch_ahead.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/ops/offload.h"

namespace mstrain {
namespace {

bool is_move(const Node& node) { return node.op->alias != nullptr && node.inputs.size() == 1; }

// What one node reads of what fetches bring.
struct Group {
  size_t reader = 0;  // place in the order
  std::vector<NodeId> fetches;
  int64_t bytes = 0;
  bool updates = false;
};

// In the order of their readers.
std::vector<Group> groups_of(const Graph& graph, std::span<const NodeId> order) {
  const auto is_fetch = [&](NodeId id) { return graph.node(id).op == &fetch_op(); };
  if (std::none_of(order.begin(), order.end(), is_fetch)) {
    return {};
  }
  std::vector<std::optional<size_t>> reader(graph.size());  // of a node, through moves
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = graph.node(order[i]);
    const std::optional<size_t> reads = is_move(node) ? reader[order[i]] : i;
    for (const Value& value : node.inputs) {
      std::optional<size_t>& known = reader[value.node];
      known = known && reads ? std::min(*known, *reads) : known ? known : reads;
    }
  }
  std::map<size_t, Group> by_reader;
  for (const NodeId id : order) {
    if (is_fetch(id) && reader[id]) {
      Group& group = by_reader[*reader[id]];
      group.reader = *reader[id];
      group.fetches.push_back(id);
      group.bytes += graph.node(id).outputs[0].bytes();
      group.updates = graph.node(order[group.reader]).place.part == StepPart::kUpdate;
    }
  }
  std::vector<Group> groups;
  for (auto& [place, group] : by_reader) {
    groups.push_back(std::move(group));
  }
  return groups;
}

AheadBytes most_of(std::span<const Group> groups) {
  AheadBytes most;
  for (const Group& group : groups) {
    int64_t& bytes = most.of(group.updates);
    bytes = std::max(bytes, group.bytes);
  }
  return most;
}

}  // namespace

bool has_host_memory(const Backend* backend) {
  const Backend* const known = find_backend(backend->name);  // of one that is described
  return known != nullptr && known->open != nullptr && find_kernel(backend, stow_op()) != nullptr;
}

AheadBytes most_fetched(const Graph& graph, std::span<const NodeId> order) {
  return most_of(groups_of(graph, order));
}

std::vector<NodeId> fetched_ahead(const Graph& graph, std::vector<NodeId> order) {
  const std::vector<Group> groups = groups_of(graph, order);
  if (groups.empty()) {
    return order;
  }
  AheadBytes most = most_of(groups);
  std::vector<size_t> place(graph.size(), 0);  // of what the order does not name: before all
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i + 1;
  }
  std::vector<std::vector<NodeId>> early(order.size());  // what goes before each of the order
  std::vector<bool> moved(graph.size(), false);
  for (size_t j = 1; j < groups.size(); ++j) {
    const Group& group = groups[j];
    size_t first = j - 1;  // before whose reader it begins
    int64_t ahead = group.bytes;
    while (first > 0 && ahead + groups[first].bytes <= most.of(group.updates)) {
      ahead += groups[first].bytes;
      --first;
    }
    for (const NodeId id : group.fetches) {
      size_t before = first;
      while (before < j && place[graph.node(id).inputs[0].node] > groups[before].reader) {
        ++before;  // it is not there by then
      }
      if (before < j) {
        early[groups[before].reader].push_back(id);
        moved[id] = true;
      }
    }
  }
  std::vector<NodeId> result;
  for (size_t i = 0; i < order.size(); ++i) {
    result.insert(result.end(), early[i].begin(), early[i].end());
    if (!moved[order[i]]) {
      result.push_back(order[i]);
    }
  }
  return result;
}

}  // namespace mstrain
