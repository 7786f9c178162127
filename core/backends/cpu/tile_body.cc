// Programs of the tile machine for the bodies of `fused` operations.
#include <algorithm>

#include "core/backends/cpu/kernels.h"
#include "core/backends/cpu/tile_builder.h"

namespace mstrain::cpu {
namespace {

using Count = TileStep::Count;

TileStep::RowOp row_op_of(std::string_view name) {
  using Op = TileStep::RowOp;
  static const std::map<std::string_view, Op> kNames = {
      {"softmax", Op::kSoftmax},          {"log_softmax", Op::kLogSoftmax},
      {"softmax_grad", Op::kSoftmaxGrad}, {"log_softmax_grad", Op::kLogSoftmaxGrad},
      {"layer_norm", Op::kLayerNorm},     {"layer_norm_grad", Op::kLayerNormGrad},
      {"rms_norm", Op::kRmsNorm},         {"rms_norm_grad", Op::kRmsNormGrad}};
  return kNames.at(name);
}

// Goes through a body and gives each member its steps.
class BodyWalk {
 public:
  explicit BodyWalk(const KernelRequest& request)
      : request_(request),
        body_(*request.attrs.graph("body")),
        extent_{request.attrs.integer("rows"), request.attrs.integer("n")},
        roles_(body_.size()),
        values_(body_.size()),
        live_(body_.live()),
        builder_(request, extent_, find_roles()) {
    for (NodeId id = 0; id < body_.size(); ++id) {
      values_[id].assign(body_.node(id).outputs.size(), -1);
    }
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      results_[body_.outputs()[i]] = static_cast<int>(i);
    }
  }

  TileProgram run() {
    for (NodeId id = 0; id < body_.size(); ++id) {
      if (live_[id] && body_.node(id).op != &kInputOp) {
        add(id);
      }
    }
    for (size_t i = 0; i < body_.outputs().size(); ++i) {
      const Value value = body_.outputs()[i];
      if (!is_sum(value)) {
        builder_.output(operand(value), static_cast<int>(i));
      }
    }
    return builder_.finish();
  }

 private:
  // Whether some member needs rows as a whole.
  bool find_roles() {
    bool whole = false;
    for (NodeId id = 0; id < body_.size(); ++id) {
      const Node& node = body_.node(id);
      if (!live_[id] || node.op == &kInputOp) {
        continue;
      }
      roles_[id] = *fused_role(*node.op, node.attrs, body_.types(node.inputs), node.outputs,
                               extent_, kLongestFusedRow);
      whole = whole || roles_[id] == FusedRole::kSpread || roles_[id] == FusedRole::kFoldRow ||
              roles_[id] == FusedRole::kFoldColumns || roles_[id] == FusedRole::kRow;
    }
    return whole;
  }

  Count count_of(const Value& value) const {
    return body_.type(value).elements() == extent_.elements() ? Count::kFull : Count::kPerRow;
  }

  // A value that only leaves the program.
  bool is_sum(const Value& value) const {
    const Node& node = body_.node(value.node);
    return node.op != &kInputOp && (roles_[value.node] == FusedRole::kFoldColumns ||
                                    roles_[value.node] == FusedRole::kFoldAll ||
                                    is_fused_column_sum(*node.op, value.output));
  }

  int operand(const Value& value, bool parameter = false) {
    if (body_.node(value.node).op != &kInputOp) {
      return values_[value.node][value.output];
    }
    int& held = (parameter ? parameters_ : inputs_)[value.node];
    if (held == 0) {
      const auto& inputs = body_.inputs();
      const auto at =
          static_cast<size_t>(std::find(inputs.begin(), inputs.end(), value) - inputs.begin());
      held = builder_.input(at, parameter ? Count::kParameter : count_of(value)) + 1;
    }
    return held - 1;
  }

  int result_of(const Value& value) const {
    const auto found = results_.find(value);
    return found == results_.end() ? -1 : found->second;
  }

  void add(NodeId id) {
    const Node& node = body_.node(id);
    int& result = values_[id][0];
    const TensorType& type = node.outputs[0];
    switch (roles_[id]) {
      case FusedRole::kConstant:
        result = builder_.constant(node.attrs.number("value"), type.dtype, count_of({id, 0}));
        return;
      case FusedRole::kMove: result = operand(node.inputs[0]); return;
      case FusedRole::kSpread: result = builder_.spread(operand(node.inputs[0])); return;
      case FusedRole::kFoldRow:
        result = builder_.fold_row(operand(node.inputs[0]), node.op->fold, type.dtype);
        return;
      case FusedRole::kFoldColumns:
      case FusedRole::kFoldAll:
        builder_.fold_out(operand(node.inputs[0]), node.op->fold,
                          roles_[id] == FusedRole::kFoldColumns, result_of({id, 0}), type.dtype);
        return;
      case FusedRole::kMap: {
        std::vector<int> operands;
        for (const Value& value : node.inputs) {
          operands.push_back(operand(value));
        }
        result = builder_.map(*node.op, operands, type.dtype, count_of({id, 0}));
        return;
      }
      case FusedRole::kRow: add_row(id); return;
    }
  }

  void add_row(NodeId id) {
    const Node& node = body_.node(id);
    std::vector<int> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      operands.push_back(operand(node.inputs[i], is_fused_parameter(*node.op, i)));
    }
    std::vector<int> sums;
    for (uint32_t i = 0; i < node.outputs.size(); ++i) {
      if (is_fused_column_sum(*node.op, i)) {
        sums.push_back(result_of({id, i}));
      }
    }
    const double eps = node.attrs.find("eps") == nullptr ? 0 : node.attrs.number("eps");
    const std::vector<int> made =
        builder_.row(row_op_of(node.op->name), operands, eps, node.outputs, sums);
    std::copy(made.begin(), made.end(), values_[id].begin());
  }

  const KernelRequest& request_;
  const Graph& body_;
  FusedExtent extent_;
  std::vector<FusedRole> roles_;
  std::vector<std::vector<int>> values_;  // by node, output
  std::vector<bool> live_;
  std::map<NodeId, int> inputs_, parameters_;  // plus one
  std::map<Value, int> results_;
  TileBuilder builder_;
};

}  // namespace

TileProgram body_program(const KernelRequest& request) { return BodyWalk(request).run(); }

}  // namespace mstrain::cpu
