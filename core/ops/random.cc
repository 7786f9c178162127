#include "core/ops/random.h"

#include <algorithm>
#include <cmath>

#include "core/base/hash.h"
#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/index.h"
#include "core/ops/layouts.h"
#include "core/ops/random_draw.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// Throws ShapeError unless `shape` can be a part of attribute `whole` at offsets of this type, one for each key.
void check_part(const TensorType& key, const TensorType& offset, const Shape& shape,
                const Shape& whole) {
  Shape expected = key.shape.without(key.shape.rank() - 1);
  expected.push_back(shape.rank());
  if (offset.dtype != Dtype::kI32 || !(offset.shape == expected)) {
    throw ShapeError(fmt::format("the offset of a part {} is {}, not i32{}", to_string(shape),
                                 to_string(offset), to_string(expected)));
  }
  bool fits = whole.rank() == shape.rank();
  for (int i = 0; fits && i < shape.rank(); ++i) {
    fits = shape[i] <= whole[i];
  }
  if (!fits) {
    throw ShapeError(fmt::format("{} is no part of {}", to_string(shape), to_string(whole)));
  }
}

// random{kind, dtype, shape, site}: (key) -> numbers; random{…, whole}: (key, offset) -> a part; past_end: of kPastEnd, false where absent.
// The dims of `key` before its two words are those of a batch; each key, and its offset, fills one `shape`.
Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  if (in.size() != 2) {
    expect_inputs(in, 1);
  }
  const int rank = in[0].shape.rank();
  if (in[0].dtype != Dtype::kU32 || rank < 1 || in[0].shape[rank - 1] != 2) {
    throw ShapeError(fmt::format("the key is {}, not u32[2]", to_string(in[0])),
                     "make one with rng_key()");
  }
  const std::string& kind = attrs.text("kind");
  const Dtype dtype = attrs.dtype("dtype");
  attrs.integer("site");
  expect_dims(attrs.ints("shape"));
  if (kind == "bits" ? dtype != Dtype::kU32
                     : !is_floating(dtype) || (kind != "uniform" && kind != "normal")) {
    throw ShapeError(fmt::format("does not draw {} of {}", kind, name_of(dtype)));
  }
  if (in.size() == 2) {
    check_part(in[0], in[1], attrs.ints("shape"), attrs.ints("whole"));
  }
  Shape shape = in[0].shape.without(rank - 1);
  for (int64_t dim : attrs.ints("shape")) {
    shape.push_back(dim);
  }
  return {{dtype, shape}};
}

// About ten rounds of a few integer operations for each four words, and two functions for a normal.
Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  return elementwise_cost(in, out, attrs.text("kind") == "normal" ? 60 : 20);
}

std::vector<Sample> samples(Dtype t) {
  const SampleInput key{{Dtype::kU32, {2}}, 0, 1000};
  const SampleInput keys{{Dtype::kU32, {3, 2}}, 0, 1000};
  std::vector<Sample> result;
  const auto add = [&](const SampleInput& input, std::string kind, Dtype dtype, const Shape& shape,
                       int64_t site) {
    result.push_back(
        {{input}, {{"kind", std::move(kind)}, {"dtype", dtype}, {"shape", shape}, {"site", site}}});
  };
  for (const char* kind : {"uniform", "normal"}) {
    add(key, kind, t, {3, 33}, -7);
    add(key, kind, t, {}, 1);
    add(key, kind, t, {1030}, int64_t{1} << 40);
    add(key, kind, t, {0, 2}, 0);
    add(keys, kind, t, {5}, 3);
  }
  add(key, "bits", Dtype::kU32, {2, 7}, 11);
  add(keys, "bits", Dtype::kU32, {9}, 12);
  // Parts, at offsets below `reach` along each dim.
  const auto add_part = [&](const SampleInput& input, const char* kind, Dtype dtype,
                            const Shape& shape, const Shape& whole, double reach) {
    add(input, kind, dtype, shape, 5);
    Sample& sample = result.back();
    Shape offsets = input.type.shape.without(input.type.shape.rank() - 1);
    offsets.push_back(shape.rank());
    sample.inputs.push_back({{Dtype::kI32, offsets}, 0, reach});
    sample.attrs.set("whole", whole);
  };
  for (const char* kind : {"uniform", "normal"}) {
    add_part(key, kind, t, {2, 3, 5}, {4, 5, 7}, 3);
    add_part(keys, kind, t, {1100}, {4000}, 2901);
    add_part(key, kind, t, {2, 1029}, {5, 1032}, 4);
    add_part(key, kind, t, {}, {}, 1);
    add_part(key, kind, t, {0, 3}, {2, 4}, 2);
  }
  add_part(key, "bits", Dtype::kU32, {3, 3}, {5, 4}, 2);
  return result;
}

// Each key's draw by itself, or each rank a part of every draw.
std::vector<Way> layout_draw(const LayoutRequest& request) {
  const int keys = request.inputs[0].shape.rank() - 1;
  const Shape& shape = request.attrs.ints("shape");
  std::vector<Way> ways;
  for (int i = 0; i < keys; ++i) {
    Way way = layout::by_dims(request, {i}, {i});
    std::fill(way.inputs.begin(), way.inputs.end(), sharded(i));
    ways.push_back(std::move(way));
  }
  for (int i = 0; i < shape.rank(); ++i) {
    Way way = request.whole();
    way.outputs[0] = sharded(keys + i);
    way.uneven = true;
    const Shape part = part_of({Dtype::kF32, shape}, sharded(i), request.axis.size).shape;
    const bool is_part = request.inputs.size() > 1;
    Attrs attrs = request.attrs.with("shape", part)
                      .with("whole", is_part ? request.attrs.ints("whole") : shape);
    if (shape[i] % request.axis.size != 0) {
      attrs.set(kPastEnd, true);
    }
    way.program = [i, attrs, &op = request.op](std::span<const Tensor> in,
                                               const MeshAxis& axis) -> Tensors {
      const Shape& own = attrs.ints("shape");
      Shape offsets = in[0].shape();
      offsets[offsets.rank() - 1] = own.rank();
      Tensor offset = broadcast_to(
          layout::offset_along(layout::first_of_part(own[i], axis), i, own.rank()), offsets);
      if (in.size() > 1) {
        offset = offset + in[1];
      }
      return apply(op, std::array{in[0], offset}, attrs, SourceLocation::current());
    };
    ways.push_back(std::move(way));
  }
  return ways;
}

constexpr OpDef kDefs[] = {{.name = "random",
                            .kind = OpKind::kRandom,
                            .dtypes = DtypeClass::kFloating,
                            .infer = infer,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_leading,
                            .cost = cost,
                            .layout = layout_draw,
                            .samples = samples,
                            .smooth = false}};

Tensor draw(const Arg& key, const char* kind, Dtype dtype, const Shape& shape, int64_t site,
            const std::optional<RandomPart>& part = {}) {
  Attrs attrs{{"kind", std::string(kind)}, {"dtype", dtype}, {"shape", shape}, {"site", site}};
  Tensors inputs{key.tensor()};
  if (part) {
    inputs.push_back(part->offset);
    attrs.set("whole", part->whole);
  }
  return apply(kDefs[0], inputs, attrs, key.where())[0];
}

int64_t hash_of(std::string_view path) { return static_cast<int64_t>(hash_bytes(path).lo); }

Tensor word(uint64_t value) {
  return full({1}, static_cast<double>(value & 0xffffffffU), Dtype::kU32);
}

}  // namespace

std::span<const OpDef> random_ops() { return kDefs; }

int64_t random_site(std::string_view site) {
  const std::string& scope = NameScope::path();
  return hash_of(scope.empty() || site.empty() ? fmt::format("{}{}", scope, site)
                                               : fmt::format("{}.{}", scope, site));
}

Tensor rng_key(uint64_t seed) { return concat(std::array{word(seed), word(seed >> 32)}, 0); }

// Draws, adds the data to the first word, and draws again: neither neighbouring keys nor
// neighbouring data meet.
Tensor fold_in(const Arg& key, const Arg& data) {
  check(data.is_number() || (data.tensor().rank() == 0 && is_integer(data.tensor().dtype())),
        "fold_in: data is {}, not an integer [], at {}",
        data.is_number() ? "" : to_string(data.tensor().type()), to_string(key.where()));
  check(!data.is_number() || std::abs(data.number()) <= 0x1p53,
        "fold_in: {} is no exact integer, at {}", data.number(), to_string(key.where()));
  const Tensor mixed = draw(key, "bits", Dtype::kU32, {2}, hash_of("fold_in"));
  const Tensor low =
      data.is_number()
          ? reshape(word(static_cast<uint64_t>(static_cast<int64_t>(data.number()))), {})
          : cast(data, Dtype::kU32);
  return draw(mixed + pad(reshape(low, {1}), {0}, {1}), "bits", Dtype::kU32, {2},
              hash_of("fold_in.again"));
}

Tensor random_bits(const Arg& key, const Shape& shape, const RandomOptions& options) {
  return draw(key, "bits", Dtype::kU32, shape, random_site(options.site), options.part);
}

Tensor uniform(const Arg& key, const Shape& shape, const RandomOptions& options) {
  return draw(key, "uniform", options.dtype, shape, random_site(options.site), options.part);
}

Tensor normal(const Arg& key, const Shape& shape, const RandomOptions& options) {
  return draw(key, "normal", options.dtype, shape, random_site(options.site), options.part);
}

Tensor bernoulli(const Arg& key, const Arg& p, const Shape& shape, const RandomOptions& options) {
  const Dtype dtype = p.is_number() ? Dtype::kF32 : accumulation_dtype(p.tensor().dtype());
  const Tensor u = uniform(key, shape, {options.site, options.part, dtype});
  return p.is_number() ? less(u, p) : less(u, cast(p, dtype));
}

// Gumbel's trick: the argmax of logits - ln(-ln u) has the distribution softmax(logits).
Tensor categorical(const Arg& key, const Arg& logits, const RandomOptions& options) {
  const Tensor x = widened(logits);
  const Tensor u = uniform(key, x.shape(), {options.site, options.part, x.dtype()});
  return argmax(x - log(-log(u)), -1);
}

Tensor permutation(const Arg& key, int64_t n, std::string_view site) {
  return argsort(random_bits(key, {n}, {.site = site}), 0);
}

Tensor dropout(const Arg& x, double rate, const Arg& key, const RandomOptions& options) {
  check(rate >= 0 && rate <= 1, "dropout: a rate of {} is outside of [0, 1], at {}", rate,
        to_string(x.where()));
  if (rate == 0) {
    return x.tensor();
  }
  if (rate == 1) {
    return zeros_like(x.tensor());
  }
  const Tensor kept = bernoulli(key, 1 - rate, x.tensor().shape(), options);
  return where(kept, x * (1 / (1 - rate)), 0);
}

}  // namespace mstrain
