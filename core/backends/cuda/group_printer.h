// What the text of a group is printed with: terms by their names, the packs that a thread has of a row.
#pragma once

#include "core/backends/cuda/group.h"
#include "core/backends/cuda/group_layout.h"
#include "core/backends/cuda/group_terms.h"
#include "core/backends/cuda/text_lines.h"

namespace mstrain::cuda {

class GroupPrinter : protected TextLines {
 public:
  explicit GroupPrinter(const KernelRequest& request)
      : terms_(group_terms(request, *group_body(request))), it_(layout_of(terms_)) {
    result_.launches.push_back({"@", it_.blocks, static_cast<int>(it_.threads)});
    for (size_t i = 0; i < terms_.terms.size(); ++i) {
      const Term& term = terms_.terms[i];
      if (term.needed && term.lies_in(it_.pack)) {
        packed_.push_back(static_cast<int>(i));
      }
    }
  }

 protected:
  using Kind = Term::Kind;

  const Term& term(int i) const { return terms_.term(i); }
  bool has(Sink::Kind kind) const { return terms_.count(kind) > 0; }
  // Whether a second kernel adds up what blocks have summed.
  bool leaves_sums() const {
    return it_.blocks > 1 && (has(Sink::Kind::kSumColumns) || has(Sink::Kind::kSumAll));
  }

  bool keeps(int i) const { return terms_.keeps(i, it_.pack); }
  const std::string format_of_input(const Term& it) const {
    return format_of(terms_.inputs[static_cast<size_t>(it.input)].type.dtype);
  }
  // The packs of a term: each that a thread has of a row, of all rows that it has at a time.
  std::string packs_of(const Term& it) const {
    return fmt::format("pack{}{}", it.input, it.is_parameter ? "c" : "i");
  }
  std::string name_of(int i) const {
    const Term& it = term(i);
    if (it.lies_in(it_.pack)) {
      return fmt::format("{}::load({}[{}].at[j])", format_of_input(it), packs_of(it),
                         it.is_parameter && it_.by_rows ? "q" : "slot");
    }
    return it.kind == Kind::kFull ? fmt::format("v{}{}", i, keeps(i) ? "[k]" : "")
                                  : fmt::format("r{}", i);
  }
  std::string text_of(int i) const {
    std::string result;
    const Term& it = term(i);
    for (size_t at = 0; at < it.expression.size(); ++at) {
      if (it.expression[at] == '$') {
        result += name_of(it.operands[static_cast<size_t>(it.expression[++at] - '0')]);
      } else {
        result += it.expression[at];
      }
    }
    return result;
  }

  template <class F>
  void for_terms(Kind kind, int level, F f) const {
    for (size_t i = 0; i < terms_.terms.size(); ++i) {
      const Term& it = terms_.terms[i];
      if (it.needed && it.kind == kind && (level < 0 || it.level == level) &&
          !it.lies_in(it_.pack)) {
        f(static_cast<int>(i));
      }
    }
  }
  // Stores of an element each, in the pass over the row in which it is known.
  template <class F>
  void for_stores(int level, F f) const {
    for (const Sink& sink : terms_.sinks) {
      const Term& from = term(sink.term);
      if (sink.kind == Sink::Kind::kStore && from.kind == Kind::kFull &&
          (level < 0 || from.level == level)) {
        f(sink);
      }
    }
  }

  std::string output(const Sink& sink) const {
    return fmt::format("global<{}::Stored>({})", sink.format,
                       pointer_text(terms_.inputs.size() + static_cast<size_t>(sink.output)));
  }
  // A thread's packs of a row. `mine`: whether the row is its team's own; empty: it is.
  void open_packs(const std::string& mine = "") {
    line("#pragma unroll");
    open("for (int q = 0; q < {}; ++q) {{", it_.packs);
    line("const int c0 = (lane + q * {}) * {};", it_.team(), it_.pack);
    const bool whole = it_.packs * it_.team() * it_.pack == terms_.extent.n;
    std::string condition = whole ? "" : fmt::format("c0 < {}", terms_.extent.n);
    condition += !whole && !mine.empty() ? " && " : "";
    condition += mine;
    if (condition.empty()) {
      open("{{");
    } else {
      open("if ({}) {{", condition);
    }
  }

  GroupTerms terms_;
  GroupLayout it_;
  std::vector<int> packed_;  // terms that are read in packs
};

}  // namespace mstrain::cuda
