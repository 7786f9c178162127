#include "tests/conformance/random_programs.h"
#include "core/ir/backend.h"

#include <cmath>

#include "core/base/rng.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/transform/grad.h"
#include "core/transform/recompute.h"
#include "core/transform/scan.h"
#include "core/transform/vmap.h"

namespace mstrain {
namespace {

constexpr int64_t kMostElements = 200;

bool all_finite(const Tensors& tensors) {
  for (const Tensor& tensor : tensors) {
    for (double value : to_doubles(tensor)) {
      if (!std::isfinite(value)) {
        return false;
      }
    }
  }
  return true;
}

// Samples whose results are small, finite and of one floating-point type.
std::vector<Case> candidates(const ProgramOptions& options) {
  const ContextScope scope(context_of(backend_named("reference")));
  std::vector<Case> found;
  for (const OpDef* op : all_ops()) {
    if (options.smooth && !op->smooth) {
      continue;
    }
    for (const Case& it : cases_of(*op, std::span(&options.dtype, 1))) {
      if (!is_small(it, kMostElements)) {
        continue;
      }
      const Tensors results = run(it, inputs_of(it));
      bool usable = all_finite(results);
      for (const Tensor& x : results) {
        usable = usable && x.elements() > 0 && x.elements() <= kMostElements &&
                 x.dtype() == options.dtype;
      }
      if (usable) {
        found.push_back(it);
      }
    }
  }
  return found;
}

const std::vector<Case>& candidates_for(const ProgramOptions& options) {
  static std::vector<Case> known[kNumDtypes][2];
  std::vector<Case>& cases = known[static_cast<int>(options.dtype)][options.smooth ? 1 : 0];
  if (cases.empty()) {
    cases = candidates(options);
  }
  return cases;
}

// x as an input that a sample describes: its elements, repeated or cut to the shape, in the range.
Tensor adapted(const Tensor& x, const SampleInput& input) {
  const int64_t n = input.type.elements();
  Tensor flat = reshape(x, {x.elements()});
  if (n > x.elements()) {
    const int64_t times = (n + x.elements() - 1) / x.elements();
    flat = reshape(broadcast_to(flat, {times, x.elements()}), {times * x.elements()});
  }
  const Tensor shaped = reshape(slice(flat, 0, 0, n), input.type.shape);
  const Dtype dtype = input.type.dtype;
  // Not at 0, where sums that cancel leave nothing but rounding.
  constexpr double kThreshold = 0.1372;
  if (dtype == Dtype::kBool) {
    return shaped > kThreshold;
  }
  const double low = is_signed(dtype) ? input.low : std::max(input.low, 0.0);
  Tensor ranged = low + (input.high - low) * sigmoid(shaped + kThreshold);
  if (input.diagonal != 0) {
    const Shape& shape = input.type.shape;
    const Tensor column = iota(shape, shape.rank() - 1);
    const Tensor scale = cast(column + 1, ranged.dtype()) * input.diagonal;
    ranged = where(equal(column, iota(shape, shape.rank() - 2)), ranged + scale, ranged);
  }
  // A sigmoid may round to 1.
  return is_floating(dtype) ? cast(ranged, dtype)
                            : minimum(cast(floor(ranged), dtype), std::ceil(input.high) - 1);
}

class Builder {
 public:
  Builder(uint64_t seed, const ProgramOptions& options, const Tensors& inputs)
      : rng_(seed, 7), options_(options), pool_(inputs) {}

  Tensors run_all() {
    const int64_t steps = rng_.between(3, 9);
    for (int64_t i = 0; i < steps; ++i) {
      step();
    }
    Tensor total = full({}, 0, options_.dtype);
    for (const Tensor& x : pool_) {
      total = total + sum(tanh(x)) / static_cast<double>(x.elements());
    }
    return {pool_.back(), total};
  }

 private:
  const Tensor& any() { return pool_[rng_.below(pool_.size())]; }

  const Case& any_case() {
    const std::vector<Case>& cases = candidates_for(options_);
    // Every operation is as likely as another, however many samples it has.
    const OpDef* op = cases[rng_.below(cases.size())].op;
    std::vector<const Case*> same;
    for (const Case& it : cases) {
      if (it.op == op) {
        same.push_back(&it);
      }
    }
    return *same[rng_.below(same.size())];
  }

  Tensors inputs_for(const Case& it) {
    Tensors inputs;
    for (const SampleInput& input : it.sample.inputs) {
      inputs.push_back(adapted(any(), input));
    }
    return inputs;
  }

  void keep(const Tensors& results) { pool_.insert(pool_.end(), results.begin(), results.end()); }

  void step() {
    switch (rng_.below(options_.control ? 8 : 5)) {
      case 5: return recompute();
      case 6: return loop();
      case 7: return batch();
      case 4: return combine();
      default: {
        const Case& it = any_case();
        keep(run(it, inputs_for(it)));
      }
    }
  }

  // Two values of other shapes, added or multiplied.
  void combine() {
    const Tensor x = any();
    const Tensor y = adapted(any(), {x.type(), -2, 2});
    keep({rng_.below(2) == 0 ? x * y : sin(x) + y});
  }

  void recompute() {
    const Case& it = any_case();
    const auto f = [&](const Tensors& in) {
      Tensors results = run(it, in);
      for (Tensor& result : results) {
        result = sin(result);
      }
      return results;
    };
    keep(mstrain::recompute(f)(inputs_for(it)));
  }

  // A carry of any shape, over slices of another value; a third is a constant of the loop.
  void loop() {
    const Tensor carry = sigmoid(any());
    const Tensor constant = adapted(any(), {carry.type(), -1, 1});
    const Tensor xs = adapted(any(), {{options_.dtype, {3, 2}}, -1, 1});
    const auto f = [&](const Tensor& c, const Tensor& x) {
      const Tensor next = tanh(c * constant + sum(x));
      return std::pair(next, x * sum(c));
    };
    const auto [last, ys] = scan(f, carry, xs, {.reverse = rng_.below(2) == 0});
    keep({last, ys});
  }

  // Three samples at once; the first input is theirs, the others are shared.
  void batch() {
    const Case& it = any_case();
    if (it.sample.inputs.empty()) {
      return;
    }
    Tensors inputs = inputs_for(it);
    SampleInput all = it.sample.inputs[0];
    all.type.shape = all.type.shape.with_inserted(0, 3);
    const Tensor samples = adapted(any(), all);
    const auto f = [&](const Tensor& first) {
      Tensors in = inputs;
      in[0] = first;
      return run(it, in);
    };
    keep(vmap(f)(samples));
  }

  Rng rng_;
  ProgramOptions options_;
  Tensors pool_;
};

}  // namespace

// The list is made before any program is recorded, since it reads values.
RandomProgram::RandomProgram(uint64_t seed, const ProgramOptions& options)
    : seed_(seed), options_(options) {
  candidates_for(options);
}

Tensors RandomProgram::inputs() const {
  Rng rng(seed_, 8);
  Tensors result;
  for (uint64_t i = 0, n = 2 + rng.below(2); i < n; ++i) {
    Shape shape;
    for (uint64_t d = 0, rank = rng.below(3); d < rank; ++d) {
      shape.push_back(rng.between(1, 6));
    }
    result.push_back(random_like(zeros({options_.dtype, shape}), rng.next_u64()));
  }
  return result;
}

Tensors RandomProgram::operator()(const Tensors& inputs) const {
  return Builder(seed_, options_, inputs).run_all();
}

GraphPtr graph_of(const RandomProgram& program) {
  Tensors captures;
  const Tensors inputs = program.inputs();
  Types types;
  for (const Tensor& x : inputs) {
    types.push_back(x.type());
  }
  GraphPtr graph = trace_program(
      types, [&](std::span<const Tensor> in) { return program(Tensors(in.begin(), in.end())); },
      &captures);
  check(captures.empty(), "a random program uses {} tensors from outside", captures.size());
  return graph;
}

Tensors values_and_gradients(const RandomProgram& program, const Tensors& x) {
  const auto f = [&](const Tensors& in) {
    Tensors results = program(in);
    return std::pair(results[1], results[0]);
  };
  const auto [values, gradients] = value_and_grad(f)(x);
  Tensors all{values.first, values.second};
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

GraphPtr gradient_graph(const RandomProgram& program) {
  Tensors captures;
  Types types;
  for (const Tensor& x : program.inputs()) {
    types.push_back(x.type());
  }
  return trace_program(
      types,
      [&](std::span<const Tensor> in) {
        return values_and_gradients(program, Tensors(in.begin(), in.end()));
      },
      &captures);
}

}  // namespace mstrain
