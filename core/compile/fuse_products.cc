#include <map>
#include <set>
#include <unordered_map>

#include "core/compile/passes.h"
#include "core/compile/rewrite.h"
#include "core/ops/dot_general.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// What a value repeats over all but its last dims, in the form of the last dims of `shape`; empty where it does not. A bias
// of h·d elements that is added to [b, t, h·d] after a reshape has the dims [h, d] of the product before it.
Tensor as_last_dims(const Tensor& x, const Shape& shape) {
  const Node* node = producer(x);
  if (node == nullptr || node->op->name != "broadcast") {
    return {};
  }
  const Tensor origin = inputs_of(x)[0];
  int64_t trailing = 1;
  for (int i = 1; i <= origin.rank(); ++i) {
    if (origin.dim(-i) != x.dim(-i) && trailing != origin.elements()) {
      return {};
    }
    trailing *= origin.dim(-i);
  }
  for (int first = shape.rank() - 1; first >= 0; --first) {
    const Shape last(std::span(shape.begin() + first, shape.end()));
    if (last.elements() == origin.elements()) {
      return reshape(origin, last);
    }
  }
  return {};
}

class ProductFuser {
 public:
  ProductFuser(const Graph& graph, bool narrow)
      : graph_(graph), uses_(uses_of(graph)), narrow_(narrow) {}

  // Whether some operation that `may_join` holds for reads a product, alone or not.
  bool has_work(bool (*may_join)(const OpDef&), bool alone) const {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (may_join(*node.op) &&
          std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Value& value) {
            return alone ? is_private_product(value) : graph_.node(value.node).op == &kDotGeneral;
          })) {
        return true;
      }
    }
    return false;
  }

  // add(reshape*(product), broadcast(bias))
  std::optional<Tensors> bias(const RewriteNode& it) const {
    return it.node.op->name == "add" ? either(it, &ProductFuser::with_bias) : std::nullopt;
  }
  // add(reshape*(product), c)
  std::optional<Tensors> addend(const RewriteNode& it) const {
    return it.node.op->name == "add" ? either(it, &ProductFuser::with_addend) : std::nullopt;
  }
  // mul(reshape*(product), constant)
  std::optional<Tensors> scale(const RewriteNode& it) const {
    return it.node.op->name == "mul" ? either(it, &ProductFuser::with_scale) : std::nullopt;
  }
  // activation(reshape*(product))
  std::optional<Tensors> activation(const RewriteNode& it) const {
    const Tensor product = is_product_activation(*it.node.op) ? product_behind(it, 0) : Tensor();
    if (!product.defined() || has(product, Epilogue::Kind::kActivation) ||
        !has_epilogues(product.dtype())) {
      return std::nullopt;
    }
    return appended(it, product, with_epilogue(producer(product)->attrs, it.node.op->name));
  }
  // activation(product), where others read the product: both are results of one.
  std::optional<Tensors> kept(const RewriteNode& it) const {
    if (auto made = further_.find(&it.node); made != further_.end()) {
      return Tensors{made->second};
    }
    if (it.node.op != &kDotGeneral || it.node.outputs.size() > 1 ||
        size_of(it.node.outputs[0].dtype) != 2) {
      return std::nullopt;
    }
    const Node* const activation = one_reader(it.node, is_product_activation);
    if (activation == nullptr || used_once(activation->inputs[0])) {
      return std::nullopt;
    }
    const Tensors made = apply(
        kDotGeneral, it.inputs,
        with_epilogue(with_epilogue(it.node.attrs, "keep"), activation->op->name), it.node.where);
    further_.emplace(activation, made[0]);
    return Tensors{made.back()};
  }
  // derivative(x, reshape*(product))
  std::optional<Tensors> derivative(const RewriteNode& it) const {
    const Tensor product = is_product_gradient(*it.node.op) ? product_behind(it, 1) : Tensor();
    if (!product.defined() || !is_plain(product) || size_of(product.dtype()) != 2) {
      return std::nullopt;
    }
    return appended(it, product, with_epilogue(producer(product)->attrs, it.node.op->name),
                    reshape(it.inputs[0], product.shape()));
  }

 private:
  // Beside a bias.
  bool has_epilogues(Dtype dtype) const {
    return dtype == Dtype::kF32 || (narrow_ && size_of(dtype) == 2);
  }
  // The one of the operations that read `node` which `is_wanted` holds for; null where there is none, or several.
  const Node* one_reader(const Node& node, bool (*is_wanted)(const OpDef&)) const {
    if (readers_.empty()) {
      const std::vector<bool> live = graph_.live();
      for (NodeId id = 0; id < graph_.size(); ++id) {
        for (const Value& value : graph_.node(id).inputs) {
          if (live[id]) {
            readers_[&graph_.node(value.node)].insert(&graph_.node(id));
          }
        }
      }
    }
    const Node* found = nullptr;
    for (const Node* reader : readers_[&node]) {
      if (is_wanted(*reader->op)) {
        if (found != nullptr) {
          return nullptr;
        }
        found = reader;
      }
    }
    return found;
  }

  bool used_once(const Value& value) const { return uses_[value.node][value.output] == 1; }
  bool is_private_product(Value value) const {
    while (used_once(value) && graph_.node(value.node).op->name == "reshape") {
      value = graph_.node(value.node).inputs[0];
    }
    return used_once(value) && graph_.node(value.node).op == &kDotGeneral;
  }

  // The private product behind operand `i`; empty where there is none.
  Tensor product_behind(const RewriteNode& it, size_t i) const {
    Tensor product = it.inputs[i];
    Value value = it.node.inputs[i];
    const Node* node = producer(product);
    while (node != nullptr && node->op->name == "reshape" && used_once(value) &&
           graph_.node(value.node).op->name == "reshape") {
      product = inputs_of(product)[0];
      value = graph_.node(value.node).inputs[0];
      node = producer(product);
    }
    return node != nullptr && node->op == &kDotGeneral && used_once(value) ? product : Tensor();
  }

  // The later operand first: the other one exists when the product runs.
  std::optional<Tensors> either(const RewriteNode& it,
                                std::optional<Tensors> (ProductFuser::*join)(const RewriteNode&,
                                                                             size_t) const) const {
    const size_t later = it.node.inputs[0].node > it.node.inputs[1].node ? 0 : 1;
    auto joined = (this->*join)(it, later);
    return joined ? joined : (this->*join)(it, 1 - later);
  }

  static bool has(const Tensor& product, Epilogue::Kind kind) {
    const std::vector<Epilogue> epilogues = epilogues_of(producer(product)->attrs);
    return std::any_of(epilogues.begin(), epilogues.end(),
                       [&](const Epilogue& epilogue) { return epilogue.kind == kind; });
  }
  static bool is_plain(const Tensor& product) {
    return epilogues_of(producer(product)->attrs).empty();
  }

  static std::optional<Tensors> appended(const RewriteNode& it, const Tensor& product,
                                         const Attrs& attrs, const Tensor& term = {}) {
    const Node& node = *producer(product);
    const PlaceScope place(node.place);  // where most of the time goes
    Tensors inputs = inputs_of(product);
    if (term.defined()) {
      inputs.push_back(term);
    }
    const Tensor joined = apply(kDotGeneral, inputs, attrs, node.where)[0];
    return Tensors{reshape(joined, it.node.outputs[0].shape)};
  }

  std::optional<Tensors> with_bias(const RewriteNode& it, size_t i) const {
    const Tensor product = product_behind(it, i);
    if (!product.defined() || !is_plain(product)) {
      return std::nullopt;
    }
    const Tensor bias = as_last_dims(it.inputs[1 - i], product.shape());
    return bias.defined()
               ? appended(it, product, with_epilogue(producer(product)->attrs, "bias"), bias)
               : std::nullopt;
  }

  std::optional<Tensors> with_scale(const RewriteNode& it, size_t i) const {
    const Tensor product = product_behind(it, i);
    const auto number = constant_value(it.inputs[1 - i]);
    if (!product.defined() || !number || !is_plain(product) || !has_epilogues(product.dtype())) {
      return std::nullopt;
    }
    return appended(it, product,
                    with_epilogue(producer(product)->attrs, "scale").with("scale", *number));
  }

  std::optional<Tensors> with_addend(const RewriteNode& it, size_t i) const {
    const Tensor product = product_behind(it, i);
    if (!product.defined() || has(product, Epilogue::Kind::kAdd) ||
        !has_epilogues(product.dtype())) {
      return std::nullopt;
    }
    // What is read again cannot become the sum; copying it costs what the addition did.
    Value addend = it.node.inputs[1 - i];
    while (used_once(addend) && graph_.node(addend.node).op->name == "reshape") {
      addend = graph_.node(addend.node).inputs[0];
    }
    if (!used_once(addend)) {
      return std::nullopt;
    }
    return appended(it, product, with_epilogue(producer(product)->attrs, "add"),
                    reshape(it.inputs[1 - i], product.shape()));
  }

  const Graph& graph_;
  std::vector<std::vector<int>> uses_;
  const bool narrow_;  // types of 16 bits, too
  mutable std::unordered_map<const Node*, std::set<const Node*>>
      readers_;  // made when first asked for
  // Of operations that come later, what stands in for them: it is made already.
  mutable std::map<const Node*, Tensor> further_;
};

}  // namespace

GraphPtr fuse_products(const Graph& graph, const FuseOptions& options) {
  struct Rule {
    std::string_view name;
    bool (*may_join)(const OpDef& op);
    std::optional<Tensors> (ProductFuser::*join)(const RewriteNode& it) const;
    bool alone = true;
    bool is_narrow = false;  // for types of 16 bits, where the back end has it
  };
  constexpr auto kAdds = [](const OpDef& op) { return op.name == "add"; };
  constexpr auto kMultiplies = [](const OpDef& op) { return op.name == "mul"; };
  constexpr Rule kRules[] = {
      {"bias", kAdds, &ProductFuser::bias},
      {"scale", kMultiplies, &ProductFuser::scale},
      {"activation", is_product_activation, &ProductFuser::activation},
      {"addend", kAdds, &ProductFuser::addend},
      {"kept", is_product_activation, &ProductFuser::kept, false, true},
      {"derivative", is_product_gradient, &ProductFuser::derivative, true, true}};
  GraphPtr result;
  for (const Rule& rule : kRules) {
    const Graph& so_far = result == nullptr ? graph : *result;
    const bool narrow = options.limits.narrow_epilogues;
    const ProductFuser fuser(so_far, narrow);
    if (!options.off.contains(rule.name) && (narrow || !rule.is_narrow) &&
        fuser.has_work(rule.may_join, rule.alone)) {
      result = rewrite(so_far, [&](const RewriteNode& it) { return (fuser.*rule.join)(it); });
    }
  }
  return result == nullptr ? rewrite(graph, [](const RewriteNode&) { return std::nullopt; })
                           : result;
}

}  // namespace mstrain
