#include "suites/transformer/gpt/forward.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/nn/attention.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/transform/grad.h"
#include "suites/transformer/gpt/hf_names.h"
#include "suites/transformer/gpt/model.h"
#include "suites/transformer/gpt/stored_model.h"

namespace mstrain::gpt {
namespace {

constexpr int32_t kIgnored = -100;

struct Inputs {
  Tensor ids, mask, positions, labels;  // i32 [b, t]; all but the first may be null
};

// One tensor of the input file as i32, each element within [low, high) or equal to `also`.
class InputReader {
 public:
  explicit InputReader(const SafetensorsFile& file) : file_(file) {}

  Tensor read(const char* name, const Shape* like, int64_t low, int64_t high,
              std::optional<int64_t> also = {}) const {
    const TensorEntry& entry = file_.at(name);
    check(entry.shape.size() == 2 && entry.dtype.has_value() &&
              (like == nullptr || std::ranges::equal(entry.shape, *like)),
          "{}: {} is {} [{}], expected integers {}", file_.name(), name, entry.dtype_name,
          fmt::join(entry.shape, ", "), like == nullptr ? "[batch, time]" : to_string(*like));
    const Tensor given = tensor_from_bytes(file_.data(entry).data(),
                                           {*entry.dtype, {entry.shape[0], entry.shape[1]}});
    const std::vector<double> values = to_doubles(given);
    std::vector<int32_t> out;
    out.reserve(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      const bool known = (value >= static_cast<double>(low) && value < static_cast<double>(high)) ||
                         (also && value == static_cast<double>(*also));
      check(known && value == std::floor(value), "{}: {} holds {} at [{}, {}], expected {} … {}{}",
            file_.name(), name, value, i / static_cast<size_t>(entry.shape[1]),
            i % static_cast<size_t>(entry.shape[1]), low, high - 1,
            also ? fmt::format(" or {}", *also) : "");
      out.push_back(static_cast<int32_t>(value));
    }
    return tensor<int32_t>(out, given.shape());
  }

 private:
  const SafetensorsFile& file_;
};

Inputs read_inputs(const SafetensorsFile& file, const GptConfig& config) {
  static const std::vector<std::string> known{"input_ids", "attention_mask", "position_ids",
                                              "labels"};
  for (const TensorEntry& entry : file.entries()) {
    check(std::find(known.begin(), known.end(), entry.name) != known.end(),
          "{}: the model takes no tensor {}{}; it takes {}", file.name(), entry.name,
          did_you_mean(entry.name, known), fmt::join(known, ", "));
  }
  const InputReader reader(file);
  const int64_t vocab = *config.vocab_size.value;
  Inputs in;
  in.ids = reader.read("input_ids", nullptr, 0, vocab);
  const Shape& shape = in.ids.shape();
  check(shape.elements() > 0, "{}: input_ids is empty", file.name());
  check(shape[1] <= config.max_position_embeddings, "{}: input_ids has {} positions, the model {}",
        file.name(), shape[1], config.max_position_embeddings);
  const auto read_where_given = [&](const char* name, int64_t low, int64_t high,
                                    std::optional<int64_t> also = {}) {
    return file.contains(name) ? reader.read(name, &shape, low, high, also) : Tensor();
  };
  in.mask = read_where_given("attention_mask", 0, 2);
  in.positions = read_where_given("position_ids", 0, config.max_position_embeddings);
  in.labels = read_where_given("labels", 0, vocab, kIgnored);
  return in;
}

// What is added to the scores [b, 1, t, t] in place of the causal mask.
Tensor attention_bias(const Tensor& mask_bt) {
  const int64_t b = mask_bt.dim(0);
  const int64_t t = mask_bt.dim(1);
  const Tensor causal = less_equal(iota({t, t}, 1), iota({t, t}, 0));
  const Tensor seen = logical_and(reshape(not_equal(mask_bt, 0), {b, 1, 1, t}), causal);
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  return where(seen, full({}, 0), kHidden);
}

Tensor model_logits(const Gpt& model, const Params& p, const Inputs& in) {
  GptView view{.positions_bt = in.positions};
  if (in.mask.defined()) {
    const Tensor bias = attention_bias(in.mask);
    view.attend = [&model, bias](int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
      return attention(q, k, v, {.scale = model.config().attention_scale(layer), .bias = bias});
    };
  }
  return model(p, in.ids, view);
}

// The labels, one position ahead: [b, t].
Tensor shifted(const Tensor& labels_bt) {
  const int64_t b = labels_bt.dim(0);
  const int64_t t = labels_bt.dim(1);
  const Tensor parts[] = {slice(labels_bt, 1, 1, t), full({b, 1}, kIgnored, Dtype::kI32)};
  return concat(parts, 1);
}

struct Result {
  std::string name;
  Shape shape;
  Tensor value;
};

void write_results(FileSystem& files, const std::string& path, const std::vector<Result>& results) {
  std::vector<SafetensorsWriter::Tensor> entries;
  std::map<std::string, Tensor> values;
  for (const Result& result : results) {
    entries.push_back(
        {result.name, result.value.dtype(), {result.shape.begin(), result.shape.end()}});
    values[result.name] = dense(result.value);
  }
  SafetensorsWriter writer(files, path, entries, {{"format", "pt"}});
  for (const TensorEntry& entry : writer.entries()) {
    writer.append(entry.name, {static_cast<const std::byte*>(values.at(entry.name).data()),
                               static_cast<size_t>(entry.bytes)});
  }
  writer.finish();
}

}  // namespace

void forward(FileSystem& files, const ForwardRequest& request) {
  const StoredModel stored = open_model(files, request.model);
  const Inputs in = read_inputs(SafetensorsFile(files, request.input), stored.config);
  check(in.labels.defined() || !request.gradients, "{}: has no labels, which --grads needs",
        request.input);
  const Gpt model(stored.config);
  const Params params = load_params(files, stored);
  Context context = current_context();
  context.training = false;
  const ContextScope scope(context);

  std::vector<Result> results;
  const auto logits_of = [&](const Params& p) { return model_logits(model, p, in); };
  const auto logits_and_loss = [&](const Params& p) {
    const Tensor logits = logits_of(p);
    return std::pair(cross_entropy(logits, shifted(in.labels)), logits);
  };
  const auto add = [&](const char* name, const Tensor& value) {
    results.push_back({name, value.shape(), value});
  };
  if (!in.labels.defined()) {
    add("logits", jit(logits_of)(params));
  } else if (!request.gradients) {
    const auto [loss, logits] = jit(logits_and_loss)(params);
    add("logits", logits);
    add("loss", loss);
  } else {
    const auto [values, grads] = jit(value_and_grad(logits_and_loss))(params);
    add("logits", values.second);
    add("loss", values.first);
    const std::map<std::string, std::string> names = stored_names(files, stored);
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor& grad = grads.tensor(i);
      results.push_back(
          {"grad." + names.at(grads.name(i)), hf_shape(grads.name(i), grad.shape()), grad});
    }
  }
  write_results(files, request.output, results);
}

}  // namespace mstrain::gpt
