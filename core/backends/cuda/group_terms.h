// What a group computes, taken apart into terms: each is an expression of others, for every element or once a row.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/kernel.h"
#include "core/ops/fused.h"

namespace mstrain::cuda {

struct Term {
  enum class Kind : uint8_t {
    kFull,  // for every element
    kRow,   // once a row
    kFold   // once a row, of the row's elements
  };

  Kind kind = Kind::kFull;
  std::string type;  // that holds it: "float"
  std::string
      expression;  // "$0" is the first operand, r the row, c the column, i the element; of kFold, "Sum"
  std::vector<int> operands;
  int level =
      0;  // the pass over the row in which it is known; for what is known once a row, before it

  // Of an element in memory whose neighbours lie beside it, so many that begin at multiples of `unit`: its input, and where it lies
  // there, which of a parameter depends on its column alone. Others have unit 0, and an input where they are read once a row.
  int input = -1;
  bool is_parameter = false;
  std::string offset;
  int64_t unit = 0;
  bool lies_in(int64_t pack) const { return unit > 0 && unit % pack == 0; }

  // Found by finish().
  bool needed = false;
  bool kept = false;  // a later pass needs it
};

// What leaves a group.
struct Sink {
  enum class Kind : uint8_t { kStore, kSumColumns, kSumAll };

  Kind kind = Kind::kStore;
  int term = 0;
  int output = 0;
  std::string format;  // of the output: "BF16"
};

struct GroupTerms {
  FusedExtent extent;
  bool by_rows = false;
  int levels = 1;
  std::vector<Term> terms;
  std::vector<Sink> sinks;
  std::vector<ViewType> inputs, outputs;
  std::string title;

  const Term& term(int i) const { return terms[static_cast<size_t>(i)]; }
  // Whether a later pass makes a term again rather than keeps it: arithmetic on packs that are kept as they were read, and on numbers
  // of the row.
  bool made_again(int i, int64_t pack) const;
  // Whether registers keep it for a later pass.
  bool keeps(int i, int64_t pack) const {
    return term(i).kept && !term(i).lies_in(pack) && !made_again(i, pack);
  }
  int64_t count(Sink::Kind kind) const { return std::ranges::count(sinks, kind, &Sink::kind); }
};

// "float", "BF16": what holds a number of a type, and its format in device/kernel.cuh.
std::string held_by(Dtype dtype);
std::string format_of(Dtype dtype);

// A request as a body with an extent; none where it is no group.
struct GroupBody {
  GraphPtr graph;
  FusedExtent extent;
};
std::optional<GroupBody> group_body(const KernelRequest& request);

GroupTerms group_terms(const KernelRequest& request, const GroupBody& body);

}  // namespace mstrain::cuda
