// The tiled kernels of attention at the edges of their tiles, for head dims from 16 to 256 and every form of bias, against
// the decomposition on the reference backend; with and without dropout.
#include "core/ops/attention.h"

#include <cmath>

#include "core/ir/kernel.h"
#include "core/tensor/host.h"
#include "tests/conformance/cases.h"

namespace mstrain {
namespace {

struct Form {
  int64_t queries, keys, dim, value_dim;
  bool causal;
  int bias;  // 0: none; 1: one for all; 2: by head; 3: by sequence; 4: by both
};

struct Tested {
  bool gradient, dropout;
  std::string name() const {
    return fmt::format("attention{}{}", dropout ? "_dropout" : "", gradient ? "_grad" : "");
  }
};

Case case_of(const Form& form, const Tested& tested) {
  constexpr int64_t kBatch = 2, kHeads = 2;
  Sample sample{{{{Dtype::kF32, {kBatch, form.queries, kHeads, form.dim}}, -1.5, 1.5},
                 {{Dtype::kF32, {kBatch, form.keys, kHeads, form.dim}}, -1.5, 1.5},
                 {{Dtype::kF32, {kBatch, form.keys, kHeads, form.value_dim}}, -1, 1}},
                {{"causal", form.causal}, {"scale", 1 / std::sqrt(static_cast<double>(form.dim))}}};
  if (form.bias > 0) {
    const Shape bias{form.bias >= 3 ? kBatch : 1, form.bias % 2 == 0 ? kHeads : 1, form.queries,
                     form.keys};
    sample.inputs.push_back({{Dtype::kF32, bias}, -1, 1});
  }
  if (tested.dropout) {
    sample.attrs.set("rate", 0.2);
    sample.attrs.set("site", int64_t{-3});
    sample.attrs.set("whole", Shape{kBatch + 1, kHeads, form.queries, form.keys + 1});
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
  std::vector<Form> taken;
  for (size_t i = 0; i < all.size(); i += long_tests() ? 1 : 7) {
    taken.push_back(all[i]);
  }
  return taken;
}

class AttentionTiles : public testing::TestWithParam<Tested> {};

TEST_P(AttentionTiles, GiveWhatTheReferenceGives) {
  for (const Form& form : forms()) {
    const Case it = case_of(form, GetParam());
    SCOPED_TRACE(to_string(it));
    Tensors inputs = inputs_of(it);
    Tensors expected;
    {
      const ContextScope scope(context_of(Backend::kReference));
      if (GetParam().gradient) {
        make_consistent(inputs, case_of(form, {false, GetParam().dropout}));
      }
      expected = run(it, inputs);
    }
    for (const int threads : {1, 2}) {
      const ContextScope scope(context_of(Backend::kCpu, threads));
      const Tensors actual = run(it, inputs);
      for (size_t i = 0; i < expected.size(); ++i) {
        // Sums over all keys and, for a shared bias, over all heads.
        ASSERT_EQ(difference(actual[i], expected[i], {2e-5, 1.0}), "") << "result " << i;
      }
    }
  }
}

// Scratch memory grows with the sequence, not with its square; so does that for a bias.
TEST_P(AttentionTiles, NeverHoldAllScores) {
  for (const int bias : {0, 2}) {
    const auto workspace = [&](int64_t length) {
      const Case it = case_of({length, length, 64, 64, true, bias}, GetParam());
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
      const KernelEntry* entry = find_kernel(Backend::kCpu, *it.op);
      EXPECT_TRUE(entry->supports(request));
      return entry->prepare(request).workspace_bytes;
    };
    EXPECT_LE(workspace(8192), 2 * workspace(4096));
    EXPECT_LT(workspace(8192), 8192 * 8192 * 4 / 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, AttentionTiles,
                         testing::Values(Tested{false, false}, Tested{true, false},
                                         Tested{false, true}, Tested{true, true}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace mstrain
