#include "core/ops/random.h"

#include <cmath>

#include "core/base/hash.h"
#include "core/ops/accumulate.h"
#include "core/ops/build.h"
#include "core/ops/index.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

// The dims of `key` before its two words are those of a batch; each key fills one `shape`.
Types infer(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 1);
  const int rank = in[0].shape.rank();
  if (in[0].dtype != Dtype::kU32 || rank < 1 || in[0].shape[rank - 1] != 2) {
    throw ShapeError(fmt::format("the key is {}, not u32[2]", to_string(in[0])),
                     "make one with rng_key()");
  }
  const std::string& kind = attrs.text("kind");
  const Dtype dtype = attrs.dtype("dtype");
  attrs.integer("site");
  if (kind == "bits" ? dtype != Dtype::kU32
                     : !is_floating(dtype) || (kind != "uniform" && kind != "normal")) {
    throw ShapeError(fmt::format("does not draw {} of {}", kind, name_of(dtype)));
  }
  Shape shape;
  for (int i = 0; i + 1 < rank; ++i) {
    shape.push_back(in[0].shape[i]);
  }
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
  return result;
}

constexpr OpDef kDefs[] = {{.name = "random",
                            .kind = OpKind::kRandom,
                            .dtypes = DtypeClass::kFloating,
                            .infer = infer,
                            .jvp = zero_derivative,
                            .vjp = zero_derivative,
                            .batch = batch_leading,
                            .cost = cost,
                            .samples = samples,
                            .smooth = false}};

Tensor draw(const Arg& key, const char* kind, Dtype dtype, const Shape& shape, int64_t site) {
  return apply1(kDefs[0], {key.tensor()},
                {{"kind", std::string(kind)}, {"dtype", dtype}, {"shape", shape}, {"site", site}},
                key.where());
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

Tensor random_bits(const Arg& key, const Shape& shape, std::string_view site) {
  return draw(key, "bits", Dtype::kU32, shape, random_site(site));
}

Tensor uniform(const Arg& key, const Shape& shape, const RandomOptions& options) {
  return draw(key, "uniform", options.dtype, shape, random_site(options.site));
}

Tensor normal(const Arg& key, const Shape& shape, const RandomOptions& options) {
  return draw(key, "normal", options.dtype, shape, random_site(options.site));
}

Tensor bernoulli(const Arg& key, const Arg& p, const Shape& shape, std::string_view site) {
  const Dtype dtype = p.is_number() ? Dtype::kF32 : accumulation_dtype(p.tensor().dtype());
  const Tensor u = draw(key, "uniform", dtype, shape, random_site(site));
  return p.is_number() ? less(u, p) : less(u, cast(p, dtype));
}

// Gumbel's trick: the argmax of logits - ln(-ln u) has the distribution softmax(logits).
Tensor categorical(const Arg& key, const Arg& logits, std::string_view site) {
  const Tensor x = widened(logits);
  const Tensor u = draw(key, "uniform", x.dtype(), x.shape(), random_site(site));
  return argmax(x - log(-log(u)), -1);
}

Tensor permutation(const Arg& key, int64_t n, std::string_view site) {
  return argsort(random_bits(key, {n}, site), 0);
}

Tensor dropout(const Arg& x, double rate, const Arg& key, std::string_view site) {
  check(rate >= 0 && rate <= 1, "dropout: a rate of {} is outside of [0, 1], at {}", rate,
        to_string(x.where()));
  if (rate == 0) {
    return x.tensor();
  }
  if (rate == 1) {
    return zeros_like(x.tensor());
  }
  const Tensor kept = bernoulli(key, 1 - rate, x.tensor().shape(), site);
  return where(kept, x * (1 / (1 - rate)), 0);
}

}  // namespace mstrain
