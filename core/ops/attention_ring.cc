// The way in which ranks share attention by queries and by keys: a ring.
//
// Each rank has as many queries and keys as the others. Keys, values and what belongs to them go once around, from each rank to
// the next, while the rank works on those that it has: an application on its queries and these keys, placed by how far the
// pieces of positions are apart (ring_positions.h). Results are joined by their logsumexps (Liu et al. 2023, "Ring Attention with Blockwise Transformers"). The
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
#include "core/ops/random_draw.h"
#include "core/ops/reduce.h"
#include "core/ops/ring_positions.h"
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

// And those that belong to queries. Positions are dim 1 of both.
std::vector<size_t> inputs_of_queries(const AttentionForm& form) {
  return form.segments == 0 ? std::vector<size_t>{0} : std::vector<size_t>{0, form.segments};
}

std::vector<int> input_dims(const AttentionForm& form) {
  std::vector<int> dims(form.inputs, layout::kWhole);
  for (const auto& inputs : {inputs_of_keys(form), inputs_of_queries(form)}) {
    for (const size_t input : inputs) {
      dims[input] = 1;
    }
  }
  return dims;
}

// Of all ranks together.
struct Lengths {
  explicit Lengths(std::span<const TensorType> in)
      : queries(in[0].shape[1]), keys(in[1].shape[1]) {}
  int64_t queries, keys;
};

// Keys as they come by, and what of them meets what of this rank's queries.
class Ring {
 public:
  // `parts`: of the inputs of the forward pass.
  Ring(const Attrs& attrs, std::span<const Tensor> parts, const Lengths& whole,
       const MeshAxis& axis)
      : attrs_(attrs),
        in_(parts.begin(), parts.end()),
        form_(attrs, types_of(parts)),
        axis_(axis),
        positions_(form_.causal && form_.start == 0 && whole.queries == whole.keys &&
                       whole.queries % (2 * axis.size) == 0,
                   axis),
        before_(whole.keys - whole.queries),
        past_end_(whole.keys % axis.size != 0 || whole.queries % axis.size != 0) {
    if (whole.keys % axis.size != 0) {
      mask_filling(whole.keys);
    }
    if (form_.repeated != 0) {  // tiles begin within them
      in_[form_.repeated] = zeros(in_[form_.repeated].type());
    }
    for (const size_t input : inputs_of_keys(form_)) {
      in_[input] = positions_.dealt(in_[input], 1);
    }
    for (const size_t input : inputs_of_queries(form_)) {
      in_[input] = positions_.dealt(in_[input], 1);
    }
  }

  const RingPositions& positions() const { return positions_; }

  // An application to pieces of this rank's queries and of the keys that are here.
  struct Tile {
    int64_t query_piece, key_piece;
    Tensors inputs;
    Attrs attrs;
  };
  // Of the next hop, from 0 on; the keys of the one after that set out when `after` is there, so that a rank has no more than
  // two others' keys at a time, and a gradient does not keep those that the forward pass had.
  std::vector<Tile> next(const Tensor& after) {
    std::vector<Tile> tiles;
    for (int64_t q = 0; q < positions_.pieces(); ++q) {
      for (int64_t k = 0; k < positions_.pieces(); ++k) {
        if (positions_.sees(q, k)) {
          tiles.push_back(tile(q, k));
        }
      }
    }
    if (++hop_ < axis_.size) {
      for (const size_t input : inputs_of_keys(form_)) {
        in_[input] = shift(barrier(std::array{in_[input], after})[0], axis_, 1);
      }
    }
    return tiles;
  }

 private:
  // Keys that fill up the last part are seen by nobody.
  void mask_filling(int64_t keys) {
    const Shape shape{in_[1].dim(0), in_[1].dim(1)};
    const Tensor index = iota(shape, 1) + layout::first_of_part(shape[1], axis_);
    const Tensor seen = less(index, static_cast<double>(keys));
    if (form_.mask != 0) {
      in_[form_.mask] = logical_and(in_[form_.mask], seen);
      return;
    }
    attrs_.set("masked", true);
    form_ = AttentionForm(attrs_, types_of(in_));
    in_.insert(in_.begin() + static_cast<int64_t>(form_.mask), seen);
  }

  Tile tile(int64_t query_piece, int64_t key_piece) const {
    Tile tile{query_piece, key_piece, in_, attrs_};
    Tensors& in = tile.inputs;
    for (const size_t input : inputs_of_queries(form_)) {
      in[input] = positions_.piece(in[input], 1, query_piece);
    }
    for (const size_t input : inputs_of_keys(form_)) {
      in[input] = positions_.piece(in[input], 1, key_piece);
    }
    const Tensor ahead = positions_.rank() - static_cast<double>(hop_);
    const Tensor owner = where(less(ahead, 0), ahead + static_cast<double>(axis_.size), ahead);
    const Tensor first_query = positions_.first_of(positions_.rank(), query_piece, in[0].dim(1));
    const Tensor first_key = positions_.first_of(owner, key_piece, in[1].dim(1));
    if (form_.draw != 0 && past_end_) {
      tile.attrs.set(kPastEnd, true);
    }
    if (form_.draw != 0) {
      in[form_.draw + 1] = in[form_.draw + 1] + layout::offset_along(first_query, 2, 4) +
                           layout::offset_along(first_key, 3, 4);
    }
    const Tensor apart = first_query - first_key;
    if (form_.start != 0) {
      in[form_.start] = in[form_.start] + apart;
    } else if (form_.causal || form_.table != 0) {
      // Unplaced queries are the last ones.
      const Tensor start = broadcast_to(apart + static_cast<double>(before_), {in[0].dim(0)});
      tile.attrs.set("placed", true);
      in.insert(form_.draw != 0 ? in.begin() + static_cast<int64_t>(form_.draw) : in.end(), start);
    }
    return tile;
  }

  Attrs attrs_;
  Tensors in_;
  AttentionForm form_;
  const MeshAxis& axis_;
  RingPositions positions_;
  int64_t before_;  // keys of all ranks before the first query
  bool past_end_;
  int64_t hop_ = 0;
};

// What attention gives for all keys so far: out[b, t, h, e] and lse[b, h, t], both in the type of sums.
struct Joined {
  Tensor out, lse;

  // A query that has seen no key has an lse of -inf, and 0.
  void add(const Tensor& more, const Tensor& more_lse) {
    if (!lse.defined()) {
      out = widened(more);
      lse = more_lse;
      return;
    }
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
               const Lengths& whole, const MeshAxis& axis) {
  Ring ring(attrs, parts, whole, axis);
  const RingPositions& positions = ring.positions();
  std::vector<Joined> joined(static_cast<size_t>(positions.pieces()));
  Tensor done = parts[0];
  for (int64_t hop = 0; hop < axis.size; ++hop) {
    for (const Ring::Tile& tile : ring.next(done)) {
      const Tensors results = apply(op, tile.inputs, tile.attrs, kHere);
      joined[static_cast<size_t>(tile.query_piece)].add(results[0], results[1]);
      done = results[0];
    }
  }
  Tensors outs, lses;
  for (const Joined& piece : joined) {
    outs.push_back(cast(piece.out, parts[0].dtype()));
    lses.push_back(piece.lse);
  }
  return {positions.returned(concat(outs, 1), 1), positions.returned(concat(lses, 2), 2)};
}

// Sums of pieces, which come one by one.
struct PieceSums {
  Tensors pieces;
  void add(int64_t piece, const Tensor& x) {
    Tensor& sum = pieces[static_cast<size_t>(piece)];
    sum = sum.defined() ? sum + widened(x) : widened(x);
  }
};

// Sums travel in the type of sums, and are rounded once.
Tensors around_grad(const OpDef& op, const Attrs& attrs, std::span<const Tensor> parts,
                    const Lengths& whole, const MeshAxis& axis) {
  const auto forward = parts.subspan(1, parts.size() - 3);
  Ring ring(attrs, forward, whole, axis);
  const RingPositions& positions = ring.positions();
  const auto count = static_cast<size_t>(positions.pieces());
  const Tensor g = positions.dealt(layout::without_filling(parts[0], 1, whole.queries, axis), 1);
  const Tensor out = positions.dealt(parts[parts.size() - 2], 1);
  const Tensor lse = positions.dealt(parts.back(), 2);
  PieceSums dq{Tensors(count)};
  PieceSums dtable{Tensors(1)};
  Tensor dk, dv, done = g;
  for (int64_t hop = 0; hop < axis.size; ++hop) {
    PieceSums dk_here{Tensors(count)}, dv_here{Tensors(count)};
    for (const Ring::Tile& tile : ring.next(done)) {
      Tensors inputs{positions.piece(g, 1, tile.query_piece)};
      inputs.insert(inputs.end(), tile.inputs.begin(), tile.inputs.end());
      inputs.push_back(positions.piece(out, 1, tile.query_piece));
      inputs.push_back(positions.piece(lse, 2, tile.query_piece));
      const Tensors gradients = apply(op, inputs, tile.attrs, kHere);
      dq.add(tile.query_piece, gradients[0]);
      dk_here.add(tile.key_piece, gradients[1]);
      dv_here.add(tile.key_piece, gradients[2]);
      if (gradients.size() > 3) {
        dtable.add(0, gradients[3]);
      }
      done = gradients[0];
    }
    const auto with_others = [&](const Tensor& sum, const PieceSums& here) {
      const Tensor all = concat(here.pieces, 1);
      return hop == 0 ? all : shift(sum, axis, 1) + all;
    };
    dk = with_others(dk, dk_here);
    dv = with_others(dv, dv_here);
  }
  const Dtype dtype = parts[1].dtype();
  const auto at_home = [&](const Tensor& sum) {
    return positions.returned(cast(shift(sum, axis, 1), dtype), 1);
  };
  Tensors result{positions.returned(cast(concat(dq.pieces, 1), dtype), 1), at_home(dk),
                 at_home(dv)};
  if (dtable.pieces[0].defined()) {
    result.push_back(cast(dtable.pieces[0], dtype));
  }
  return result;
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
  way.uneven = true;
  way.program = [attrs = request.attrs, whole = Lengths(request.inputs), &op = request.op](
                    std::span<const Tensor> parts, const MeshAxis& axis) {
    return around(op, attrs, parts, whole, axis);
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
  way.uneven = true;
  way.program = [attrs = request.attrs, whole = Lengths(forward), &op = request.op](
                    std::span<const Tensor> parts, const MeshAxis& axis) {
    return around_grad(op, attrs, parts, whole, axis);
  };
  return way;
}

}  // namespace mstrain
