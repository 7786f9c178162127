// What ranks along `tensor` share: of weights that ParamSpec::shared_dim names each holds a part, and programs of steps are
// divided by that (core/compile/partition.h).
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

  bool shares() const { return axis_.size > 1; }
  const MeshAxis& axis() const { return axis_; }
  // The dim of a parameter that is shared; none: every rank has all of it.
  std::optional<int> dim_of(const std::string& name) const;
  // The task's parameters as a rank has them.
  const std::vector<ParamSpec>& held() const { return held_; }

  // This rank's parts of parameters, and the whole again. Every rank calls them.
  Params cut(Params whole) const;
  Params whole(Params parts) const;

  // `program` of one rank, whose first inputs are the parameters, as that of each. `sums`: outputs, the first, that all ranks
  // want whole; the parameters' gradients follow, or nothing. `rows`: the samples of its batch.
  GraphPtr divided(const GraphPtr& program, size_t sums, int64_t rows) const;
  // Of all ranks' parts, where these are squares of what each has of the parameters.
  Tensors summed_squares(Tensors squares) const;

 private:
  void check_shared(const TrainTask& task, const TrainConfig& config) const;

  MeshAxis axis_;
  int64_t positions_;  // dealt out between the products; 0: none are
  std::vector<ParamSpec> whole_, held_;
  std::map<std::string, int, std::less<>> dims_;
};

}  // namespace mstrain
