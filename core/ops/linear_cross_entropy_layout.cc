// How ranks share a head with its loss: by rows, or each with a range of the vocabulary.
//
// Of a range a rank computes its own loss (class_parts.h); the class that nobody sees is a row of zeros with a bias, and gives the gradient of
// rows whose target another rank has no share in the rank's own classes. What ranks exchange is a few numbers of each row: logsumexp, the logit
// of the target and that of the likeliest class. Logits never leave a rank.
#include <array>

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/class_parts.h"
#include "core/ops/collective.h"
#include "core/ops/elementwise.h"
#include "core/ops/index.h"
#include "core/ops/layouts.h"
#include "core/ops/linear_cross_entropy.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain::linear_head {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();
constexpr int kWhole = layout::kWhole;

struct VocabularyPart {
  Tensor weight, bias;  // with the class that nobody sees
  ClassPart classes;
};

int class_dim(const Attrs& attrs) { return attrs.flag("transpose_weight") ? 0 : 1; }

// `classes`: of the whole vocabulary, which the parts may exceed.
VocabularyPart part_of_vocabulary(const Attrs& attrs, const Tensor& weight, const Tensor& bias,
                                  const Tensor& targets, int64_t classes, const MeshAxis& axis) {
  const int dim = class_dim(attrs);
  const int64_t own = weight.dim(dim);
  VocabularyPart part;
  part.classes = part_of_classes(targets, attrs.integer("ignore_index"), own, classes, axis);

  const Tensor filled_up = layout::without_filling(weight, dim, classes, axis);
  Shape high{0, 0};
  high[dim] = 1;
  part.weight = pad(filled_up, {0, 0}, high);

  const Tensor index = iota({own}, 0) + broadcast_to(part.classes.first, {own});
  const Tensor given = bias.defined() ? bias : zeros({weight.dtype(), {own}});
  part.bias = pad(where(index < static_cast<double>(classes), given, kUnseen), {0}, {1}, kUnseen);
  return part;
}

// (x, w, targets[, b]) -> (loss, logsumexp, best)
Tensors losses_of_part(const Attrs& attrs, std::span<const Tensor> in, int64_t classes,
                       const MeshAxis& axis) {
  const Tensor& x = in[0];
  const VocabularyPart part =
      part_of_vocabulary(attrs, in[1], in.size() > 3 ? in[3] : Tensor(), in[2], classes, axis);
  const Tensors own =
      apply(kLinearCrossEntropy, std::array{x, part.weight, part.classes.targets, part.bias}, attrs,
            kHere);
  const auto [loss, logsumexp] = losses_of_all(part.classes, own[0], own[1], axis);

  // The likeliest class of all ranks is the likeliest of the rank whose logit for it is the greatest, the first of equals.
  const int dim = class_dim(attrs);
  const Tensor by_class = dim == 0 ? part.weight : transpose(part.weight);
  const Tensor best_logit = sum(widened(x) * widened(gather(by_class, own[2], 0)), {-1}) +
                            cast(gather(part.bias, own[2], 0), logsumexp.dtype());
  const Tensor far = full(own[2].shape(), static_cast<double>(classes), Dtype::kI32);
  const Tensor here = equal(best_logit, all_reduce(best_logit, axis, Reduction::kMax));
  const Tensor best =
      all_reduce(where(here, own[2] + broadcast_to(part.classes.first, own[2].shape()), far), axis,
                 Reduction::kMin);
  return {loss, logsumexp, best};
}

// (g, x, w, targets, logsumexp[, b]) -> (dx, dw[, db])
Tensors gradients_of_part(const Attrs& attrs, std::span<const Tensor> in, int64_t classes,
                          const MeshAxis& axis) {
  const VocabularyPart part =
      part_of_vocabulary(attrs, in[2], in.size() > 5 ? in[5] : Tensor(), in[3], classes, axis);
  Tensors gradients = apply(
      kLinearCrossEntropyGrad,
      std::array{in[0], in[1], part.weight, part.classes.targets, in[4], part.bias}, attrs, kHere);
  const int dim = class_dim(attrs);
  const int64_t own = in[2].dim(dim);
  gradients[1] = slice(gradients[1], dim, 0, own);
  gradients[2] = slice(gradients[2], 0, 0, own);
  gradients.resize(in.size() > 5 ? 3 : 2);
  return gradients;
}

// Of rows along `dim`, of which there are `rows`: the targets, input `at`, of what fills up the last part are ignored. Null
// where the ranks divide them.
PartProgram ignoring_filling(const LayoutRequest& request, size_t at, int dim) {
  const int64_t rows = request.inputs[at].shape[dim];
  if (rows % request.axis.size == 0) {
    return nullptr;
  }
  return [at, dim, rows, attrs = request.attrs, &op = request.op](std::span<const Tensor> parts,
                                                                  const MeshAxis& axis) {
    Tensors in(parts.begin(), parts.end());
    in[at] = layout::without_filling(in[at], dim, rows, axis,
                                     static_cast<double>(attrs.integer("ignore_index")));
    return apply(op, in, attrs, kHere);
  };
}

// Smoothed targets see every class, and an ignored class may be one of the vocabulary.
bool shares_classes(const LayoutRequest& request, int64_t classes) {
  const int64_t ignored = request.attrs.integer("ignore_index");
  return request.attrs.number("label_smoothing") == 0 && (ignored < 0 || ignored > classes);
}

}  // namespace

std::vector<Way> ways(const LayoutRequest& request) {
  std::vector<Way> ways;
  const bool biased = request.inputs.size() > 3;
  for (int i = 0; i < request.inputs[2].shape.rank(); ++i) {
    const int inputs[] = {i, kWhole, i, kWhole};
    ways.push_back(
        layout::by_dims(request, std::span(inputs).first(biased ? 4 : 3), std::array{i, i, i}));
    ways.back().uneven = true;
    ways.back().program = ignoring_filling(request, 2, i);
  }
  const int dim = class_dim(request.attrs);
  const int64_t classes = request.inputs[1].shape[dim];
  if (shares_classes(request, classes)) {
    const int inputs[] = {kWhole, dim, kWhole, 0};
    Way way = layout::by_dims(request, std::span(inputs).first(biased ? 4 : 3),
                              std::array{kWhole, kWhole, kWhole});
    way.uneven = true;
    way.program = [attrs = request.attrs, classes](std::span<const Tensor> in,
                                                   const MeshAxis& axis) {
      return losses_of_part(attrs, in, classes, axis);
    };
    ways.push_back(std::move(way));
  }
  return ways;
}

std::vector<Way> ways_of_gradient(const LayoutRequest& request) {
  std::vector<Way> ways;
  const bool biased = request.inputs.size() > 5;
  for (int i = 0; i < request.inputs[3].shape.rank(); ++i) {
    const int inputs[] = {i, i, kWhole, i, i, kWhole};
    const int outputs[] = {i, kWhole, kWhole};
    ways.push_back(layout::by_dims(request, std::span(inputs).first(biased ? 6 : 5),
                                   std::span(outputs).first(biased ? 3 : 2)));
    ways.back().uneven = true;
    ways.back().program = ignoring_filling(request, 3, i);
    for (size_t output = 1; output < request.outputs.size(); ++output) {
      ways.back().outputs[output] = partial();
    }
  }
  const int dim = class_dim(request.attrs);
  const int64_t classes = request.inputs[2].shape[dim];
  if (shares_classes(request, classes)) {
    const int inputs[] = {kWhole, kWhole, dim, kWhole, kWhole, 0};
    const int outputs[] = {kWhole, dim, 0};
    Way way = layout::by_dims(request, std::span(inputs).first(biased ? 6 : 5),
                              std::span(outputs).first(biased ? 3 : 2));
    way.outputs[0] = partial();
    way.uneven = true;
    way.program = [attrs = request.attrs, classes](std::span<const Tensor> in,
                                                   const MeshAxis& axis) {
      return gradients_of_part(attrs, in, classes, axis);
    };
    ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace mstrain::linear_head
