#include "suites/transformer/text/shared_model.h"

#include "core/compile/partition.h"
#include "core/ops/class_parts.h"
#include "core/ops/elementwise.h"

namespace mstrain {
namespace {

constexpr std::string_view kParams = "0.";  // what paths of weights begin with
constexpr int kHeads = 2;                   // the dim of them in keys and values

}  // namespace

SharedModel::SharedModel(const CausalModel& model, const TensorParts& parts)
    : parts_(parts), shares_keys_(model.key_heads() % parts.axis().size == 0) {}

Placement SharedModel::placement_of(const std::string& path) const {
  if (path.starts_with(kParams)) {
    const auto shared = parts_.shared(path.substr(kParams.size()));
    return shared ? sharded(shared->dim) : kReplicated;
  }
  const bool is_kept =
      path.find("keys.") != std::string::npos || path.find("values.") != std::string::npos;
  return is_kept && shares_keys_ ? sharded(kHeads) : kReplicated;
}

Tensors SharedModel::divided(const Tensors& given, const Paths& paths, const Traced& f) const {
  PartitionOptions options;
  Types whole;
  for (size_t i = 0; i < given.size(); ++i) {
    const Placement placement = placement_of(paths[i]);
    options.inputs.push_back(Layout{placement});
    whole.push_back(given[i].type());
    if (paths[i].starts_with(kParams) && placement.sharded()) {
      whole.back().shape = parts_.shared(paths[i].substr(kParams.size()))->whole;
    } else if (placement.sharded()) {
      whole.back().shape[placement.dim] *= parts_.axis().size;
    }
  }
  Paths of_results;
  Tensors captures;
  const GraphPtr graph = trace_program(
      whole, [&](std::span<const Tensor> in) { return f(in, &of_results); }, &captures);
  for (const std::string& path : of_results) {
    options.outputs.emplace_back(Layout{placement_of(path)});
  }
  Tensors inputs = given;
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  return replay(*partition(*graph, Mesh{{parts_.axis()}}, options).program, inputs);
}

Tensor SharedModel::log_probs(const Tensor& logits, const Tensor& targets) const {
  return -cross_entropy_by_parts(logits, targets, parts_.axis());
}

}  // namespace mstrain
