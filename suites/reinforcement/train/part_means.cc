#include "suites/reinforcement/train/part_means.h"

#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/ops/slicing.h"
#include "core/tensor/tree.h"

namespace mstrain::reinforcement {

void PartMeans::add(const Params& gradients, const NamedNumbers& measures) {
  Tensors flat;
  int64_t elements = 0;
  const auto append = [&](const Tensor& value) {
    flat.push_back(reshape(value, {value.elements()}));
    elements += value.elements();
  };
  for (const Tensor& each : flatten_tree(gradients)) {
    append(each);
  }
  for (const auto& [name, number] : measures) {
    append(number);
  }
  if (const int64_t rest = elements % axis_.size; rest != 0) {
    append(zeros({Dtype::kF32, {axis_.size - rest}}));
  }
  const Tensor all = concat(flat, 0);
  if (axis_.size == 1) {
    sum_ = turns_ == 0 ? all : sum_ + all;
  } else {
    sum_ = turns_ == 0 ? reduce_scatter(all, axis_, 0)
                       : reduce_scatter(all, axis_, 0, Reduction::kSum, sum_);
  }
  ++turns_;
}

void PartMeans::finish(Params& gradients, NamedNumbers& measures) const {
  const Tensor sum = axis_.size == 1 ? sum_ : all_gather(sum_, axis_, 0);
  const Tensor mean = sum * (1.0 / static_cast<double>(turns_ * axis_.size));
  int64_t begin = 0;
  const auto next = [&](const Tensor& like) {
    const int64_t end = begin + like.elements();
    Tensor part = reshape(mean[{Slice{begin, end}}], like.shape());
    begin = end;
    return part;
  };
  Tensors means;
  for (const Tensor& each : flatten_tree(gradients)) {
    means.push_back(next(each));
  }
  gradients = with_leaves(gradients, means);
  for (auto& [name, number] : measures) {
    number = next(number);
  }
}

Tensor of_all_parts(int64_t learners, std::span<const Tensor> own) {
  Tensors turns;
  for (const Tensor& each : own) {
    turns.push_back(
        learners == 1 ? each : all_gather(each, MeshAxis{std::string(kDataAxis), learners}, 0));
  }
  return turns.size() == 1 ? turns.front() : concat(turns, 0);
}

}  // namespace mstrain::reinforcement
