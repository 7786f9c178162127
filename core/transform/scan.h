// Loops inside the program: the body is recorded once, however often it runs.
#pragma once

#include "core/transform/record.h"

namespace mstrain {

struct ScanOptions {
  int64_t length = -1;   // needed where xs holds no tensors
  bool reverse = false;  // from the last slice to the first; ys keep the order of xs
};

// The leaves of the first carry; throws where one is an empty tensor.
Tensors carry_leaves(Tensors leaves, const std::vector<std::string>& paths, const Caller& caller);
// Steps of a loop over the leading dim of xs: `length` where it is given. Throws where they differ.
int64_t scan_length(const Tensors& xs, const std::vector<std::string>& paths,
                    const ScanOptions& options, const Caller& caller);
// Types of the carries, then of a slice of each of the xs.
Types scan_types(const Tensors& carries, const Tensors& xs);
// Throws where a step changes what is static in the carry: it would have its first value in every step.
void expect_same_statics(const std::string& before, const std::string& after, const Caller& caller);
// Final carries, then stacked ys.
Tensors scan_recorded(const GraphPtr& body, const Tensors& captures, const Tensors& carries,
                      const std::vector<std::string>& carry_paths, const Tensors& xs,
                      int64_t length, bool reverse, const Caller& caller);

// scan(f, init, xs) with f(carry, x) -> pair(next carry, y) gives pair(last carry, ys): x runs over the slices of xs along
// the leading dim of all its tensors, ys holds every y along a new leading dim. All are trees; std::tuple<>{} is nothing.
// Carries keep their types. Tensors that f uses from outside are constants of the loop; derivatives pass through them
// too. Reverse mode keeps the carries that enter each step and computes the step again.
template <class F, class Carry, class X>
auto scan(const F& f, const Carry& init, const X& xs, const ScanOptions& options = {},
          const SourceLocation& where = SourceLocation::current()) {
  const Caller caller{"scan", where};
  std::vector<std::string> carry_paths;
  std::vector<std::string> paths;
  const Tensors carries = carry_leaves(flatten_tree(init, &carry_paths), carry_paths, caller);
  const Tensors leaves = flatten_tree(xs, &paths);
  const int64_t length = scan_length(leaves, paths, options, caller);
  const auto recorded = record(f, std::make_tuple(init, xs), scan_types(carries, leaves));
  expect_same_statics(statics_of(init), statics_of(recorded.form->first), caller);
  return recorded.rebuild(scan_recorded(recorded.program, recorded.captures, carries, carry_paths,
                                        leaves, length, options.reverse, caller));
}

// Final carries.
Tensors while_recorded(const GraphPtr& condition, const Tensors& condition_captures,
                       const GraphPtr& body, const Tensors& body_captures, const Tensors& carries,
                       const std::vector<std::string>& carry_paths, const Caller& caller);

// while_loop(condition, body, init): body(carry) -> carry as long as condition(carry), a bool [], holds. The carry is a
// tree that keeps its types. Forward mode only: its length is unknown, and so is what a backward pass would have to keep.
template <class Condition, class Body, class Carry>
Carry while_loop(const Condition& condition, const Body& body, const Carry& init,
                 const SourceLocation& where = SourceLocation::current()) {
  const Caller caller{"while_loop", where};
  std::vector<std::string> paths;
  const Tensors carries = carry_leaves(flatten_tree(init, &paths), paths, caller);
  const auto arguments = std::make_tuple(init);
  const auto test = record(condition, arguments, types_of(carries));
  const auto step = record(body, arguments, types_of(carries));
  expect_same_statics(statics_of(init), statics_of(*step.form), caller);
  return with_leaves(init, while_recorded(test.program, test.captures, step.program, step.captures,
                                          carries, paths, caller));
}

}  // namespace mstrain
