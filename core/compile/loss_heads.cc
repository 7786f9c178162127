#include "core/compile/loss_heads.h"

#include <algorithm>
#include <set>

#include "core/tensor/jit.h"

namespace mstrain {
namespace {

using Reader = LogitsReader;
using Head = LossHead;

// Logits of more are chunked, into chunks of at most that much: for GPT-2 small on 1,024 tokens (206 MB) parts of 50 and
// 100 MB take no longer than the whole, parts of 25 MB 1.5 % of a step, parts of 13 MB 9 %.
constexpr int64_t kChunkBytes = int64_t{64} << 20;
// Products run best on whole tiles of rows.
constexpr int64_t kTileRows = 16;

bool is_product(const Node& node) {
  return node.op->name == "matmul" || node.op->name == "matmul_bias";
}

int64_t rows_of_chunk(int64_t rows, int64_t row_bytes, int64_t chunks) {
  if (chunks == kAutoChunks) {
    const int64_t most = std::max<int64_t>(kChunkBytes / row_bytes, 1);
    chunks = (rows + most - 1) / most;
  }
  const int64_t even = (rows + chunks - 1) / chunks;
  const int64_t tiles = (even + kTileRows - 1) / kTileRows * kTileRows;
  return chunks > 1 && even > 4 * kTileRows ? std::min(tiles, rows) : even;
}

class Finder {
 public:
  Finder(const Graph& graph, int64_t chunks)
      : graph_(graph), chunks_(chunks), live_(graph.live()), readers_(graph.size()) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (live_[id]) {
        for (const Value& value : graph.node(id).inputs) {
          if (readers_[value.node].empty() || readers_[value.node].back() != id) {
            readers_[value.node].push_back(id);
          }
        }
      }
    }
  }

  // Heads that do not need each other's results.
  std::vector<Head> run() const {
    std::vector<Head> heads;
    std::vector<bool> dependent(graph_.size(), false);
    std::vector<bool> needed(graph_.size(), false);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!live_[id] || graph_.node(id).op->name != "cross_entropy") {
        continue;
      }
      auto head = head_of(id);
      if (!head) {
        continue;
      }
      const std::vector<bool> after = dependents(*head);
      const auto any = [](const std::vector<NodeId>& ids, const std::vector<bool>& set) {
        return std::any_of(ids.begin(), ids.end(), [&](NodeId at) { return set[at]; });
      };
      bool apart = !any(head->before, dependent);
      for (NodeId at = 0; at < graph_.size(); ++at) {
        apart = apart && !(after[at] && needed[at]);
      }
      if (!apart) {
        continue;
      }
      for (NodeId at = 0; at < graph_.size(); ++at) {
        dependent[at] = dependent[at] || after[at];
      }
      for (NodeId at : head->before) {
        needed[at] = true;
      }
      heads.push_back(std::move(*head));
    }
    return heads;
  }

 private:
  bool is_output(NodeId id) const {
    return std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [&](const Value& value) { return value.node == id; });
  }

  // What reads the value of node `id` (of one output), through reshapes; and those nodes that show it.
  struct Use {
    std::vector<NodeId> readers;
    std::set<NodeId> shown;
    bool kept = false;  // by the program's results
  };
  Use use_of(NodeId id) const {
    Use use;
    std::vector<NodeId> open{id};
    while (!open.empty()) {
      const NodeId at = open.back();
      open.pop_back();
      use.shown.insert(at);
      use.kept = use.kept || is_output(at);
      for (NodeId reader : readers_[at]) {
        (graph_.node(reader).op->name == "reshape" ? open : use.readers).push_back(reader);
      }
    }
    std::sort(use.readers.begin(), use.readers.end());
    use.readers.erase(std::unique(use.readers.begin(), use.readers.end()), use.readers.end());
    return use;
  }

  // The one operand of `node` among `shown`; none where there are several.
  std::optional<size_t> operand(const Node& node, const std::set<NodeId>& shown) const {
    std::optional<size_t> found;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (shown.contains(node.inputs[i].node)) {
        if (found) {
          return std::nullopt;
        }
        found = i;
      }
    }
    return found;
  }

  std::optional<Head> head_of(NodeId loss) const {
    const Node& node = graph_.node(loss);
    NodeId product = node.inputs[0].node;
    while (graph_.node(product).op->name == "reshape") {
      product = graph_.node(product).inputs[0].node;
    }
    const Node& made = graph_.node(product);
    const TensorType& logits = made.outputs[0];
    if (!is_product(made) || logits.shape.rank() != 2 || made.attrs.flag("transpose_a") ||
        logits.shape[1] != graph_.type(node.inputs[0]).shape.back()) {
      return std::nullopt;
    }
    Head head{.product = product, .loss = loss, .rows = logits.shape[0]};
    head.chunk = rows_of_chunk(head.rows, logits.shape[1] * size_of(logits.dtype), chunks_);
    if (head.chunk >= head.rows) {
      return std::nullopt;
    }
    const Use use = use_of(product);
    if (use.kept) {
      return std::nullopt;
    }
    for (NodeId reader : use.readers) {
      const auto at = operand(graph_.node(reader), use.shown);
      if (reader == loss ? at != size_t{0} : !takes_gradient(head, reader, at)) {
        return std::nullopt;
      }
    }
    if (head.gradient && !find_readers(head)) {
      return std::nullopt;
    }
    return find_needs(head) ? std::optional(std::move(head)) : std::nullopt;
  }

  bool takes_gradient(Head& head, NodeId reader, std::optional<size_t> logits) const {
    const Node& node = graph_.node(reader);
    const Node& loss = graph_.node(head.loss);
    const bool takes = node.op->name == "cross_entropy_grad" && logits == size_t{1} &&
                       !head.gradient && node.attrs == loss.attrs &&
                       node.inputs[2] == loss.inputs[1] && node.inputs[3] == Value{head.loss, 1};
    if (takes) {
      head.gradient = reader;
    }
    return takes;
  }

  bool find_readers(Head& head) const {
    const Use use = use_of(*head.gradient);
    if (use.kept) {
      return false;
    }
    const TensorType& logits = graph_.node(head.product).outputs[0];
    for (NodeId id : use.readers) {
      const auto at = operand(graph_.node(id), use.shown);
      const auto reader = at ? reader_of(id, *at, logits) : std::nullopt;
      if (!reader) {
        return false;
      }
      head.readers.push_back(*reader);
    }
    return true;
  }

  std::optional<Reader> reader_of(NodeId id, size_t at, const TensorType& logits) const {
    const Node& node = graph_.node(id);
    const TensorType& given = graph_.type(node.inputs[at]);
    Reader reader{.id = id, .logits = at};
    const bool sums_exactly = logits.dtype == Dtype::kF32 || logits.dtype == Dtype::kF64;
    if (node.op->name == "reduce_sum") {
      const Shape& axes = node.attrs.ints("axes");
      bool all_rows =
          axes.rank() == given.shape.rank() - 1 && given.shape.back() == logits.shape[1];
      for (int i = 0; i < axes.rank(); ++i) {
        all_rows = all_rows && axes[i] == i;
      }
      reader.kind = Reader::Kind::kRowSum;
      return all_rows && sums_exactly ? std::optional(reader) : std::nullopt;
    }
    const bool adds = node.op->name == "matmul_add";
    if ((node.op->name != "matmul" && !adds) || !(given == logits) || at > 1) {
      return std::nullopt;
    }
    reader.other = node.inputs[1 - at];
    if (adds) {
      reader.addend = node.inputs[2];
    }
    const bool ta = node.attrs.flag("transpose_a");
    const bool tb = node.attrs.flag("transpose_b");
    if (at == 0 && !ta) {
      return reader;
    }
    reader.kind = Reader::Kind::kSum;
    return ta && !tb && sums_exactly ? std::optional(reader) : std::nullopt;
  }

  // Nodes that need the loss or what is made of dlogits.
  std::vector<bool> dependents(const Head& head) const {
    std::vector<bool> after(graph_.size(), false);
    after[head.loss] = true;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const auto& inputs = graph_.node(id).inputs;
      after[id] = after[id] || std::any_of(inputs.begin(), inputs.end(),
                                           [&](const Value& v) { return after[v.node]; });
    }
    return after;
  }

  bool find_needs(Head& head) const {
    const std::vector<bool> after = dependents(head);
    std::vector<bool> needed(graph_.size(), false);
    const auto need = [&](const Value& value) { needed[value.node] = true; };
    const Node& product = graph_.node(head.product);
    std::for_each(product.inputs.begin(), product.inputs.end(), need);
    need(graph_.node(head.loss).inputs[1]);
    if (head.gradient) {
      need(graph_.node(*head.gradient).inputs[0]);
    }
    for (Reader& reader : head.readers) {
      if (reader.kind != Reader::Kind::kRowSum) {
        need(reader.other);
      }
      reader.adds_in_place = reader.kind == Reader::Kind::kSum && reader.addend.has_value() &&
                             !after[reader.addend->node];
      if (reader.adds_in_place) {
        need(*reader.addend);
      }
    }
    for (NodeId id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
      if (needed[id]) {
        const auto& inputs = graph_.node(id).inputs;
        std::for_each(inputs.begin(), inputs.end(), need);
      }
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (needed[id]) {
        if (after[id]) {
          return false;
        }
        head.before.push_back(id);
      }
    }
    return true;
  }

  const Graph& graph_;
  int64_t chunks_;
  std::vector<bool> live_;
  std::vector<std::vector<NodeId>> readers_;  // live, by node
};

}  // namespace

std::vector<LossHead> find_loss_heads(const Graph& graph, int64_t chunks) {
  return Finder(graph, chunks).run();
}

}  // namespace mstrain
