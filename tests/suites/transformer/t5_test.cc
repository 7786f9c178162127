#include "suites/transformer/t5/model.h"

#include "core/nn/random_scope.h"
#include "core/ops/random.h"
#include "core/runtime/context.h"
#include "suites/transformer/t5/hf_names.h"
#include "tests/core/transform/support.h"
#include "tests/suites/transformer/t5_golden.h"

namespace mstrain::t5 {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kSource = 17;
constexpr int64_t kTarget = 9;
constexpr int64_t kVocab = 13;

struct Example {
  Tensor source, mask, target, labels;
};
Example golden_example(bool padded) {
  std::vector<int32_t> source;
  std::vector<int32_t> mask;
  std::vector<int32_t> target;
  std::vector<int32_t> labels;
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < kSource; ++t) {
      const bool is_padding = padded && b == 1 && t >= kSource - 5;
      source.push_back(is_padding ? 0 : 1 + (7 * b + 3 * t + b * t) % 12);
      mask.push_back(is_padding ? 0 : 1);
    }
    for (int t = 0; t < kTarget; ++t) {
      target.push_back(t == 0 ? 0 : labels.back() < 0 ? 0 : labels.back());
      labels.push_back(padded && b == 1 && t >= kTarget - 3 ? -100 : 1 + (5 * b + 4 * t + 1) % 12);
    }
  }
  return {tensor<int32_t>(source, {2, kSource}),
          padded ? not_equal(tensor<int32_t>(mask, {2, kSource}), 0) : Tensor(),
          tensor<int32_t>(target, {2, kTarget}), tensor<int32_t>(labels, {2, kTarget})};
}

Tensor mean_loss(const T5& model, const Params& p, const Text& source, const Text& target,
                 const Tensor& labels) {
  const LossSums sums = model.losses(p, source, target, labels);
  return sums.loss / cast(sums.count, sums.loss.dtype());
}

void expect_golden(const golden::Case& expected, Recompute recompute, Dtype dtype,
                   double tolerance) {
  SCOPED_TRACE(expected.name);
  const T5 model(golden_config(expected), recompute);
  const Params p = golden::params(model.specs(), expected, dtype);
  const Example in = golden_example(expected.rest.at("padded"));
  const Text source{in.source, in.mask};
  const Text target{in.target};
  const Tensor logits = model.logits(p, model.decode(p, target, model.encode(p, source), source));
  const std::vector<double> all = to_doubles(logits);
  for (size_t i = 0; i < kVocab; ++i) {
    EXPECT_NEAR(all[(kTarget + 4) * kVocab + i], expected.logits[i], tolerance);
  }
  const auto loss = [&](const Params& q) { return mean_loss(model, q, source, target, in.labels); };
  const auto eager = value_and_grad(loss)(p);
  const auto compiled = jit(value_and_grad(loss))(p);
  for (const auto& [value, grads] : {eager, compiled}) {
    EXPECT_NEAR(item(value), expected.loss, tolerance * expected.loss);
    golden::expect_gradients(grads, expected, {.relative = tolerance});
  }
}

TEST(T5, EqualsHuggingFacesImplementation) {
  for (const golden::Case& expected : golden_file().cases) {
    expect_golden(expected, Recompute::kNone, Dtype::kF64, 1e-11);
    expect_golden(expected, Recompute::kNone, Dtype::kF32, 1e-5);
  }
}

TEST(T5, RecomputedEqualsHuggingFacesImplementation) {
  for (const golden::Case& expected : golden_file().cases) {
    expect_golden(expected, Recompute::kFull, Dtype::kF64, 1e-11);
    expect_golden(expected, Recompute::kSelective, Dtype::kF64, 1e-11);
  }
}

int64_t parameter_count(T5Config config) {
  config.vocab_size = 32128;
  int64_t count = 0;
  for (const ParamSpec& spec : T5(config).specs()) {
    count += spec.type.elements();
  }
  return count;
}

T5Config of_size(int64_t width, int64_t d_kv, int64_t inner, int64_t layers, int64_t heads,
                 bool is_v11) {
  T5Config config;
  config.hidden_size = width;
  config.d_kv = d_kv;
  config.ffn_hidden_size = inner;
  config.num_layers = layers;
  config.num_attention_heads = heads;
  config.gated = is_v11;
  config.tie_embeddings = !is_v11;
  return config;
}

TEST(T5, HasTheKnownNumbersOfParameters) {
  EXPECT_EQ(parameter_count(of_size(512, 64, 2048, 6, 8, false)), 60506624);
  EXPECT_EQ(parameter_count(of_size(768, 64, 3072, 12, 12, false)), 222903552);
  EXPECT_EQ(parameter_count(of_size(1024, 64, 4096, 24, 16, false)), 737668096);
  EXPECT_EQ(parameter_count(of_size(1024, 128, 16384, 24, 32, false)), 2851598336);
  EXPECT_EQ(parameter_count(of_size(1024, 128, 65536, 24, 128, false)), 11307321344);
  EXPECT_EQ(parameter_count(of_size(512, 64, 1024, 8, 6, true)), 76961152);
  EXPECT_EQ(parameter_count(of_size(768, 64, 2048, 12, 12, true)), 247577856);
  EXPECT_EQ(parameter_count(of_size(1024, 64, 2816, 24, 16, true)), 783150080);
  EXPECT_EQ(parameter_count(of_size(2048, 64, 5120, 24, 32, true)), 2849757184);
  EXPECT_EQ(parameter_count(of_size(4096, 64, 10240, 24, 64, true)), 11135332352);
}

T5Config tiny() {
  T5Config config = of_size(12, 5, 20, 2, 3, true);
  config.vocab_size = kVocab;
  config.relative_buckets = 8;
  config.relative_max_distance = 10;
  return config;
}

// f64, so that sums in another order are the same sums.
Params random_params(const T5& model) {
  Params p;
  uint64_t seed = 1;
  for (const ParamSpec& spec : model.specs()) {
    p.set(spec.name, random_tensor(spec.type.shape, seed++, -0.6, 0.6));
  }
  return p;
}

std::vector<int32_t> ids(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(static_cast<int32_t>(rng.between(1, kVocab - 1)));
  }
  return out;
}

// Samples of several lengths as rows that are padded, and as one row.
struct Rows {
  std::vector<int32_t> source, source_segments, target, target_segments, labels;

  void add(const std::vector<int32_t>& from, const std::vector<int32_t>& to, int32_t segment) {
    for (const int32_t id : from) {
      source.push_back(id);
      source_segments.push_back(segment);
    }
    for (size_t i = 0; i < to.size(); ++i) {
      target.push_back(i == 0 ? 0 : to[i - 1]);
      target_segments.push_back(segment);
      labels.push_back(to[i]);
    }
  }
  void pad(size_t source_length, size_t target_length) {
    source.resize(source_length);
    source_segments.resize(source_length);
    target.resize(target_length);
    target_segments.resize(target_length);
    labels.resize(target_length, -100);
  }
};

TEST(T5, PackedAndPaddedRowsAreOneObjective) {
  const T5 model(tiny());
  const Params p = random_params(model);
  const std::vector<std::pair<int64_t, int64_t>> lengths{{7, 4}, {3, 5}, {11, 1}};
  Rows padded;
  Rows packed;
  int32_t segment = 0;
  for (const auto& [from, to] : lengths) {
    const auto source = ids(from, 10 + static_cast<uint64_t>(from));
    const auto target = ids(to, 20 + static_cast<uint64_t>(to));
    padded.add(source, target, 1);
    padded.pad(11 * (static_cast<size_t>(segment) + 1), 5 * (static_cast<size_t>(segment) + 1));
    packed.add(source, target, ++segment);
  }
  packed.pad(25, 12);
  const auto sums_of = [&](const Rows& rows, int64_t count, bool by_segment) {
    const auto of = [&](const std::vector<int32_t>& values) {
      return tensor<int32_t>(values, {count, static_cast<int64_t>(values.size()) / count});
    };
    Text source{of(rows.source)};
    Text target{of(rows.target)};
    const Tensor labels = of(rows.labels);
    if (by_segment) {
      source.segments = of(rows.source_segments);
      target.segments = of(rows.target_segments);
    } else {
      source.mask = not_equal(of(rows.source_segments), 0);
    }
    const auto loss = [=, &model](const Params& q) {
      const LossSums sums = model.losses(q, source, target, labels);
      return std::pair(sums.loss, Tensors{sums.count, sums.correct, sums.exact, sums.samples});
    };
    return jit(value_and_grad(loss))(p);
  };
  const auto [expected, expected_grads] = sums_of(padded, 3, false);
  for (const auto& [rows, count] : {std::pair(&padded, 3), {&packed, 1}}) {
    const auto [sums, grads] = sums_of(*rows, count, true);
    expect_near(sums.first, expected.first);
    for (size_t i = 0; i < sums.second.size(); ++i) {
      EXPECT_EQ(item(sums.second[i]), item(expected.second[i])) << i;
    }
    for (size_t i = 0; i < grads.size(); ++i) {
      expect_near(grads.tensor(i), expected_grads.tensor(i), 1e-11);
    }
  }
  EXPECT_EQ(item(expected.second[0]), 10);
  EXPECT_EQ(item(expected.second[3]), 3);
}

TEST(T5, CountsASampleAsExactWhereEveryLabelIsTheLikeliest) {
  const T5 model(tiny());
  const Params p = random_params(model);
  const Text source{tensor<int32_t>(ids(12, 3), {3, 4})};
  const Text target{tensor<int32_t>(ids(15, 4), {3, 5})};
  const Tensor best =
      argmax(model.logits(p, model.decode(p, target, model.encode(p, source), source)), -1);
  std::vector<int32_t> labels = to_vector<int32_t>(best);
  labels[1] = -100;                      // sample 0: exact in what counts
  labels[7] = (labels[7] + 1) % kVocab;  // sample 1: not
  for (size_t i = 10; i < 15; ++i) {
    labels[i] = -100;  // sample 2: none
  }
  const LossSums sums = model.losses(p, source, target, tensor<int32_t>(labels, {3, 5}));
  EXPECT_EQ(item(sums.count), 9);
  EXPECT_EQ(item(sums.correct), 8);
  EXPECT_EQ(item(sums.samples), 2);
  EXPECT_EQ(item(sums.exact), 1);
}

TEST(T5, DropsOutInTrainingAlone) {
  T5Config config = tiny();
  config.dropout = 0.3;
  config.label_smoothing = 0.2;
  const T5 model(config);
  const Params p = random_params(model);
  const Text source{tensor<int32_t>(ids(10, 1), {2, 5})};
  const Text target{tensor<int32_t>(ids(8, 2), {2, 4})};
  const Tensor labels = tensor<int32_t>(ids(8, 3), {2, 4});
  const auto loss_in = [&](bool training, uint32_t key) {
    Context context = current_context();
    context.training = training;
    const ContextScope scope(context);
    const std::vector<uint32_t> words{key, 0};
    const RandomScope random(tensor<uint32_t>(words, {2}));
    return item(model.losses(p, source, target, labels).loss);
  };
  config.dropout = config.label_smoothing = 0;
  EXPECT_EQ(loss_in(false, 1), item(T5(config).losses(p, source, target, labels).loss));
  EXPECT_NE(loss_in(true, 1), loss_in(false, 1));
  EXPECT_NE(loss_in(true, 1), loss_in(true, 2));
}

TEST(T5, RefusesTextsWithoutARoomForTheirDistances) {
  T5Config config = tiny();
  config.relative_max_distance = 4;
  EXPECT_THAT([&] { T5 model(config); },
              ThrowsMessage<ConfigError>(HasSubstr("model.relative_max_distance")));
  config = tiny();
  config.eos_token = kVocab;
  EXPECT_THAT([&] { T5 model(config); }, ThrowsMessage<ConfigError>(HasSubstr("model.eos_token")));
  config = tiny();
  config.gated = true;
  config.activation = Activation::kGelu;
  EXPECT_THAT([&] { T5 model(config); }, ThrowsMessage<ConfigError>(HasSubstr("model.activation")));
}

}  // namespace
}  // namespace mstrain::t5
