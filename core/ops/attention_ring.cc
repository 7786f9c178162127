// The way in which ranks share attention by queries and by keys: a ring.
//
// Each rank has as many queries and keys as the others. Keys, values and what belongs to them go once around, from each rank to
// the next, while the rank works on those that it has: an application on its queries and these keys, placed by how far the
// ranks are apart. Results are joined by their logsumexps (Liu et al. 2023, "Ring Attention with Blockwise Transformers"). The
// gradient needs no joining, as the logsumexp of all keys is known: queries' gradients add up where they are, and those of
// keys and values travel along, one rank behind, and on to whom they belong to.
//
// A bias of pairs of queries and keys has no such way: it is as large as what the ring avoids.
#include <array>
#include <limits>

#include "core/ops/accumulation.h"
#include "core/ops/attention_form.h"
#include "core/ops/build.h"
#include "core/ops/collective.h"
#include "core/ops/control.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

constexpr SourceLocation kHere = SourceLocation::current();

// The inputs of the forward pass that belong to keys.
std::vector<size_t> inputs_of_keys(const AttentionForm& form) {
  std::vector<size_t> inputs{1, 2};
  if (form.mask != 0) {
    inputs.push_back(form.mask);
  }
  if (form.segments != 0) {
    inputs.push_back(form.segments + 1);
  }
  return inputs;
}

std::vector<int> input_dims(const AttentionForm& form) {
  std::vector<int> dims(form.inputs, layout::kWhole);
  dims[0] = 1;
  for (const size_t input : inputs_of_keys(form)) {
    dims[input] = 1;
  }
  if (form.segments != 0) {
    dims[form.segments] = 1;
  }
  return dims;
}

// What a rank has of the keys, hop by hop.
class Ring {
 public:
  // `parts`: of the inputs of the forward pass.
  Ring(const Attrs& attrs, std::span<const Tensor> parts, const MeshAxis& axis)
      : attrs_(attrs),
        in_(parts.begin(), parts.end()),
        form_(attrs, types_of(parts)),
        axis_(axis),
        rank_(axis_index(axis)) {}

  // An application to this rank's queries and the keys of the rank `hop` places before.
  struct Tile {
    Tensors inputs;
    Attrs attrs;
  };
  // Of the next hop, from 0 on; the keys of the one after that set out when `after` is there, so that a rank has no more than
  // two others' keys at a time, and a gradient does not keep those that the forward pass had.
  Tile next(const Tensor& after) {
    Tile tile{in_, attrs_};
    const Tensor before = rank_ - static_cast<double>(hop_);
    const Tensor owner = where(less(before, 0), before + static_cast<double>(axis_.size), before);
    const int64_t queries = in_[0].dim(1);
    const int64_t keys = in_[1].dim(1);
    place(tile, rank_ * static_cast<double>(queries), owner * static_cast<double>(keys));
    if (++hop_ < axis_.size) {
      for (const size_t input : inputs_of_keys(form_)) {
        in_[input] = shift(barrier(std::array{in_[input], after})[0], axis_, 1);
      }
    }
    return tile;
  }

 private:
  void place(Tile& tile, const Tensor& first_query, const Tensor& first_key) const {
    Tensors& in = tile.inputs;
    if (form_.draw != 0) {
      in[form_.draw + 1] = in[form_.draw + 1] + layout::offset_along(first_query, 2, 4) +
                           layout::offset_along(first_key, 3, 4);
    }
    const Tensor apart = first_query - first_key;
    if (form_.start != 0) {
      in[form_.start] = in[form_.start] + apart;
    } else if (form_.causal || form_.table != 0) {
      // Unplaced queries are the last ones.
      const int64_t last = (in[1].dim(1) - in[0].dim(1)) * axis_.size;
      const Tensor start = broadcast_to(apart + static_cast<double>(last), {in[0].dim(0)});
      tile.attrs.set("placed", true);
      in.insert(form_.draw != 0 ? in.begin() + static_cast<int64_t>(form_.draw) : in.end(), start);
    }
  }

  const Attrs& attrs_;
  Tensors in_;
  AttentionForm form_;
  const MeshAxis& axis_;
  Tensor rank_;
  int64_t hop_ = 0;
};

// What attention gives for all keys so far: out[b, t, h, e] and lse[b, h, t], both in the type of sums.
struct Joined {
  Tensor out, lse;

  // A query that has seen no key has an lse of -inf, and 0.
  void add(const Tensor& more, const Tensor& more_lse) {
    const Tensor greatest = maximum(lse, more_lse);
    const Tensor some = greater(greatest, -std::numeric_limits<double>::infinity());
    const Tensor base = where(some, greatest, 0);
    const Tensor mine = exp(lse - base);
    const Tensor theirs = exp(more_lse - base);
    const Tensor total = where(some, mine + theirs, 1);
    out = out * by_query(mine / total) + widened(more) * by_query(theirs / total);
    lse = where(some, log(total) + base, greatest);
  }

  // [b, h, t] -> [b, t, h, 1]
  static Tensor by_query(const Tensor& x) { return expand_dims(transpose(x, {0, 2, 1}), 3); }
};

Tensors around(const OpDef& op, const Attrs& attrs, std::span<const Tensor> parts,
               const MeshAxis& axis) {
  Ring ring(attrs, parts, axis);
  Joined joined;
  Tensor done = parts[0];
  for (int64_t hop = 0; hop < axis.size; ++hop) {
    const Ring::Tile tile = ring.next(done);
    const Tensors results = apply(op, tile.inputs, tile.attrs, kHere);
    done = results[0];
    if (hop == 0) {
      joined = {widened(results[0]), results[1]};
    } else {
      joined.add(results[0], results[1]);
    }
  }
  return {cast(joined.out, parts[0].dtype()), joined.lse};
}

// Sums travel in the type of sums, and are rounded once.
Tensors around_grad(const OpDef& op, const Attrs& attrs, std::span<const Tensor> parts,
                    const MeshAxis& axis) {
  const auto forward = parts.subspan(1, parts.size() - 3);
  Ring ring(attrs, forward, axis);
  Tensor done = parts[0];
  Tensors sums;  // dq, dk, dv[, dtable]
  for (int64_t hop = 0; hop < axis.size; ++hop) {
    const Ring::Tile tile = ring.next(done);
    for (size_t i = 1; hop > 0 && i < 3; ++i) {
      sums[i] = shift(sums[i], axis, 1);
    }
    Tensors inputs{parts[0]};
    inputs.insert(inputs.end(), tile.inputs.begin(), tile.inputs.end());
    inputs.insert(inputs.end(), parts.end() - 2, parts.end());
    const Tensors gradients = apply(op, inputs, tile.attrs, kHere);
    done = gradients[0];
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Tensor more = widened(gradients[i]);
      if (hop == 0) {
        sums.push_back(more);
      } else {
        sums[i] = sums[i] + more;
      }
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const bool of_keys = i == 1 || i == 2;
    sums[i] = cast(of_keys ? shift(sums[i], axis, 1) : sums[i], parts[1].dtype());
  }
  return sums;
}

// Bytes of the inputs that go around, of all ranks.
double bytes_of_keys(const AttentionForm& form, std::span<const TensorType> in) {
  int64_t bytes = 0;
  for (const size_t input : inputs_of_keys(form)) {
    bytes += in[input].bytes();
  }
  return static_cast<double>(bytes);
}

double share_of_others(const MeshAxis& axis) {
  return static_cast<double>(axis.size - 1) / static_cast<double>(axis.size);
}

}  // namespace

std::optional<Way> attention_ring(const LayoutRequest& request) {
  const AttentionForm form(request.attrs, request.inputs);
  if (form.bias != 0) {
    return std::nullopt;
  }
  Way way = layout::by_dims(request, input_dims(form), std::array{1, 2});
  way.name = kRingWay;
  way.bytes = share_of_others(request.axis) * bytes_of_keys(form, request.inputs);
  way.program = [attrs = request.attrs, &op = request.op](std::span<const Tensor> parts,
                                                          const MeshAxis& axis) {
    return around(op, attrs, parts, axis);
  };
  return way;
}

std::optional<Way> attention_grad_ring(const LayoutRequest& request) {
  const auto forward = request.inputs.subspan(1, request.inputs.size() - 3);
  const AttentionForm form(request.attrs, forward);
  if (form.bias != 0) {
    return std::nullopt;
  }
  const std::vector<int> of_forward = input_dims(form);
  std::vector<int> inputs{1};
  inputs.insert(inputs.end(), of_forward.begin(), of_forward.end());
  inputs.insert(inputs.end(), {1, 2});
  std::vector<int> outputs{1, 1, 1};
  outputs.resize(request.outputs.size(), layout::kWhole);
  Way way = layout::by_dims(request, inputs, outputs);
  for (Placement& output : way.outputs) {
    output = output.replicated() ? partial() : output;
  }
  way.name = kRingWay;
  const double sums =
      static_cast<double>(request.outputs[1].elements() + request.outputs[2].elements()) *
      static_cast<double>(size_of(accumulation_dtype(forward[1].dtype)));
  way.bytes = share_of_others(request.axis) * bytes_of_keys(form, forward) + sums;
  way.program = [attrs = request.attrs, &op = request.op](std::span<const Tensor> parts,
                                                          const MeshAxis& axis) {
    return around_grad(op, attrs, parts, axis);
  };
  return way;
}

}  // namespace mstrain
