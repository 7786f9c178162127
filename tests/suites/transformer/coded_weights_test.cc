// Models whose weights are kept in bf16 or in blocks of 8 or 4 bits, as `generate --weights` keeps them.
#include <gmock/gmock.h>

#include <cmath>

#include "core/io/safetensors_folder.h"
#include "core/nn/weight.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"
#include "core/train/pretrained.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/llama/model.h"
#include "suites/transformer/t5/model.h"
#include "suites/transformer/text/generate.h"
#include "suites/transformer/vit/model.h"
#include "tests/core/base/temporary_folder.h"

namespace mstrain {
namespace {

constexpr int64_t kTokens = 300;

// `more` changes the configuration.
template <class Model, class Config>
std::shared_ptr<const CausalModel> coded_model(int64_t heads,
                                               const std::function<void(Config&)>& more = {}) {
  Config config;
  config.vocab_size = kTokens;
  config.hidden_size = 72;
  config.num_layers = 2;
  config.num_attention_heads = heads;
  config.max_position_embeddings = 64;
  config.init.std = 0.1;
  if (more) {
    more(config);
  }
  return std::make_shared<Model>(config);
}

std::shared_ptr<const CausalModel> coded_gpt() { return coded_model<gpt::Gpt, gpt::GptConfig>(3); }
std::shared_ptr<const CausalModel> coded_llama() {
  return coded_model<llama::Llama, llama::LlamaConfig>(
      4, [](llama::LlamaConfig& config) { config.num_key_value_heads = 2; });
}

// How far results may lie from those of f32, in units of their standard deviation. Weights are off by 2^-9 of themselves in
// bf16, by 1/254 of the largest of 32 in int8, and by about a tenth of themselves in nf4; layers add theirs up.
double tolerance(WeightCode code) {
  return code == WeightCode::kBf16 ? 0.01 : code == WeightCode::kInt8 ? 0.03 : 0.5;
}

// The root of the mean square of actual - expected, in units of that of expected.
double distance(const Tensor& actual, const Tensor& expected) {
  const std::vector<double> a = to_doubles(actual);
  const std::vector<double> b = to_doubles(expected);
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(error / size);
}

Tensor ids_of(const Shape& shape) {
  Rng rng(5);
  std::vector<int32_t> ids(static_cast<size_t>(shape.elements()));
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(rng.below(kTokens));
  }
  return tensor<int32_t>(ids, shape);
}

class CodedModels : public testing::TestWithParam<WeightCode> {
 protected:
  // f(params) of a model that knows nothing of codes.
  template <class F>
  void expect_near_f32(const std::vector<ParamSpec>& specs, const F& f) {
    const Params params = init_params(specs, 7);
    const Tensor expected = f(params);
    const double off = distance(f(in_code(GetParam(), params, specs)), expected);
    EXPECT_GT(off, 0);
    EXPECT_LT(off, tolerance(GetParam()));
  }
};
INSTANTIATE_TEST_SUITE_P(All, CodedModels, testing::ValuesIn(kAllWeightCodes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(CodedModels, GiveNearlyTheLogitsOfF32) {
  for (const auto& model : {coded_gpt(), coded_llama()}) {
    expect_near_f32(model->specs(), [&](const Params& p) { return (*model)(p, ids_of({3, 17})); });
  }
}

TEST_P(CodedModels, GiveNearlyTheLossOfF32) {
  for (const auto& model : {coded_gpt(), coded_llama()}) {
    expect_near_f32(model->specs(), [&](const Params& p) {
      return model->loss(p, ids_of({3, 17}), ids_of({3, 17}));
    });
  }
}

TEST_P(CodedModels, AreAnyThatReadWeightsByLayers) {
  t5::T5Config config;
  config.vocab_size = kTokens;
  config.hidden_size = 72;
  config.d_kv = 24;
  config.num_attention_heads = 3;
  config.ffn_hidden_size = 90;
  config.num_layers = 1;
  const t5::T5 t5(config);
  expect_near_f32(t5.specs(), [&](const Params& p) {
    const t5::Text source{.tokens = ids_of({2, 9})};
    const t5::Text target{.tokens = ids_of({2, 5})};
    return t5.logits(p, t5.decode(p, target, t5.encode(p, source), source));
  });

  vit::VitConfig images;
  images.image_size = 8;
  images.patch_size = 4;
  images.num_channels = 1;
  images.hidden_size = 72;
  images.num_layers = 2;
  images.num_attention_heads = 3;
  images.num_classes = 40;
  images.init.std = 0.1;
  const vit::Vit vit(images);
  Rng rng(3);
  std::vector<float> pixels(2 * 64);
  for (float& pixel : pixels) {
    pixel = static_cast<float>(rng.normal());
  }
  expect_near_f32(vit.specs(), [&](const Params& p) {
    return vit(p, tensor<float>(pixels, {2, 1, 8, 8}));
  });
}

// The logits of every step are the same bits, and so is the text.
TEST_P(CodedModels, WriteTheSameForAnyNumberOfThreads) {
  const auto model = coded_llama();
  const Params params = in_code(GetParam(), init_params(model->specs(), 7), model->specs());
  const std::vector<int32_t> prompt{5, 100, 7};
  const auto steps = [&](int threads) {
    Context context = current_context();
    context.threads = threads;
    const ContextScope scope(context);
    Decoder decoder(model, Execution::kGraph);
    const std::span<const int32_t> prompts[] = {prompt};
    std::vector<std::vector<float>> logits{decoder.start(params, prompts, 40)};
    for (int i = 0; i < 20; ++i) {
      const auto& last = logits.back();
      const auto id =
          static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
      logits.push_back(decoder.next(params, std::span(&id, 1)));
    }
    return logits;
  };
  const auto one = steps(1);
  EXPECT_EQ(steps(2), one);
  EXPECT_EQ(steps(3), one);
}

// Reading a file into codes gives the codes of what the file holds, whatever types it has and however the weight lies there.
TEST_P(CodedModels, AreReadFromFilesAsTheyAreMadeInMemory) {
  const auto model = coded_gpt();
  const std::vector<ParamSpec> specs = model->specs();
  const Params params = init_params(specs, 7);
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    const TemporaryFolder folder;
    std::vector<SafetensorsWriter::Tensor> tensors;
    std::vector<Shape> shapes;
    Params stored;
    for (const ParamSpec& spec : specs) {
      const Shape& shape = spec.type.shape;
      tensors.push_back({spec.name, dtype, {shape.begin(), shape.end()}});
      shapes.push_back(shape);
      stored.set(spec.name, dense(cast(*params.find(spec.name), dtype)));
    }
    SafetensorsWriter writer(real_files(), folder.path() + "/" + kWeightsFile, tensors);
    for (const TensorEntry& entry : writer.entries()) {
      writer.append(entry.name, HostRead(*stored.find(entry.name)).bytes());
    }
    writer.finish();
    const Params read = load_pretrained(
        SafetensorsFolder(real_files(), folder.path()), "dir", specs, shapes,
        [](const std::string& name) {
          return StoredMeaning{StoredMeaning::Kind::kParameter, name};
        },
        GetParam());
    Params as_f32;
    for (const ParamSpec& spec : specs) {
      as_f32.set(spec.name, cast(*stored.find(spec.name), Dtype::kF32));
    }
    const Params expected = in_code(GetParam(), as_f32, specs);
    ASSERT_EQ(read.size(), expected.size());
    for (size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(read.name(i), expected.name(i));
      EXPECT_EQ(to_doubles(read.tensor(i)), to_doubles(expected.tensor(i))) << read.name(i);
    }
  }
}

// A weight of 40 MB goes into codes of 11 MB with a few hundred kB beside them.
TEST(CodedWeights, AreMadeWithoutTheNumbersInMemory) {
  const auto allocator = std::make_shared<Allocator>(0);
  Context context = current_context();
  context.allocator = allocator;
  const ContextScope scope(context);
  const Tensor rows = encode_weight(WeightCode::kInt8, "weight", {4000, 2500}, {.out_first = false},
                                    [](int64_t first, int64_t count, float* to) {
                                      for (int64_t i = 0; i < count; ++i) {
                                        to[i] = std::sin(static_cast<float>(first + i));
                                      }
                                    });
  EXPECT_EQ(rows.type().bytes(), 2500 * code_row_bytes(WeightCode::kInt8, 4000));
  EXPECT_LE(allocator->stats().peak_bytes, Allocator::rounded(rows.type().bytes()));
}

}  // namespace
}  // namespace mstrain
