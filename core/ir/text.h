// Programs as text: what logs and error reports show, and what parse_graph reads back.
//
//   graph {
//     %0 = input() : f32[8, 128]
//     %1:2 = split(%0) {axis=1, sizes=[64, 64]} : f32[8, 64], f32[8, 64]  @"decoder.h.3"
//     %2 = mul(%1.0, %1.1) : f32[8, 64]
//     return %2
//   }
//
// One node a line, inputs before users; `:2` is the number of results where it is not 1, and `.1`
// picks one of them. The part of the step that a node belongs to, where it is not the forward part,
// and its scope may follow: @backward "decoder.h.3". Attributes: true and false; 3; 0.5, 1e-05,
// inf, nan; f32; [1, 2]; "text"; graph {…}. `#` starts a comment. Dead nodes are not printed.
// parse_graph(to_text(g)) equals g, bit for bit.
#pragma once

#include "core/ir/graph.h"

namespace mstrain {

std::string to_text(const Graph& graph);
// One attribute; a program within is printed on several lines, indented below `indent` spaces.
std::string to_text(const Attr& attr, int indent = 0);

// The program in `text`. Throws Error("3:17: …") with line and column for text that is malformed,
// names an unknown operation or value, or states types that the operations do not give. Memory is
// proportional to the text.
GraphPtr parse_graph(std::string_view text);

}  // namespace mstrain
