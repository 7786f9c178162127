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

// Whether a node is a product with no epilogue, or with this one.
bool is_product(const Node& node, std::string_view epilogue) {
  const Attr* after = node.op == &kDotGeneral ? node.attrs.find("epilogue") : nullptr;
  return node.op == &kDotGeneral && (after == nullptr || std::get<std::string>(*after) == epilogue);
}

// The dims of a product with the first `count` of an operand, of all tensors that begin with them, as one; nothing where a
// tensor has them in another way.
std::optional<DotDims> over_rows(DotDims dims, size_t operand, int count) {
  const std::string rows = (operand == 0 ? dims.a : dims.b).substr(0, static_cast<size_t>(count));
  for (std::string* letters : {&dims.a, &dims.b, &dims.out}) {
    const bool begins = letters->starts_with(rows);
    if (begins) {
      letters->erase(1, rows.size() - 1);
    }
    if (letters->find_first_of(rows, begins ? 1 : 0) != std::string::npos) {
      return std::nullopt;
    }
  }
  return dims;
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
    const int leading = logits.shape.rank() - 1;
    if (!is_product(made, "bias") || leading < 1 ||
        logits.shape.back() != graph_.type(node.inputs[0]).shape.back()) {
      return std::nullopt;
    }
    const auto dims = over_rows(dot_dims(made.attrs), 0, leading);
    const bool by_rows = dims && dims->out.starts_with(dims->a.front()) && dims->out.size() == 2 &&
                         dims->b.find(dims->a.front()) == std::string::npos;
    if (!by_rows) {
      return std::nullopt;
    }
    const int64_t rows = logits.shape.elements() / std::max<int64_t>(logits.shape.back(), 1);
    Head head{.product = product, .loss = loss, .dims = *dims, .leading = leading, .rows = rows};
    head.chunk = rows_of_chunk(rows, logits.shape.back() * size_of(logits.dtype), chunks_);
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
          axes.rank() == given.shape.rank() - 1 && given.shape.back() == logits.shape.back();
      for (int i = 0; i < axes.rank(); ++i) {
        all_rows = all_rows && axes[i] == i;
      }
      reader.kind = Reader::Kind::kRowSum;
      return all_rows && sums_exactly ? std::optional(reader) : std::nullopt;
    }
    if (!is_product(node, "add") || !(given == logits) || at > 1) {
      return std::nullopt;
    }
    const auto dims = over_rows(dot_dims(node.attrs), at, logits.shape.rank() - 1);
    if (!dims) {
      return std::nullopt;
    }
    reader.dims = *dims;
    reader.other = node.inputs[1 - at];
    if (node.inputs.size() > 2) {
      reader.addend = node.inputs[2];
    }
    const char row = (at == 0 ? dims->a : dims->b).front();
    const std::string& other = at == 0 ? dims->b : dims->a;
    if (dims->out.starts_with(row)) {
      return other.find(row) == std::string::npos ? std::optional(reader) : std::nullopt;
    }
    reader.kind = Reader::Kind::kSum;
    return other.starts_with(row) && sums_exactly ? std::optional(reader) : std::nullopt;
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
