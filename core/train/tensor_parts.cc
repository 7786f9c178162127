#include "core/train/tensor_parts.h"

#include "core/compile/partition.h"
#include "core/compile/relayout.h"
#include "core/ops/attention_form.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr int kPositions = 1;  // the dim of them
constexpr int64_t kPieces =
    2;  // of products with parallel.overlap.tensor: more of them are slower each

MeshAxis axis_of(std::string_view name, int64_t planned, const Context& context) {
  return {std::string(name), context.ranks != nullptr ? context.ranks->mesh().size(name) : planned};
}

[[noreturn]] void refuse(std::string_view key, std::string_view why) {
  throw ConfigError(fmt::format("{}: {}", key, why));
}

// "6 or 8", next to `size`
std::string multiples(int64_t size, int64_t of) {
  const int64_t below = size / of * of;
  return fmt::format("{}{}", below > 0 ? fmt::format("{} or ", below) : "", below + of);
}

std::string_view way_named(ContextWay way) {
  constexpr std::string_view kNames[] = {"", kExchangeWay, kGatherWay, kRingWay};
  return kNames[static_cast<size_t>(way)];
}

// What there is of a sample, and not of each of its positions, all ranks have.
Placement by_positions(const TensorType& type) {
  return type.shape.rank() > kPositions ? sharded(kPositions) : kReplicated;
}

Layout layout_of(const ParamSpec& spec) {
  return {spec.shared_dim ? sharded(*spec.shared_dim) : kReplicated};
}

}  // namespace

TensorParts::TensorParts(const TrainTask& task, const TrainConfig& config, const Context& context)
    : axis_(axis_of(kTensorAxis, config.parallel.tensor, context)),
      context_(axis_of(kContextAxis, config.parallel.context, context)),
      way_(config.parallel.context_way),
      inside_(task.positions_inside),
      pieces_(config.parallel.overlap.tensor ? kPieces : 1),
      stream_(task.stream),
      positions_(0),
      trained_(task.parameters.size()),
      whole_(task.parameters) {
  whole_.insert(whole_.end(), task.frozen.begin(), task.frozen.end());
  check_positions(task, config);
  if (!shares()) {
    held_ = whole_;
    return;
  }
  for (ParamSpec& spec : whole_) {
    if (spec.parts == PartsOfDim::kWholeIfFewer && spec.shared_dim) {
      const int64_t size = spec.type.shape[*spec.shared_dim];
      if (size < axis_.size && axis_.size % size == 0) {
        spec.shared_dim.reset();
      }
    }
  }
  check_shared(config);
  held_ = whole_;
  const int64_t length = task.positions.size() == 1 ? task.positions[0] : 0;
  if (config.parallel.sequence_parallel.value_or(length % ranks() == 0)) {
    positions_ = length / context_.size;
  }
  for (ParamSpec& spec : held_) {
    if (spec.shared_dim) {
      const Shape whole = spec.type.shape;
      spec.type = part_of(spec.type, sharded(*spec.shared_dim), axis_.size);
      shared_.emplace(spec.name, Shared{*spec.shared_dim, whole, spec.type.shape});
    }
  }
}

void TensorParts::check_shared(const TrainConfig& config) const {
  const auto with = fmt::format("with parallel.tensor {}", axis_.size);
  if (config.optimizer.type == OptimizerType::kLamb) {
    refuse("optimizer.type", "lamb needs norms of whole weights; say adamw " + with);
  }
  if (config.optimizer.type == OptimizerType::kMuon) {
    refuse("optimizer.type", "muon takes whole matrices apart; say adamw " + with);
  }
  if (config.precision.moments != MomentType::kFp32) {
    refuse("precision.moments", "say fp32 " + with);
  }
  if (config.precision.params != FloatType::kFp32 && !config.precision.has_master()) {
    refuse("precision.master", "say fp32 " + with);
  }
  bool any = false;
  for (const ParamSpec& spec : whole_) {
    any = any || spec.shared_dim.has_value();
    const int64_t size = spec.shared_dim ? spec.type.shape[*spec.shared_dim] : 0;
    if (size % axis_.size != 0 && spec.parts != PartsOfDim::kFilledUp) {
      int64_t fewer = axis_.size - 1;
      while (size % fewer != 0) {
        --fewer;
      }
      refuse("parallel.tensor",
             fmt::format("{} ranks do not divide the {} of dim {} of {} {}; say {}, or make it {}",
                         axis_.size, size, *spec.shared_dim, spec.name, to_string(spec.type.shape),
                         fewer, (size / axis_.size + 1) * axis_.size));
    }
  }
  if (!any) {
    refuse("parallel.tensor", "this model does not say what ranks can share of it; say 1");
  }
}

void TensorParts::check_positions(const TrainTask& task, const TrainConfig& config) const {
  if (shares() && config.parallel.sequence_parallel.value_or(false)) {
    constexpr const char* kKey = "parallel.sequence_parallel";
    if (task.positions.size() != 1) {
      refuse(kKey, "ranks cannot share the positions of this task's samples; say auto");
    }
    if (task.positions[0] % ranks() != 0) {
      refuse(kKey, fmt::format("{} ranks do not divide {} positions; take {}", ranks(),
                               task.positions[0], multiples(task.positions[0], ranks())));
    }
  }
  std::vector<int64_t> lengths = task.positions;
  if (inside_ > 0) {
    lengths.push_back(inside_);
  }
  if (context_.size > 1 && lengths.empty()) {
    refuse("parallel.context", "ranks cannot share the positions of this task's samples; say 1");
  }
  for (const int64_t positions : lengths) {
    if (context_.size > positions) {
      refuse("parallel.context", fmt::format("{} ranks cannot share {} positions; say {} at most",
                                             context_.size, positions, positions));
    }
  }
}

std::optional<TensorParts::Shared> TensorParts::shared(const std::string& name) const {
  const auto found = shared_.find(name);
  return found == shared_.end() ? std::nullopt : std::optional(found->second);
}

Params TensorParts::cut(Params whole) const {
  for (const auto& [name, shared] : shared_) {
    if (const Tensor* const found = whole.find(name)) {
      const Tensor value = *found;
      whole.set(name, copy(relayout(value, value.type(), kReplicated, sharded(shared.dim), axis_)));
    }
  }
  return whole;
}

Params TensorParts::whole(Params parts) const {
  for (const auto& [name, shared] : shared_) {
    if (const Tensor* const found = parts.find(name)) {
      const Tensor part = *found;
      parts.set(name, relayout(part, {part.dtype(), shared.whole}, sharded(shared.dim), kReplicated,
                               axis_));
    }
  }
  return parts;
}

Tensors TensorParts::own_positions(Tensors batch) const {
  if (context_.size > 1 && inside_ == 0) {
    for (Tensor& x : batch) {
      x = relayout(x, x.type(), kReplicated, by_positions(x.type()), context_);
    }
  }
  return batch;
}

GraphPtr TensorParts::divided(const GraphPtr& program, const Inputs& inputs, size_t sums) const {
  GraphPtr out = program;
  if (context_.size > 1) {
    PartitionOptions options;
    options.inputs.resize(inputs.weights);
    if (inside_ > 0) {
      options.scattered_along = context_.name;
      options.stream = {{inputs.rows, inside_}, kPositions, /*dealt_out=*/true};
    } else {
      for (size_t i = 0; i < inputs.batch; ++i) {
        const TensorType& type = out->type(out->inputs()[inputs.weights + i]);
        options.inputs.push_back(Layout{by_positions(type)});
      }
    }
    options.outputs.assign(out->outputs().size(), Layout{kReplicated});
    options.way = way_named(way_);
    options.way_key = "parallel.context_way";
    out = partition(*out, Mesh{{context_}}, options).program;
  }
  if (!shares()) {
    return out;
  }
  PartitionOptions options;
  options.outputs.assign(sums, Layout{kReplicated});
  const bool has_gradients = out->outputs().size() > sums;
  for (size_t i = 0; i < whole_.size(); ++i) {
    options.inputs.push_back(layout_of(whole_[i]));
    if (has_gradients && i < trained_) {
      options.outputs.emplace_back(options.inputs.back());
    }
  }
  options.outputs.resize(out->outputs().size(), Layout{kReplicated});
  if (positions_ > 0) {
    const Shape stream =
        stream_ && has_gradients ? stream_(inputs.rows) : Shape{inputs.rows, positions_};
    if (stream[kPositions] % axis_.size == 0) {
      options.scattered_along = axis_.name;
      options.stream = {stream, kPositions};
    }
  }
  options.pieces = pieces_;
  return partition(*out, Mesh{{axis_}}, options).program;
}

Tensors TensorParts::summed_squares(Tensors squares, const Params& of) const {
  Tensors shared;
  for (size_t i = 0; i < of.size(); ++i) {
    if (shared_.contains(of.name(i))) {
      shared.push_back(expand_dims(cast(squares[i], Dtype::kF32), 0));
    }
  }
  if (shared.empty()) {
    return squares;
  }
  const Tensor sums = all_reduce(concat(shared, 0), axis_);
  int64_t next = 0;
  for (size_t i = 0; i < of.size(); ++i) {
    if (shared_.contains(of.name(i))) {
      squares[i] = cast(select(sums, 0, next++), squares[i].dtype());
    }
  }
  return squares;
}

}  // namespace mstrain
