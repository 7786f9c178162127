// Fusion: which operations run together in one pass over memory. The one place that decides it, for every backend.
//
// The program is read in its order. A group of members is open until something outside reads one of its values, or an
// operation that is never a member (a product, an index, a draw of random numbers, a loop) comes between; only an open
// group takes new members. So a group can run where its last member stands: nothing waits for itself.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/compile/passes.h"
#include "core/ops/fused.h"

namespace mstrain {

// What may become part of a group, by what it does there.
struct GroupRule : FusionRule {
  FusedRole role;
};
std::span<const GroupRule> group_rules();
// The rule behind a role; null for moves and constants, which cost nothing.
const GroupRule* rule_of(FusedRole role);

// What was fused and what was not, and why: a line for each kind, with how often and where first.
class FusionLog {
 public:
  void add_group(const std::string& members, const std::string& scope);
  void add_refusal(std::string_view from, std::string_view to, const std::string& reason,
                   const std::string& scope);
  std::string text() const;

 private:
  struct Line {
    int64_t count = 0;
    std::string scope;
  };
  static std::string lines(const std::map<std::string, Line>& all);
  std::map<std::string, Line> groups_, refusals_;
};

// Groups of a graph's nodes.
struct FusionGroups {
  struct Group {
    std::vector<NodeId> members;  // ascending, without moves
    FusedExtent extent;
  };
  std::vector<Group> groups;                 // of at least two members
  std::vector<int> group_of;                 // by node; -1: none
  std::vector<std::optional<Value>> origin;  // of moves between members: the member's value
};

FusionGroups find_groups(const Graph& graph, const FuseOptions& options);

// `graph` with each group as one `fused` operation.
GraphPtr put_together(const Graph& graph, const FusionGroups& groups);

}  // namespace mstrain
