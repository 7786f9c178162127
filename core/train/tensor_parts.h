// What ranks along `tensor` and `context` share: of weights that ParamSpec::shared_dim names each along `tensor` holds a part, of
// samples each along `context` takes some positions, and programs of steps are divided by that (core/compile/partition.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/comm/mesh.h"
#include "core/ir/tensor.h"
#include "core/runtime/context.h"
#include "core/train/sections.h"
#include "core/train/task.h"

namespace mstrain {

class TensorParts {
 public:
  // Of the context's ranks, or, where it has none, of the layout that is planned. Throws ConfigError where these ranks cannot share
  // the task, naming the nearest choice.
  TensorParts(const TrainTask& task, const TrainConfig& config, const Context& context);

  bool shares() const { return axis_.size > 1; }  // weights
  const MeshAxis& axis() const { return axis_; }
  int64_t ranks() const { return axis_.size * context_.size; }  // neighbours, along tensor first
  // What is shared of a parameter; none: every rank has all of it.
  struct Shared {
    int dim;
    Shape whole, held;  // by each rank: the dim may be filled up
  };
  std::optional<Shared> shared(const std::string& name) const;
  // The task's parameters, and its frozen weights, as a rank has them.
  std::span<const ParamSpec> held() const { return std::span(held_).first(trained_); }
  std::span<const ParamSpec> held_frozen() const { return std::span(held_).subspan(trained_); }

  // This rank's parts of weights, of those that are given, and the whole again. Every rank calls them.
  Params cut(Params whole) const;
  Params whole(Params parts) const;

  // A batch's tensors, which all these ranks have, as divided programs take them.
  Tensors own_positions(Tensors batch) const;

  // `program` of one rank as that of each. Its inputs are `weights`, parameters and frozen ones, then `batch` tensors of `rows`
  // samples, then others. `sums`: outputs, the first, that all ranks want whole; the parameters' gradients follow, and others that all want whole, or nothing.
  struct Inputs {
    size_t weights, batch;
    int64_t rows;
  };
  GraphPtr divided(const GraphPtr& program, const Inputs& inputs, size_t sums) const;
  // Of all ranks' parts, where these are squares of what each has of `of`.
  Tensors summed_squares(Tensors squares, const Params& of) const;

 private:
  void check_shared(const TrainConfig& config) const;
  void check_positions(const TrainTask& task, const TrainConfig& config) const;

  MeshAxis axis_, context_;
  ContextWay way_;
  int64_t inside_;  // positions of samples whose batches have none; 0: batches have them
  int64_t pieces_;  // of products beside exchanges
  std::function<Shape(int64_t rows)> stream_;  // TrainTask::stream
  int64_t positions_;                          // dealt out between the products; 0: none are
  size_t trained_;
  std::vector<ParamSpec> whole_, held_;  // all weights, those that are trained first
  std::map<std::string, Shared, std::less<>> shared_;
};

}  // namespace mstrain
