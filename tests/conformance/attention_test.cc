// The tiled kernels of attention at the edges of their tiles, for head dims from 16 to 256, every form of bias, shared keys,
// windows, places, masks and segments, against the decomposition on the reference backend; with and without dropout.
#include "core/ops/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/ir/backend.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

struct Form {
  int64_t queries, keys, dim, value_dim;
  bool causal;
  int bias;               // 0: none; 1: one for all; 2: by head; 3: by sequence; 4: by both
  int64_t key_heads = 2;  // a divisor of the heads
  int64_t window = 0;
  int relative = 0;  // 0: none; 1: one table; 2: by sequence
  bool masked = false, placed = false, segmented = false;
};

struct Tested {
  bool gradient, dropout;
  std::string name() const {
    return fmt::format("attention{}{}", dropout ? "_dropout" : "", gradient ? "_grad" : "");
  }
};

Case case_of(const Form& form, const Tested& tested) {
  constexpr int64_t kBatch = 2;
  const int64_t heads = form.key_heads == 1 ? 3 : 2;
  Sample sample{{{{Dtype::kF32, {kBatch, form.queries, heads, form.dim}}, -1.5, 1.5},
                 {{Dtype::kF32, {kBatch, form.keys, form.key_heads, form.dim}}, -1.5, 1.5},
                 {{Dtype::kF32, {kBatch, form.keys, form.key_heads, form.value_dim}}, -1, 1}},
                {{"causal", form.causal}, {"scale", 1 / std::sqrt(static_cast<double>(form.dim))}}};
  if (form.bias > 0) {
    const Shape bias{form.bias >= 3 ? kBatch : 1, form.bias % 2 == 0 ? heads : 1, form.queries,
                     form.keys};
    sample.inputs.push_back({{Dtype::kF32, bias}, -1, 1});
  }
  if (form.window > 0) {
    sample.attrs.set("window", form.window);
  }
  if (form.relative > 0) {
    sample.attrs.set("max_distance", int64_t{40});
    sample.attrs.set("bidirectional", !form.causal);
    sample.inputs.push_back({{Dtype::kF32, {form.relative == 2 ? kBatch : 1, 17, heads}}, -1, 1});
  }
  if (form.masked) {
    sample.attrs.set("masked", true);
    sample.inputs.push_back({{Dtype::kBool, {kBatch, form.keys}}, 0.2, 2});
  }
  if (form.segmented) {
    sample.attrs.set("segmented", true);
    sample.inputs.push_back({{Dtype::kI32, {kBatch, form.queries}}, 0, 4});
    sample.inputs.push_back({{Dtype::kI32, {kBatch, form.keys}}, 0, 4});
  }
  if (form.placed) {
    sample.attrs.set("placed", true);
    sample.inputs.push_back({{Dtype::kI32, {kBatch}}, -3, static_cast<double>(form.keys + 3)});
  }
  if (tested.dropout) {
    sample.attrs.set("rate", 0.2);
    sample.attrs.set("site", int64_t{-3});
    sample.attrs.set("whole", Shape{kBatch + 1, heads, form.queries, form.keys + 1});
    sample.inputs.push_back({{Dtype::kU32, {2}}, 0, 1e9});
    sample.inputs.push_back({{Dtype::kI32, {4}}, 0, 0.5});
  }
  if (tested.gradient) {
    const OpDef& forward = *find_op(Tested{false, tested.dropout}.name());
    Types types;
    for (const SampleInput& input : sample.inputs) {
      types.push_back(input.type);
    }
    const Types results = forward.infer(types, sample.attrs);
    sample.inputs.insert(sample.inputs.begin(), {results[0], -1, 1});
    sample.inputs.push_back({results[0], -1, 1});
    sample.inputs.push_back({results[1], 1, 3});
  }
  return {find_op(tested.name()), Dtype::kF32, 0, sample};
}

// The true results of the forward pass in place of random ones.
void make_consistent(Tensors& inputs, const Case& forward) {
  const size_t n = inputs.size();
  const Tensors results = run(forward, std::span(inputs).subspan(1, n - 3));
  inputs[n - 2] = results[0];
  inputs[n - 1] = results[1];
}

// The fast suite takes every seventh: each dim, bias and edge comes in some of them.
std::vector<Form> forms() {
  std::vector<Form> all;
  for (const int64_t dim : {16, 17, 33, 64, 80, 96, 128, 255, 256}) {
    for (const int bias : {0, 1, 2, 3, 4}) {
      all.push_back({65, 65, dim, dim, bias % 2 == 0, bias});
    }
  }
  for (const int64_t queries : {1, 12, 13, 63, 64, 65, 129}) {
    for (const int64_t keys : {1, 63, 64, 65, 130}) {
      for (const bool causal : {false, true}) {
        all.push_back({queries, keys, 31, 48, causal, 0});
        all.push_back({queries, keys, 48, 31, causal, 2});
      }
    }
  }
  for (const int64_t queries : {1, 4, 64, 65, 150}) {
    for (const int64_t keys : {64, 65, 150, 200}) {
      for (const int64_t window : {1, 13, 64, 100}) {
        all.push_back({queries, keys, 20, 32, true, 0, 1, window});
        all.push_back({queries, keys, 32, 16, true, 0, 2, window, 1, false, true});
      }
      all.push_back({queries, keys, 24, 16, false, 0, 1, 0, 1, true});
      all.push_back({queries, keys, 16, 24, true, 0, 2, 0, 2});
      all.push_back({queries, keys, 16, 48, true, 2, 1, 70, 1, true, true});
      all.push_back({queries, keys, 16, 16, false, 1, 1, 0, 2, true});
      all.push_back({queries, keys, 16, 16, true, 4, 1, 0, 0, false, true});
      all.push_back({queries, keys, 16, 20, false, 0, 2, 0, 0, false, false, true});
      all.push_back({queries, keys, 20, 16, true, 2, 1, 70, 1, true, true, true});
    }
  }
  std::vector<Form> taken;
  for (size_t i = 0; i < all.size(); i += static_cast<size_t>(stride(7))) {
    taken.push_back(all[i]);
  }
  return taken;
}

class AttentionTiles : public testing::TestWithParam<Tested> {};

// `change` makes of random inputs those that are tried.
template <class Change>
void expect_reference(const Form& form, const Tested& tested, const Change& change) {
  const Case it = case_of(form, tested);
  SCOPED_TRACE(to_string(it));
  Tensors inputs = inputs_of(it);
  change(inputs);
  Tensors expected;
  {
    const ContextScope scope(context_of(backend_named("reference")));
    if (tested.gradient) {
      make_consistent(inputs, case_of(form, {false, tested.dropout}));
    }
    expected = run(it, inputs);
  }
  for (const int threads : {1, 2}) {
    const ContextScope scope(context_of(backend_named("cpu"), threads));
    const Tensors actual = run(it, inputs);
    for (size_t i = 0; i < expected.size(); ++i) {
      // Sums over all keys and, for a shared bias, over all heads.
      ASSERT_EQ(difference(actual[i], expected[i], {2e-5, 1.0}), "") << "result " << i;
    }
  }
}

TEST_P(AttentionTiles, GiveWhatTheReferenceGives) {
  for (const Form& form : forms()) {
    expect_reference(form, GetParam(), [](const Tensors&) {});
  }
}

// Texts one after the other, of which some have no queries or no keys: whole tiles are left out.
TEST_P(AttentionTiles, LeaveOutOtherTexts) {
  const auto segments = [](int64_t count, std::initializer_list<int64_t> ends) {
    std::vector<int32_t> out;
    for (int64_t i = 0; i < 2 * count; ++i) {
      out.push_back(static_cast<int32_t>(
          std::count_if(ends.begin(), ends.end(), [&](int64_t end) { return end <= i % count; })));
    }
    return tensor<int32_t>(out, {2, count});
  };
  for (const auto& [queries, keys] : {std::pair(200, 330), {4, 150}, {1, 70}}) {
    for (const bool causal : {false, true}) {
      const Form form{queries, keys, 16, 16, causal, 0, 2, 0, causal ? 1 : 0, false, false, true};
      expect_reference(form, GetParam(), [&](Tensors& inputs) {
        const size_t first = (GetParam().gradient ? 4 : 3) + (causal ? 1U : 0U);
        inputs[first] = segments(queries, {3, 70, 128, 190});
        inputs[first + 1] = segments(keys, {66, 66, 120, 200, 300});
      });
    }
  }
}

// Scratch memory grows with the sequence, not with its square; so does that for a bias.
TEST_P(AttentionTiles, NeverHoldAllScores) {
  for (const int relative : {0, 1}) {
    const auto workspace = [&](int64_t length) {
      const Case it =
          case_of({length, length, 64, 64, true, 2 * (1 - relative), 2, 0, relative, relative == 1},
                  GetParam());
      Types types;
      std::vector<ViewType> in;
      for (const SampleInput& input : it.sample.inputs) {
        types.push_back(input.type);
        in.push_back(ViewType::dense(input.type));
      }
      std::vector<ViewType> out;
      for (const TensorType& type : it.op->infer(types, it.sample.attrs)) {
        out.push_back(ViewType::dense(type));
      }
      const KernelRequest request{*it.op, it.sample.attrs, in, out, 2};
      const KernelEntry* entry = find_kernel(backend_named("cpu"), *it.op);
      EXPECT_TRUE(entry->supports(request));
      return entry->prepare(request).workspace_bytes;
    };
    EXPECT_LE(workspace(8192), 2 * workspace(4096));
    EXPECT_LT(workspace(8192), 8192 * 8192 * 4 / 4);
  }
}

// Numbers that are none, in tiles that no query of a block sees, reach none of its results: the tiles are not read.
TEST_P(AttentionTiles, OutsideOfAWindowAreNotVisited) {
  constexpr int64_t kLength = 256, kHidden = 64, kSeeing = 192;
  const Form form{kLength, kLength, 16, 16, true, 0, 1, 64};
  const Case it = case_of(form, GetParam());
  const ContextScope scope(context_of(backend_named("cpu")));
  Tensors inputs = inputs_of(it);
  if (GetParam().gradient) {
    make_consistent(inputs, case_of(form, {false, GetParam().dropout}));
  }
  const Tensor whole = slice(run(it, inputs)[0], 1, kSeeing, kLength);
  for (size_t i : {1, 2}) {
    Tensor& x = inputs[GetParam().gradient ? i + 1 : i];
    Shape hidden = x.shape();
    hidden[1] = kHidden;
    x = concat(std::array{full(hidden, std::numeric_limits<double>::quiet_NaN()),
                          slice(x, 1, kHidden, kLength)},
               1);
  }
  const Tensors results = run(it, inputs);
  EXPECT_EQ(bit_difference(slice(results[0], 1, kSeeing, kLength), whole), "");
  EXPECT_TRUE(std::isnan(to_doubles(results[0])[0]));
}

INSTANTIATE_TEST_SUITE_P(Of, AttentionTiles,
                         testing::Values(Tested{false, false}, Tested{true, false},
                                         Tested{false, true}, Tested{true, true}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace mstrain
