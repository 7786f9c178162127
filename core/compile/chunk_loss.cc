// The loss of a wide head in chunks of rows, so that its logits never exist as a whole:
//
//   logits = x Wᵀ (+ b)                      for each chunk of rows:
//   loss, lse = cross_entropy(logits)   ->     logits, loss, lse, dlogits of these rows
//   dlogits = cross_entropy_grad(g, …)         dx of these rows; dW += dlogitsᵀ x; db += Σ dlogits
//   dx = dlogits W; dW = dlogitsᵀ x
//
// The first chunk comes before the loop: it has what rows do not divide, and its products write the sums that the loop
// goes on with in place. Without a backward pass the loop gives the losses alone. A head is left as it is where anything
// else reads its logits or their gradient, or where g depends on the loss.
#include <algorithm>
#include <map>

#include "core/compile/loss_heads.h"
#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

using Reader = LogitsReader;
using Head = LossHead;

// Distinct values in the order of their first mention.
struct Operands {
  std::vector<Value> values;
  size_t add(const Value& value) {
    const size_t at = find(value);
    if (at == values.size()) {
      values.push_back(value);
    }
    return at;
  }
  size_t find(const Value& value) const {
    return static_cast<size_t>(std::find(values.begin(), values.end(), value) - values.begin());
  }
};

class Chunker {
 public:
  Chunker(const Graph& graph, const Head& head, const std::vector<Tensors>& rebuilt)
      : graph_(graph), head_(head), rebuilt_(rebuilt) {
    const Node& product = graph.node(head.product);
    x_ = by_row_.add(product.inputs[0]);
    for (size_t i = 1; i < product.inputs.size(); ++i) {
      whole_.add(product.inputs[i]);
    }
    targets_ = by_row_.add(graph.node(head.loss).inputs[1]);
    if (head.gradient) {
      g_ = by_row_.add(graph.node(*head.gradient).inputs[0]);
    }
    for (const Reader& reader : head.readers) {
      if (reader.kind != Reader::Kind::kRowSum) {
        others_.push_back(
            (reader.kind == Reader::Kind::kRows ? whole_ : by_row_).add(reader.other));
      } else {
        others_.push_back(0);
      }
    }
  }

  // What stands for the loss node, and for every reader of dlogits.
  struct Result {
    Tensors loss;
    Tensors readers;
  };

  Result run() const {
    const int64_t loops = (head_.rows - 1) / head_.chunk;
    const int64_t first = head_.rows - loops * head_.chunk;
    Tensors sums;
    for (const Reader& reader : head_.readers) {
      if (reader.kind != Reader::Kind::kRows) {
        sums.push_back(reader.adds_in_place ? rebuilt(*reader.addend) : Tensor());
      }
    }
    const size_t carries = sums.size();
    Tensors whole;
    for (const Value& value : whole_.values) {
      whole.push_back(rebuilt(value));
    }
    Tensors rows;
    Tensors first_rows;
    Tensors rest;
    for (const Value& value : by_row_.values) {
      const Tensor x = rebuilt(value);
      const bool matrix = value == by_row_.values[x_] || is_other(value);
      rows.push_back(shaped(x, matrix ? by_rows(x.shape()) : Shape{head_.rows}));
      first_rows.push_back(slice(rows.back(), 0, 0, first));
      const Tensor after = slice(rows.back(), 0, first, head_.rows);
      Shape shape = rows.back().shape().without(0).with_inserted(0, head_.chunk);
      rest.push_back(reshape(after, shape.with_inserted(0, loops)));
    }
    const Tensors begun = one_chunk(sums, whole, first_rows);
    // The loop over all other chunks: carries the sums, gives rows.
    Tensors inputs(begun.begin(), begun.begin() + static_cast<int64_t>(carries));
    inputs.insert(inputs.end(), whole.begin(), whole.end());
    Types types;
    for (const Tensor& x : inputs) {
      types.push_back(x.type());
    }
    for (const Tensor& x : rest) {
      types.push_back({x.dtype(), x.shape().without(0)});
    }
    inputs.insert(inputs.end(), rest.begin(), rest.end());
    Tensors none;
    const GraphPtr body = trace_program(
        types,
        [&](std::span<const Tensor> args) {
          return one_chunk(args.first(carries), args.subspan(carries, whole.size()),
                           args.subspan(carries + whole.size()));
        },
        &none);
    const Tensors out = apply(*find_op("scan"), inputs,
                              {{"body", body},
                               {"carries", static_cast<int64_t>(carries)},
                               {"constants", static_cast<int64_t>(whole.size())},
                               {"length", loops},
                               {"reverse", false},
                               {"keep_carries", false},
                               {"loss_chunks", true}},
                              graph_.node(head_.loss).where);
    return collected(begun, out, carries);
  }

 private:
  const Tensor& rebuilt(const Value& value) const { return rebuilt_[value.node][value.output]; }

  static Tensor shaped(const Tensor& x, const Shape& shape) {
    return x.shape() == shape ? x : reshape(x, shape);
  }

  // The shape of an operand whose first dims are rows.
  Shape by_rows(const Shape& shape) const {
    const Shape rest(std::span(shape.begin() + head_.leading, shape.end()));
    return rest.with_inserted(0, head_.rows);
  }

  bool is_other(const Value& value) const {
    return std::any_of(head_.readers.begin(), head_.readers.end(), [&](const Reader& reader) {
      return reader.kind == Reader::Kind::kSum && reader.other == value;
    });
  }

  // Sums over the rows so far, then loss, logsumexp and the products that have these rows. An empty sum begins.
  Tensors one_chunk(std::span<const Tensor> sums, std::span<const Tensor> whole,
                    std::span<const Tensor> rows) const {
    const Node& product = graph_.node(head_.product);
    const Node& loss = graph_.node(head_.loss);
    Tensors operands{rows[x_]};
    for (size_t i = 1; i < product.inputs.size(); ++i) {
      operands.push_back(whole[whole_.find(product.inputs[i])]);
    }
    const Tensor logits =
        same(product, operands, product.attrs.with("dims", to_text(head_.dims)))[0];
    const Tensors losses = same(loss, {logits, rows[targets_]}, loss.attrs);
    Tensors result;
    Tensors of_rows(losses);
    if (head_.gradient) {
      const Node& gradient = graph_.node(*head_.gradient);
      const Tensor dlogits =
          same(gradient, {rows[g_], logits, rows[targets_], losses[1]}, gradient.attrs)[0];
      size_t sum = 0;
      for (size_t i = 0; i < head_.readers.size(); ++i) {
        const Reader& reader = head_.readers[i];
        const Node& node = graph_.node(reader.id);
        const NameScope scope = NameScope::absolute(node.scope);
        if (reader.kind == Reader::Kind::kRowSum) {
          const Tensor total = mstrain::sum(dlogits, {0});
          const Tensor& before = sums[sum++];
          result.push_back(before ? before + total : total);
          continue;
        }
        const Tensor& other = (reader.kind == Reader::Kind::kRows ? whole : rows)[others_[i]];
        Tensors factors{other, other};
        factors[reader.logits] = dlogits;
        Attrs attrs{{"dims", to_text(reader.dims)}};
        if (reader.kind == Reader::Kind::kSum) {
          const Tensor& before = sums[sum++];
          if (before) {
            factors.push_back(before);
            attrs = with_epilogue(attrs, "add");
          }
        }
        (reader.kind == Reader::Kind::kRows ? of_rows : result)
            .push_back(apply(kDotGeneral, factors, attrs, node.where)[0]);
      }
    }
    result.insert(result.end(), of_rows.begin(), of_rows.end());
    return result;
  }

  static Tensors same(const Node& node, const Tensors& inputs, const Attrs& attrs) {
    const NameScope scope = NameScope::absolute(node.scope);
    return apply(*node.op, inputs, attrs, node.where);
  }

  Result collected(const Tensors& begun, const Tensors& out, size_t carries) const {
    size_t next = carries;
    // [first, …] and [loops, chunk, …] as [rows, …]
    const auto joined = [&](const Shape& shape) {
      const Tensor& head = begun[next];
      const Tensor& rest = out[next++];
      const Tensors parts{head, flatten(rest, 0, 1)};
      return shaped(concat(parts, 0), shape);
    };
    const Node& loss = graph_.node(head_.loss);
    Result result;
    for (const TensorType& type : loss.outputs) {
      result.loss.push_back(joined(type.shape));
    }
    size_t sum = 0;
    for (const Reader& reader : head_.readers) {
      const Node& node = graph_.node(reader.id);
      const NameScope scope = NameScope::absolute(node.scope);
      const Tensor value =
          reader.kind == Reader::Kind::kRows ? joined(node.outputs[0].shape) : out[sum++];
      result.readers.push_back(value);
    }
    return result;
  }

  const Graph& graph_;
  const Head& head_;
  const std::vector<Tensors>& rebuilt_;
  Operands by_row_, whole_;
  size_t x_ = 0, targets_ = 0, g_ = 0;
  std::vector<size_t> others_;  // by reader
};

// The graph's nodes such that what a head needs comes before its loss.
std::vector<NodeId> order_for(const Graph& graph, const std::vector<Head>& heads) {
  std::vector<NodeId> order;
  std::vector<bool> placed(graph.size(), false);
  const auto place = [&](NodeId id) {
    if (!placed[id]) {
      placed[id] = true;
      order.push_back(id);
    }
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (const Head& head : heads) {
      if (head.loss == id) {
        std::for_each(head.before.begin(), head.before.end(), place);
      }
    }
    place(id);
  }
  return order;
}

}  // namespace

GraphPtr chunk_loss(const Graph& graph, int64_t chunks) {
  const std::vector<Head> heads = find_loss_heads(graph, chunks);
  std::map<const Node*, Tensor> made;
  return rewrite(
      graph,
      [&](const RewriteNode& it) -> std::optional<Tensors> {
        for (const Head& head : heads) {
          if (&graph.node(head.loss) == &it.node) {
            const Chunker::Result result = Chunker(graph, head, it.rebuilt).run();
            for (size_t i = 0; i < head.readers.size(); ++i) {
              made[&graph.node(head.readers[i].id)] = result.readers[i];
            }
            return result.loss;
          }
          for (const Reader& reader : head.readers) {
            if (&graph.node(reader.id) == &it.node) {
              const Tensor& value = made.at(&it.node);
              const bool adds = reader.addend && !reader.adds_in_place;
              return Tensors{adds ? value + it.inputs[2] : value};
            }
          }
        }
        return std::nullopt;
      },
      order_for(graph, heads));
}

}  // namespace mstrain
