#include "tests/conformance/cases.h"

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "core/base/hash.h"
#include "core/base/rng.h"
#include "core/ops/elementwise.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"

namespace mstrain {
namespace {

Tensor from_doubles(const std::vector<double>& values, const TensorType& type) {
  HostWrite result(type);
  visit_dtype(type.dtype, [&]<class T>(T) {
    const std::span<T> out = result.values<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, bool>) {
        out[i] = values[i] != 0;
      } else if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
        out[i] = T(static_cast<float>(values[i]));
      } else {
        out[i] = static_cast<T>(values[i]);
      }
    }
  });
  return result.finish();
}

Tensor fill(const SampleInput& input, Rng& rng) {
  const Dtype dtype = input.type.dtype;
  const double low =
      is_signed(dtype) || dtype == Dtype::kBool ? input.low : std::max(input.low, 0.0);
  const auto n = static_cast<size_t>(input.type.elements());
  std::vector<double> values(n);
  if (input.distinct) {
    std::iota(values.begin(), values.end(), 0.0);
    rng.shuffle(values);
    for (double& value : values) {
      value = low + (input.high - low) * (value + 0.5) / static_cast<double>(n);
    }
  } else {
    for (double& value : values) {
      value = rng.uniform(low, input.high);
    }
  }
  if (input.diagonal != 0) {
    const int64_t columns = input.type.shape.back();
    const int64_t rows = input.type.shape[input.type.shape.rank() - 2];
    for (size_t i = 0; i < n; ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t column = at % columns;
      if (at / columns % rows == column) {
        values[i] += input.diagonal * static_cast<double>(column + 1);
      }
    }
  }
  if (!is_floating(dtype)) {
    for (double& value : values) {
      value = std::floor(value);
    }
  }
  return from_doubles(values, input.type);
}

double greatest(std::span<const Tensor> tensors) {
  double result = 0;
  for (const Tensor& tensor : tensors) {
    for (double value : to_doubles(tensor)) {
      result = std::isfinite(value) ? std::max(result, std::abs(value)) : result;
    }
  }
  return result;
}

}  // namespace

std::string to_string(const Case& it) {
  std::string text = fmt::format("{} {} sample {}:", it.op->name, name_of(it.dtype), it.index);
  for (const SampleInput& input : it.sample.inputs) {
    text += ' ' + to_string(input.type);
  }
  return text;
}

std::vector<Case> cases_of(const OpDef& op, std::span<const Dtype> dtypes) {
  std::vector<Case> cases;
  for (Dtype dtype : dtypes) {
    if (op.samples == nullptr || !accepts(op.dtypes, dtype)) {
      continue;
    }
    size_t index = 0;
    for (const Sample& sample : op.samples(dtype)) {
      cases.push_back({&op, dtype, index++, sample});
    }
  }
  return cases;
}

bool is_small(const Case& it, int64_t elements) {
  int64_t total = 0;
  for (const SampleInput& input : it.sample.inputs) {
    total += input.type.elements();
  }
  return total <= elements;
}

std::vector<Case> some(std::vector<Case> cases, size_t count) {
  count = kSanitized ? (count + 1) / 2 : count;
  if (!long_tests() && cases.size() > count) {
    // Evenly over the list, so that every element type is met.
    std::vector<Case> chosen;
    for (size_t i = 0; i < count; ++i) {
      chosen.push_back(cases[i * cases.size() / count]);
    }
    return chosen;
  }
  return cases;
}

Tensors inputs_of(const Case& it, uint64_t variant) {
  uint64_t seed = hash_bytes(it.op->name).lo;
  seed = hash_combine(seed, static_cast<uint64_t>(it.dtype));
  seed = hash_combine(seed, it.index);
  Rng rng(seed, variant);
  Tensors inputs;
  for (const SampleInput& input : it.sample.inputs) {
    inputs.push_back(fill(input, rng));
  }
  return inputs;
}

Tensor random_like(const Tensor& x, uint64_t seed) {
  Rng rng(seed, 1);
  return fill({x.type(), -1, 1}, rng);
}

Tensors random_like_all(const Tensors& tensors, uint64_t seed) {
  Tensors result;
  for (const Tensor& x : tensors) {
    result.push_back(random_like(x, seed + result.size() * 1000));
  }
  return result;
}

Tensors run(const Case& it, std::span<const Tensor> inputs) {
  return apply(*it.op, inputs, it.sample.attrs, SourceLocation::current());
}

Tensors run_jitted(const Case& it, const Tensors& inputs, int level) {
  return jit([&](const Tensors& in) { return run(it, in); }, {.level = level})(inputs);
}

const Context& context_of(const Backend* backend, int threads) {
  static std::map<std::pair<const Backend*, int>, Context> contexts;
  return contexts.try_emplace({backend, threads}, Context{.backend = backend, .threads = threads})
      .first->second;
}

Tolerance tolerance_for(const OpDef& op, Dtype dtype, std::span<const Tensor> inputs,
                        std::span<const Tensor> expected) {
  if (!is_floating(dtype) || op.kind == OpKind::kMovement || op.kind == OpKind::kSource) {
    return {};
  }
  const double scale = std::max(greatest(expected), greatest(inputs));
  // Functions of one element are good to a few units in the last place of a number near 1.
  const bool wide = dtype == Dtype::kF64 || dtype == Dtype::kF32;
  return op.kind == OpKind::kElementwise && wide
             ? Tolerance{rounding_of(dtype) / 10, std::min(1.0, greatest(expected))}
             : Tolerance{rounding_of(dtype), scale};
}

Dtype compared_dtype(const Case& it, Dtype result) {
  // Logits have the type of the head's operands, losses are f32.
  const bool narrows = it.op->name.starts_with("linear_cross_entropy") && is_floating(result) &&
                       size_of(it.dtype) < size_of(result);
  return narrows ? it.dtype : result;
}

// Sums and products round at every term, relative to the largest of them; those of 16 bits are rounded once, from f32.
double rounding_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64: return 1e-13;
    case Dtype::kF32: return 1e-5;
    case Dtype::kBF16: return 0x1p-7;
    case Dtype::kF16: return 0x1p-10;
    default: return 0;
  }
}

std::string difference(const Tensor& actual, const Tensor& expected, Tolerance tolerance) {
  if (!(actual.type() == expected.type())) {
    return fmt::format("{} instead of {}", to_string(actual.type()), to_string(expected.type()));
  }
  const std::vector<double> a = to_doubles(actual);
  const std::vector<double> b = to_doubles(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    const double bound = tolerance.relative * std::max(std::abs(b[i]), tolerance.scale);
    const bool close = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                       (std::isfinite(b[i]) && std::abs(a[i] - b[i]) <= bound);
    if (!close) {
      return fmt::format("element {} of {}: {} instead of {} (off by {:.2g}, allowed {:.2g})", i,
                         to_string(expected.type()), a[i], b[i], std::abs(a[i] - b[i]), bound);
    }
  }
  return {};
}

std::string bit_difference(const Tensor& actual, const Tensor& expected) {
  std::string text = difference(actual, expected, {});
  if (text.empty()) {
    const std::vector<double> a = to_doubles(actual);
    const std::vector<double> b = to_doubles(expected);
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isnan(a[i]) && std::signbit(a[i]) != std::signbit(b[i])) {
        return fmt::format("element {} of {}: {} instead of {}", i, to_string(expected.type()),
                           a[i], b[i]);
      }
    }
  }
  return text;
}

std::vector<std::string> names_of_ops(bool (*wanted)(const OpDef&)) {
  std::vector<std::string> names;
  for (const OpDef* op : all_ops()) {
    if (wanted(*op)) {
      names.emplace_back(op->name);
    }
  }
  return names;
}

Dtype usual_dtype(const OpDef& op) {
  return accepts(op.dtypes, Dtype::kF32)   ? Dtype::kF32
         : accepts(op.dtypes, Dtype::kI32) ? Dtype::kI32
                                           : Dtype::kBool;
}

bool has_samples(const OpDef& op) { return op.samples != nullptr; }

bool has_floating_derivative(const OpDef& op) {
  return has_samples(op) && accepts(op.dtypes, Dtype::kF64) && op.kind != OpKind::kSource;
}

}  // namespace mstrain
