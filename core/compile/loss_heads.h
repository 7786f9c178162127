// Heads of programs: wide logits that cross-entropy and its gradient read, and nothing else does.
#pragma once

#include <optional>

#include "core/ir/graph.h"
#include "core/ops/dot_general.h"

namespace mstrain {

// What is made of dlogits.
struct LogitsReader {
  enum class Kind : uint8_t {
    kRows,   // dlogits B
    kSum,    // dlogitsᵀ B or Bᵀ dlogits
    kRowSum  // the sum of dlogits over its rows
  };
  Kind kind = Kind::kRows;
  NodeId id = 0;
  size_t logits = 0;  // the operand that is dlogits
  Value other;        // B
  DotDims dims;       // of the product, over rows
  std::optional<Value> addend;
  bool adds_in_place = false;  // the addend exists before the loss
};

struct LossHead {
  NodeId product = 0, loss = 0;
  DotDims dims;     // of the product, over rows
  int leading = 0;  // dims of the logits that are its rows
  std::optional<NodeId> gradient;
  std::vector<LogitsReader> readers;
  std::vector<NodeId> before;  // all that the chunks need, in order
  int64_t rows = 0, chunk = 0;
};

// The heads whose rows are to be computed in several chunks (see CompileOptions::loss_chunks) and can be: none needs what
// another one gives.
std::vector<LossHead> find_loss_heads(const Graph& graph, int64_t chunks);

}  // namespace mstrain
