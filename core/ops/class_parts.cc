#include "core/ops/class_parts.h"

#include <array>

#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/layouts.h"
#include "core/ops/shape.h"

namespace mstrain {

ClassPart part_of_classes(const Tensor& targets, int64_t ignore_index, int64_t own, int64_t classes,
                          const MeshAxis& axis) {
  ClassPart part;
  part.first = layout::first_of_part(own, axis);
  const Tensor from = broadcast_to(cast(part.first, targets.dtype()), targets.shape());
  const Tensor local = targets - from;
  part.counted = not_equal(targets, static_cast<double>(ignore_index));
  part.mine = logical_and(part.counted, logical_and(local >= 0, local < static_cast<double>(own)));
  const Tensor valid = logical_and(targets >= 0, targets < static_cast<double>(classes));
  // A target that is no class is one of no part either: its kernel refuses it.
  const Tensor refused = where(targets < 0, targets, targets + 1);
  const Tensor foreign = where(valid, static_cast<double>(own), refused);
  part.targets = where(part.mine, local, where(part.counted, foreign, targets));
  return part;
}

ClassLosses losses_of_all(const ClassPart& part, const Tensor& loss, const Tensor& logsumexp,
                          const MeshAxis& axis) {
  const Tensor zero = zeros_like(logsumexp);
  const Tensor top = all_reduce(logsumexp, axis, Reduction::kMax);
  const Tensor of_all = top + log(all_reduce(exp(logsumexp - top), axis));
  const Tensor target_logit = all_reduce(where(part.mine, logsumexp - loss, zero), axis);
  return {where(part.counted, of_all - target_logit, zero), of_all};
}

Tensor cross_entropy_by_parts(const Tensor& logits, const Tensor& targets, const MeshAxis& axis) {
  const int last = logits.rank() - 1;
  const int64_t classes = logits.dim(last);
  const Tensor own =
      layout::without_filling(layout::own_part(logits, last, axis), last, classes, axis, kUnseen);
  const CrossEntropyOptions options;
  const ClassPart part =
      part_of_classes(targets, options.ignore_index, own.dim(last), classes, axis);
  std::vector<int64_t> more(static_cast<size_t>(last), 0);
  const Shape none(more);
  const Tensor seen = pad(own, none.with_inserted(last, 0), none.with_inserted(last, 1), kUnseen);
  const Attrs attrs{{"ignore_index", options.ignore_index},
                    {"label_smoothing", options.label_smoothing}};
  const Tensors of_own =
      apply(kCrossEntropy, std::array{seen, part.targets}, attrs, SourceLocation::current());
  return losses_of_all(part, of_own[0], of_own[1], axis).loss;
}

}  // namespace mstrain
