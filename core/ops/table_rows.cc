// bag_sum: (x[n, d], ids[m], weights[m], offsets[k + 1]) -> [k, d]
// learn_rows{rule, lr, beta1, beta2, eps, l1, l2}:
//   (weights[n, w], state[n, s], slots[u], gradients[u, w], learns[u], rate[]) -> (weights', state')
#include "core/ops/table_rows.h"

#include "core/ops/accumulation.h"
#include "core/ops/build.h"
#include "core/ops/einsum.h"
#include "core/ops/index.h"
#include "core/ops/index_common.h"
#include "core/ops/layouts.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"

namespace mstrain {
namespace {

using row_rules::Rule;

constexpr SourceLocation kHere = SourceLocation::current();

void expect_type(const char* what, const TensorType& given, const TensorType& wanted) {
  if (!(given == wanted)) {
    throw ShapeError(fmt::format("{} are {}, not {}", what, to_string(given), to_string(wanted)));
  }
}

void expect_matrix(const TensorType& x) {
  if (!is_floating(x.dtype) || x.shape.rank() != 2) {
    throw ShapeError(fmt::format("rows are {}, not floating numbers [n, d]", to_string(x)));
  }
}

Types infer_sum(std::span<const TensorType> in, const Attrs&) {
  expect_inputs(in, 4);
  expect_matrix(in[0]);
  if (in[1].shape.rank() != 1 || in[3].shape.rank() != 1 || in[3].shape[0] == 0) {
    throw ShapeError(fmt::format("ids are {} and offsets {}, not [m] and [k + 1]",
                                 to_string(in[1].shape), to_string(in[3].shape)));
  }
  expect_type("ids", in[1], {Dtype::kI32, in[1].shape});
  expect_type("offsets", in[3], {Dtype::kI32, in[3].shape});
  expect_type("weights", in[2], {in[0].dtype, in[1].shape});
  return {{in[0].dtype, {in[3].shape[0] - 1, in[0].shape[1]}}};
}

// A matrix of the weight of each position in each bag, times the rows of the positions.
Tensors decompose_sum(const Attrs&, std::span<const Tensor> in) {
  const int64_t bags = in[3].dim(0) - 1;
  const int64_t positions = in[1].dim(0);
  const Tensor at = iota({1, positions}, 1);
  const Tensor from = reshape(slice(in[3], 0, 0, bags), {bags, 1});
  const Tensor to = reshape(slice(in[3], 0, 1, bags + 1), {bags, 1});
  const Tensor inside = logical_and(at >= from, at < to);
  const Tensor weights = where(inside, reshape(widened(in[2]), {1, positions}), 0);
  const Tensor sums = einsum("km,md->kd", {weights, widened(gather(in[0], in[1]))});
  return {cast(sums, in[0].dtype())};
}

Cost cost_sum(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
  const auto read = static_cast<double>(in[1].elements() * in[0].shape[1]);
  return {2 * read, read * size_of(in[0].dtype) +
                        static_cast<double>(in[1].bytes() + in[2].bytes() + out[0].bytes())};
}

std::vector<Sample> samples_sum(Dtype t) {
  const auto sample = [&](int64_t n, int64_t d, int64_t m, int64_t k) {
    return Sample{{{{t, {n, d}}},
                   {{Dtype::kI32, {m}}, 0, static_cast<double>(n)},
                   {{t, {m}}, -2, 2},
                   {{Dtype::kI32, {k + 1}}, 0, static_cast<double>(m + 1)}},
                  {}};
  };
  return {sample(5, 3, 7, 4), sample(1, 1, 1, 1), sample(9, 33, 70, 12),
          sample(4, 2, 5, 0), sample(3, 4, 0, 2), sample(65, 16, 40, 3)};
}

constexpr std::pair<const char*, Rule> kRules[] = {{"sgd", Rule::kSgd},
                                                   {"adagrad", Rule::kAdagrad},
                                                   {"rowwise_adagrad", Rule::kRowwiseAdagrad},
                                                   {"ftrl", Rule::kFtrl},
                                                   {"lazy_adam", Rule::kLazyAdam}};

Types infer_learn(std::span<const TensorType> in, const Attrs& attrs) {
  expect_inputs(in, 6);
  const row_rules::Rule rule = rule_of(attrs);
  numbers_of(attrs);
  expect_matrix(in[0]);
  const int64_t rows = in[0].shape[0];
  const int64_t width = in[0].shape[1];
  const Dtype dtype = in[0].dtype;
  expect_type("states", in[1],
              {dtype, {rows, row_rules::state_floats(rule, static_cast<int>(width))}});
  if (in[2].shape.rank() != 1) {
    throw ShapeError(fmt::format("slots are {}, not [u]", to_string(in[2].shape)));
  }
  const int64_t count = in[2].shape[0];
  expect_type("slots", in[2], {Dtype::kI32, {count}});
  expect_type("gradients", in[3], {dtype, {count, width}});
  expect_type("learns", in[4], {Dtype::kBool, {count}});
  expect_type("rate", in[5], {accumulation_dtype(dtype), {}});
  return {in[0], in[1]};
}

Tensors decompose_learn(const Attrs& attrs, std::span<const Tensor> in) {
  const auto [lr, beta1, beta2, eps, l1, l2] = numbers_of(attrs);
  const Dtype dtype = in[0].dtype();
  const Tensor& slots = in[2];
  const Tensor& rate = in[5];
  const int64_t width = in[0].dim(1);
  const Tensor state_before = widened(gather(in[1], slots));
  const Tensor g = widened(in[3]);
  const auto part = [&](int64_t from, int64_t to) { return slice(state_before, 1, from, to); };
  Tensor w = widened(gather(in[0], slots));
  Tensors state;
  switch (rule_of(attrs)) {
    case Rule::kSgd: row_rules::sgd(rate, l2, w, g); break;
    case Rule::kAdagrad:
      state = {state_before};
      row_rules::adagrad(rate, eps, l2, w, state[0], g);
      break;
    case Rule::kRowwiseAdagrad: {
      state = {state_before};
      const Tensor squares = sum(row_rules::square(l2, w, g), {1}, true);
      const Tensor own =
          row_rules::rate_of_row(rate, eps, squares, static_cast<float>(width), state[0]);
      row_rules::sgd(own, l2, w, g);
      break;
    }
    case Rule::kFtrl:
      state = {part(0, width), part(width, 2 * width)};
      row_rules::ftrl(lr, l1, l2, w, state[0], state[1], g);
      break;
    case Rule::kLazyAdam:
      state = {part(0, width), part(width, 2 * width)};
      row_rules::lazy_adam(rate, beta1, beta2, eps, l2, w, state[0], state[1], g);
      break;
  }
  // What does not learn may stand for a row that does.
  const Tensor learns = expand_dims(in[4], 1);
  const Tensor none = zeros({Dtype::kI32, {in[0].dim(0), 1}});
  const Tensor changes = scatter_add(none, slots, cast(learns, Dtype::kI32)) > 0;
  const auto put = [&](const Tensor& table, const Tensor& now) {
    const Tensor empty = zeros({now.dtype(), table.shape()});
    return where(changes, cast(scatter_add(empty, slots, where(learns, now, 0)), dtype), table);
  };
  Tensors out{put(in[0], w), in[1]};
  if (!state.empty()) {
    out[1] = put(in[1], state.size() == 1 ? state[0] : concat(state, 1, kHere));
  }
  return out;
}

Cost cost_learn(std::span<const TensorType> in, std::span<const TensorType>, const Attrs&) {
  const auto learned = static_cast<double>(in[3].elements());
  const auto floats = static_cast<double>(in[2].elements() * (in[0].shape[1] + in[1].shape[1]));
  return {12 * learned, (2 * floats + learned) * size_of(in[0].dtype)};
}

Attrs attrs_of(Rule rule, const row_rules::Numbers& numbers) {
  const auto [lr, beta1, beta2, eps, l1, l2] = numbers;
  return {{"rule", std::string(kRules[static_cast<size_t>(rule)].first)},
          {"lr", double{lr}},
          {"beta1", double{beta1}},
          {"beta2", double{beta2}},
          {"eps", double{eps}},
          {"l1", double{l1}},
          {"l2", double{l2}}};
}

// Each slot is another row: as many rows as slots, in a shuffled order.
std::vector<Sample> samples_learn(Dtype t) {
  const auto sample = [&](Rule rule, int64_t n, int64_t width) {
    const int64_t state = row_rules::state_floats(rule, static_cast<int>(width));
    return Sample{
        {{{t, {n, width}}},
         {{t, {n, state}}, 0.1, 1},
         {{Dtype::kI32, {n}}, 0, static_cast<double>(n), true},
         {{t, {n, width}}},
         {{Dtype::kBool, {n}}, 0, 2},
         {{accumulation_dtype(t), {}}, 0.05, 0.2}},
        attrs_of(
            rule,
            {.lr = 0.1F, .beta1 = 0.9F, .beta2 = 0.99F, .eps = 1e-3F, .l1 = 0.05F, .l2 = 0.1F})};
  };
  std::vector<Sample> all;
  for (const auto& [name, rule] : kRules) {
    all.push_back(sample(rule, 9, 5));
    all.push_back(sample(rule, 3, 40));
    all.push_back(sample(rule, 1, 1));
    all.push_back(sample(rule, 0, 4));
  }
  return all;
}

constexpr OpDef kDefs[] = {{.name = "bag_sum",
                            .infer = infer_sum,
                            .jvp = jvp_by_decomposition,
                            .vjp = vjp_by_decomposition,
                            .batch = batch_by_decomposition,
                            .decompose = decompose_sum,
                            .cost = cost_sum,
                            .layout = layout::whole,
                            .samples = samples_sum},
                           {.name = "learn_rows",
                            .infer = infer_learn,
                            .jvp = jvp_by_decomposition,
                            .vjp = vjp_by_decomposition,
                            .batch = batch_by_decomposition,
                            .decompose = decompose_learn,
                            .cost = cost_learn,
                            .layout = layout::whole,
                            .samples = samples_learn,
                            .smooth = false}};

}  // namespace

std::span<const OpDef> table_row_ops() { return kDefs; }

Tensor bag_sum(const Arg& x, const Arg& ids, const Arg& weights, const Arg& offsets) {
  return apply1(kDefs[0], {x.tensor(), ids.tensor(), weights.tensor(), offsets.tensor()}, {},
                x.where());
}

LearnedRows learn_rows(const Arg& weights, const Arg& state, const Arg& slots, const Arg& gradients,
                       const Arg& learns, const Arg& rate, Rule rule,
                       const row_rules::Numbers& numbers) {
  const Tensors results = apply(kDefs[1],
                                Tensors{weights.tensor(), state.tensor(), slots.tensor(),
                                        gradients.tensor(), learns.tensor(), rate.tensor()},
                                attrs_of(rule, numbers), weights.where());
  return {results[0], results[1]};
}

Rule rule_of(const Attrs& attrs) {
  const std::string name = attrs.text("rule");
  for (const auto& [known, rule] : kRules) {
    if (name == known) {
      return rule;
    }
  }
  throw ShapeError(fmt::format("there is no rule \"{}\"", name));
}

row_rules::Numbers numbers_of(const Attrs& attrs) {
  const auto number = [&](const char* name) { return static_cast<float>(attrs.number(name)); };
  return {number("lr"),  number("beta1"), number("beta2"),
          number("eps"), number("l1"),    number("l2")};
}

}  // namespace mstrain
