#include "suites/run/forward.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/nn/attention.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "core/ops/shape.h"
#include "core/tensor/host.h"
#include "core/tensor/jit.h"
#include "core/train/numbers.h"
#include "core/transform/grad.h"
#include "suites/run/adapted_network.h"
#include "suites/run/stored_model.h"

namespace mstrain {
namespace {

// "[1, 0]": where element i of a dense tensor stands.
std::string place_of(size_t element, const Shape& shape) {
  std::vector<int64_t> place(shape.rank());
  auto rest = static_cast<int64_t>(element);
  for (size_t i = place.size(); i-- > 0;) {
    place[i] = rest % shape[i];
    rest /= shape[i];
  }
  return fmt::format("[{}]", fmt::join(place, ", "));
}

// Sizes of dims by name.
using Sizes = std::map<std::string, int64_t>;

std::string expected_shape(const InputSpec& spec, const Sizes& sizes) {
  std::vector<std::string> dims;
  for (const InputSpec::Dim& dim : spec.dims) {
    const auto known = sizes.find(dim.name);
    dims.push_back(dim.exactly            ? std::to_string(*dim.exactly)
                   : known != sizes.end() ? std::to_string(known->second)
                                          : dim.name);
  }
  return fmt::format("{} [{}]", spec.integers ? "integers" : "numbers", fmt::join(dims, ", "));
}

// The input tensor `spec`; sizes that it is the first to have are added to `sizes`.
Tensor read_input(const SafetensorsFile& file, const InputSpec& spec, Sizes& sizes) {
  const TensorEntry& entry = file.at(spec.name);
  bool fits = entry.shape.size() == spec.dims.size() && entry.dtype.has_value() &&
              !(spec.integers && is_floating(*entry.dtype));
  for (size_t i = 0; fits && i < spec.dims.size(); ++i) {
    const InputSpec::Dim& dim = spec.dims[i];
    const auto known = sizes.find(dim.name);
    fits = (entry.shape[i] == 1 && i == 0 && spec.is_of_all) ||
           entry.shape[i] ==
               dim.exactly.value_or(known == sizes.end() ? entry.shape[i] : known->second);
  }
  check(fits, "{}: {} is {} [{}], expected {}", file.name(), spec.name, entry.dtype_name,
        fmt::join(entry.shape, ", "), expected_shape(spec, sizes));
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    const InputSpec::Dim& dim = spec.dims[i];
    check(entry.shape[i] > 0, "{}: {} is empty", file.name(), spec.name);
    check(entry.shape[i] <= dim.most.value_or(entry.shape[i]),
          "{}: {} has a {} of {}, the model at most {}", file.name(), spec.name, dim.name,
          entry.shape[i], *dim.most);
    sizes.emplace(dim.name, entry.shape[i]);
  }
  const Shape shape(entry.shape);
  const Tensor given = tensor_from_bytes(file.data(entry).data(), {*entry.dtype, shape});
  if (!spec.integers) {
    const Tensor numbers = cast(given, Dtype::kF32);
    const std::vector<float> values = to_vector<float>(numbers);
    const auto odd = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
    if (odd != values.end()) {
      log_warning("{}: {} holds {} at {}", file.name(), spec.name, *odd,
                  place_of(static_cast<size_t>(odd - values.begin()), shape));
    }
    return numbers;
  }
  const auto [low, high, also] = *spec.integers;
  const std::vector<double> values = to_doubles(given);
  std::vector<int32_t> out;
  out.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const bool known = (value >= static_cast<double>(low) && value < static_cast<double>(high)) ||
                       (also && value == static_cast<double>(*also));
    check(known && value == std::floor(value), "{}: {} holds {} at {}, expected {} … {}{}",
          file.name(), spec.name, value, place_of(i, shape), low, high - 1,
          also ? fmt::format(" or {}", *also) : "");
    out.push_back(static_cast<int32_t>(value));
  }
  return tensor<int32_t>(out, shape);
}

NamedTensors read_inputs(const SafetensorsFile& file, const std::vector<InputSpec>& specs) {
  std::vector<std::string> known;
  for (const InputSpec& spec : specs) {
    known.push_back(spec.name);
  }
  for (const TensorEntry& entry : file.entries()) {
    check(std::find(known.begin(), known.end(), entry.name) != known.end(),
          "{}: the model takes no tensor {}{}; it takes {}", file.name(), entry.name,
          did_you_mean(entry.name, known), fmt::join(known, ", "));
  }
  NamedTensors inputs;
  Sizes sizes;
  for (const InputSpec& spec : specs) {
    if (spec.is_required || file.contains(spec.name)) {
      Tensor& input = inputs[spec.name] = read_input(file, spec, sizes);
      if (spec.is_of_all) {
        Shape whole = input.shape();
        whole[0] = sizes.at(spec.dims[0].name);
        input = dense(broadcast_to(input, whole));
      }
    }
  }
  return inputs;
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
    writer.append(entry.name, HostRead(values.at(entry.name)).bytes());
  }
  writer.finish();
}

void warn_unless_finite(const Tensor& loss, const std::string& input) {
  if (const double value = without_sign_of_nan(item(loss)); !std::isfinite(value)) {
    log_warning("{}: the loss is {}", input, value);
  }
}

// What the network finds wrong with its inputs names their file.
Computed compute(const Network& network, const Params& params, const NamedTensors& inputs,
                 const std::string& file) {
  try {
    return network.compute(params, inputs);
  } catch (const Error& error) {
    throw IoError(fmt::format("{}: {}", file, error.what()));
  }
}

}  // namespace

void forward(FileSystem& files, const ForwardRequest& request) {
  const StoredModel stored = open_model(files, request.model);
  const Network& network = *stored.network;
  const NamedTensors inputs = read_inputs(SafetensorsFile(files, request.input), network.inputs());
  const bool has_labels = inputs.contains("labels");
  check(has_labels || !request.gradients, "{}: has no labels, which --grads needs", request.input);
  const Params params = load_params(files, stored);
  Context context = current_context();
  context.training = false;
  const ContextScope scope(context);

  std::vector<Result> results;
  const auto logits_of = [&](const Params& p) {
    return compute(network, p, inputs, request.input).logits;
  };
  const auto loss_and_logits = [&](const Params& p) {
    const Computed computed = compute(network, p, inputs, request.input);
    return std::pair(computed.loss, computed.logits);
  };
  const auto add = [&](const char* name, const Tensor& value) {
    results.push_back({name, value.shape(), value});
  };
  if (!has_labels) {
    add("logits", jit(logits_of)(params));
  } else if (!request.gradients) {
    const auto [loss, logits] = jit(loss_and_logits)(params);
    add("logits", logits);
    add("loss", loss);
    warn_unless_finite(loss, request.input);
  } else {
    // Of an adapter the weights that it adapts have no gradient.
    Params trained = params;
    Params others;
    if (const auto* const adapted = dynamic_cast<const AdaptedNetwork*>(&network)) {
      trained = {};
      for (size_t i = 0; i < params.size(); ++i) {
        (adapted->lora().trains(params.name(i)) ? trained : others)
            .set(params.name(i), params.tensor(i));
      }
    }
    const auto of_trained = [&](const Params& p, const Params& rest) {
      return loss_and_logits(joined(p, rest));
    };
    const auto [values, grads] = jit(value_and_grad(of_trained))(trained, others);
    add("logits", values.second);
    add("loss", values.first);
    warn_unless_finite(values.first, request.input);
    const std::map<std::string, std::string> names = stored_names(files, stored);
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor& grad = grads.tensor(i);
      const std::string& name = grads.name(i);
      results.push_back({"grad." + names.at(name), network.stored_shape(name, grad.shape()), grad});
    }
  }
  write_results(files, request.output, results);
}

}  // namespace mstrain
