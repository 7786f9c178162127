#include "core/ops/attention_form.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/ops/build.h"

namespace mstrain {
namespace {

void check_operands(std::span<const TensorType> in, const AttentionForm& form) {
  const Dtype dtype = in[0].dtype;
  if (!is_floating(dtype)) {
    throw ShapeError(fmt::format("is not defined for {}", name_of(dtype)),
                     "convert it with cast()");
  }
  const auto expect = [&](const TensorType& type, int rank, const char* hint) {
    if (type.dtype != dtype) {
      throw ShapeError(fmt::format("dtypes differ: {} and {}", name_of(dtype), name_of(type.dtype)),
                       "convert one with cast()");
    }
    if (type.shape.rank() != rank) {
      throw ShapeError(fmt::format("{} does not have {} dims", to_string(type.shape), rank), hint);
    }
  };
  for (const TensorType& type : in.first(3)) {
    expect(type, 4, "q is [batch, queries, heads, dim]");
  }
  if (form.bias != 0) {
    expect(in[form.bias], 4, "a bias is [batch, heads, queries, keys]");
  }
  if (form.table != 0) {
    expect(in[form.table], 3, "a table of relative biases is [batch, buckets, heads]");
  }
}

void check_table(const TensorType& table, const AttentionDims& n, const RelativeBuckets& buckets) {
  const Shape& shape = table.shape;
  if ((shape[0] != 1 && shape[0] != n.b) || shape[2] != n.h) {
    throw ShapeError(
        fmt::format("a table {} of relative biases does not fit {} heads", to_string(shape), n.h),
        "it is [buckets, heads]");
  }
  if (buckets.exact() < 1) {
    throw ShapeError(fmt::format("{} buckets of relative biases are too few", buckets.count),
                     buckets.bidirectional ? "both directions need 4" : "2 are the fewest");
  }
  if (buckets.max_distance <= buckets.exact()) {
    throw ShapeError(
        fmt::format("a greatest distance of {} is not above {}, the distances that have "
                    "a bucket of their own",
                    buckets.max_distance, buckets.exact()));
  }
}

void check_draw(std::span<const TensorType> drawn, const AttentionDims& n, const Attrs& attrs) {
  const double rate = attrs.number("rate");
  attrs.integer("site");
  if (!(rate > 0 && rate < 1)) {
    throw ShapeError(fmt::format("a dropout rate of {} is outside of (0, 1)", rate));
  }
  if (!(drawn[0] == TensorType{Dtype::kU32, {2}}) || !(drawn[1] == TensorType{Dtype::kI32, {4}})) {
    throw ShapeError(fmt::format("the key is {} and the offset {}, not u32[2] and i32[4]",
                                 to_string(drawn[0]), to_string(drawn[1])),
                     "make a key with rng_key()");
  }
  const Shape& whole = attrs.ints("whole");
  const Shape part{n.b, n.h, n.t, n.s};
  bool fits = whole.rank() == 4;
  for (int d = 0; fits && d < 4; ++d) {
    fits = part[d] <= whole[d];
  }
  if (!fits) {
    throw ShapeError(fmt::format("{} is no part of {}", to_string(part), to_string(whole)));
  }
}

}  // namespace

// The logarithm is taken in f32 and its part of the range cut towards zero, as transformers' T5 does it: other roundings move
// distances to other buckets.
int64_t RelativeBuckets::of(int64_t distance) const {
  const int64_t first = bidirectional && distance > 0 ? of_direction() : 0;
  const int64_t size =
      std::min(bidirectional ? std::abs(distance) : std::max<int64_t>(-distance, 0), max_distance);
  if (size < exact()) {
    return first + size;
  }
  const float share = std::log(static_cast<float>(size) / static_cast<float>(exact())) /
                      static_cast<float>(std::log(static_cast<double>(max_distance) /
                                                  static_cast<double>(exact())));
  const auto wide = static_cast<int64_t>(share * static_cast<float>(of_direction() - exact()));
  return first + std::min(exact() + wide, of_direction() - 1);
}

std::vector<int64_t> RelativeBuckets::least_sizes() const {
  std::vector<int64_t> sizes;
  for (int64_t bucket = 0; bucket < of_direction(); ++bucket) {
    int64_t least = std::min(bucket, exact());
    int64_t most = bucket <= exact() ? bucket : max_distance;
    while (least < most) {
      const int64_t middle = least + (most - least) / 2;
      if (of(-middle) < bucket) {
        least = middle + 1;
      } else {
        most = middle;
      }
    }
    sizes.push_back(least);
  }
  return sizes;
}

AttentionForm::AttentionForm(const Attrs& attrs, std::span<const TensorType> types)
    : causal(attrs.flag("causal")),
      scale(attrs.number("scale")),
      window(attrs.find("window") != nullptr ? attrs.integer("window") : 0) {
  const bool relative = attrs.find("max_distance") != nullptr;
  const auto said = [&](const char* name) {
    return attrs.find(name) != nullptr && attrs.flag(name);
  };
  const size_t draws = attrs.find("rate") != nullptr ? 2 : 0;
  const size_t needed = 3 + (relative ? 1 : 0) + (said("masked") ? 1 : 0) +
                        (said("segmented") ? 2 : 0) + (said("repeating") ? 1 : 0) +
                        (said("placed") ? 1 : 0) + draws;
  bias = types.size() > needed ? inputs++ : 0;
  table = relative ? inputs++ : 0;
  mask = said("masked") ? inputs++ : 0;
  segments = said("segmented") ? inputs : 0;
  inputs += segments == 0 ? 0 : 2;
  repeated = said("repeating") ? inputs++ : 0;
  start = said("placed") ? inputs++ : 0;
  draw = draws > 0 ? inputs : 0;
  inputs += draws;
  if (relative) {
    const bool given = table < types.size() && types[table].shape.rank() == 3;
    buckets = {given ? types[table].shape[1] : 0, attrs.integer("max_distance"),
               attrs.flag("bidirectional")};
  }
}

AttentionDims check_attention(std::span<const TensorType> in, const AttentionForm& form,
                              const Attrs& attrs) {
  expect_inputs(in, static_cast<int>(form.inputs));
  check_operands(in, form);
  const Shape& q = in[0].shape;
  const Shape& k = in[1].shape;
  const Shape& v = in[2].shape;
  const AttentionDims n{q[0], q[1], k[1], q[2], k[2], q[3], v[3]};
  if (!(k == Shape{n.b, n.s, n.key_heads, n.d}) || !(v == Shape{n.b, n.s, n.key_heads, n.e})) {
    throw ShapeError(
        fmt::format("q {}, k {} and v {} do not fit", to_string(q), to_string(k), to_string(v)),
        "they are [b, t, h, d], [b, s, g, d] and [b, s, g, e]");
  }
  if (n.key_heads == 0 ? n.h != 0 : n.h % n.key_heads != 0) {
    throw ShapeError(fmt::format("{} key heads do not divide {} query heads", n.key_heads, n.h));
  }
  if (n.s == 0) {
    throw ShapeError("there are no keys");
  }
  if (form.window < 0 || (form.window > 0 && !form.causal)) {
    throw ShapeError(fmt::format("a window of {} keys", form.window),
                     "a window is positive, and causal");
  }
  if (form.bias != 0) {
    const Shape& bias = in[form.bias].shape;
    if ((bias[0] != 1 && bias[0] != n.b) || (bias[1] != 1 && bias[1] != n.h) || bias[2] != n.t ||
        bias[3] != n.s) {
      throw ShapeError(fmt::format("bias {} does not fit scores {}", to_string(bias),
                                   to_string(Shape{n.b, n.h, n.t, n.s})));
    }
  }
  if (form.table != 0) {
    check_table(in[form.table], n, *form.buckets);
  }
  if (form.mask != 0 && !(in[form.mask] == TensorType{Dtype::kBool, {n.b, n.s}})) {
    throw ShapeError(fmt::format("a key mask is {}, not {}", to_string(in[form.mask]),
                                 to_string(TensorType{Dtype::kBool, {n.b, n.s}})));
  }
  if (form.segments != 0 && (!(in[form.segments] == TensorType{Dtype::kI32, {n.b, n.t}}) ||
                             !(in[form.segments + 1] == TensorType{Dtype::kI32, {n.b, n.s}}))) {
    throw ShapeError(fmt::format("segments are {} and {}, not {} and {}",
                                 to_string(in[form.segments]), to_string(in[form.segments + 1]),
                                 to_string(TensorType{Dtype::kI32, {n.b, n.t}}),
                                 to_string(TensorType{Dtype::kI32, {n.b, n.s}})));
  }
  const auto expect_by_sample = [&](size_t input, const char* what) {
    const TensorType expected{Dtype::kI32, {n.b}};
    if (input != 0 && !(in[input] == expected)) {
      throw ShapeError(
          fmt::format("{} is {}, not {}", what, to_string(in[input]), to_string(expected)));
    }
  };
  expect_by_sample(form.repeated, "the number of repeated keys");
  expect_by_sample(form.start, "the place of the first query");
  if (form.draw != 0) {
    check_draw(in.subspan(form.draw, 2), n, attrs);
  }
  return n;
}

}  // namespace mstrain
