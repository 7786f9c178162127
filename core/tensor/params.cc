#include "core/tensor/params.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/hash.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/random.h"
#include "core/ops/shape.h"
#include "core/runtime/context.h"
#include "core/tensor/host.h"

namespace mstrain {

struct Params::Store {
  std::vector<std::pair<std::string, Tensor>> items;
  std::unordered_map<std::string, size_t> index;
  std::vector<ParamSpec>* declaring = nullptr;

  Tensor* find(const std::string& name) {
    const auto found = index.find(name);
    return found == index.end() ? nullptr : &items[found->second].second;
  }
  void set(const std::string& name, Tensor value) {
    if (Tensor* existing = find(name)) {
      *existing = std::move(value);
    } else {
      index.emplace(name, items.size());
      items.emplace_back(name, std::move(value));
    }
  }
};

Params::Params() : store_(std::make_shared<Store>()) {}

std::string Params::path_of(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : fmt::format("{}.{}", prefix_, name);
}

Params Params::operator/(std::string_view name) const {
  Params inner = *this;
  inner.prefix_ = path_of(name);
  return inner;
}

Tensor Params::get(std::string_view name, const Shape& shape, const Init& init, bool decay) const {
  return declared(path_of(name), shape, init, decay, std::nullopt);
}

Tensor Params::followed(std::string_view name, const Shape& shape, const Init& init) const {
  const std::string path = path_of(name);
  const Tensor value = declared(path, shape, init, false, std::nullopt);
  if (store_->declaring != nullptr) {
    (*store_->declaring)[store_->index.at(path)].follows = true;
  }
  return value;
}

Weight Params::weight(std::string_view name, const Shape& shape, const MatrixForm& form,
                      const Init& init) const {
  const std::string path = path_of(name);
  Weight weight{{}, shape, form};
  for (const WeightCode code : kAllWeightCodes) {
    if (const Tensor* rows = store_->find(coded_name(path, code))) {
      const TensorType type{
          Dtype::kU8, {weight.out().elements(), code_row_bytes(code, weight.in().elements())}};
      check(rows->type() == type, "parameter {} is {}, the model needs {}", coded_name(path, code),
            to_string(rows->type()), to_string(type));
      weight.values = *rows;
      weight.code = code;
      return weight;
    }
  }
  weight.values = declared(path, shape, init, true, form);
  return weight;
}

// What is read in two ways has no form.
Tensor Params::declared(const std::string& path, const Shape& shape, const Init& init, bool decay,
                        const std::optional<MatrixForm>& form) const {
  if (Tensor* stored = store_->find(path)) {
    check(stored->shape() == shape, "parameter {} is {}, the model needs {}", path,
          to_string(stored->shape()), to_string(shape));
    if (store_->declaring != nullptr) {
      ParamSpec& spec = (*store_->declaring)[store_->index.at(path)];
      spec.matrix = spec.matrix == form ? form : std::nullopt;
    }
    return *stored;
  }
  if (store_->declaring == nullptr) {
    std::vector<std::string> names;
    for (const auto& [known, tensor] : store_->items) {
      names.push_back(known);
    }
    fail("parameter {} is missing{}", path, did_you_mean(path, names));
  }
  const TensorType type{Dtype::kF32, shape};
  store_->declaring->push_back({path, type, init, decay, form});
  const Tensor abstract = zeros(type);
  store_->set(path, abstract);
  return abstract;
}

size_t Params::size() const { return store_->items.size(); }
const std::string& Params::name(size_t i) const { return store_->items[i].first; }
const Tensor& Params::tensor(size_t i) const { return store_->items[i].second; }
const Tensor* Params::find(std::string_view full_name) const {
  return store_->find(std::string(full_name));
}

void Params::set(const std::string& full_name, Tensor value) {
  items();
  store_->set(full_name, std::move(value));
}

std::vector<std::pair<std::string, Tensor>>& Params::items() {
  if (store_.use_count() > 1) {
    store_ = std::make_shared<Store>(*store_);
  }
  return store_->items;
}

std::vector<std::pair<std::string, Tensor>>& Params::shared_items() const { return store_->items; }

Params joined(Params params, const Params& more) {
  for (size_t i = 0; i < more.size(); ++i) {
    params.set(more.name(i), more.tensor(i));
  }
  return params;
}

std::vector<ParamSpec> declare_params(const std::function<void(const Params&)>& model) {
  Context evaluating = current_context();  // so that nothing random is asked for
  evaluating.training = false;
  const ContextScope scope(evaluating);
  const Trace trace(Trace::Mode::kAbstract);
  std::vector<ParamSpec> specs;
  const Params params;
  params.store_->declaring = &specs;
  model(params);
  return specs;
}

std::vector<ParamSpec> shared(std::vector<ParamSpec> specs, std::span<const SharedDim> table) {
  for (ParamSpec& spec : specs) {
    for (const auto& [name, dim, parts] : table) {
      if (spec.name == name || spec.name.ends_with(fmt::format(".{}", name))) {
        spec.shared_dim = dim;
        spec.parts = parts;
      }
    }
  }
  return specs;
}

Params init_params(std::span<const ParamSpec> specs, uint64_t seed) {
  const Tensor key = rng_key(seed);
  Params params;
  for (const ParamSpec& spec : specs) {
    const auto& [kind, scale] = spec.init;
    Tensor value;
    switch (kind) {
      case Init::Kind::kZeros: value = copy(full(spec.type.shape, 0, spec.type.dtype)); break;
      case Init::Kind::kOnes: value = copy(full(spec.type.shape, 1, spec.type.dtype)); break;
      case Init::Kind::kNormal:
        value = scale * normal(key, spec.type.shape, {.site = spec.name, .dtype = spec.type.dtype});
        break;
      case Init::Kind::kUniform:
        value =
            scale *
            (2 * uniform(key, spec.type.shape, {.site = spec.name, .dtype = spec.type.dtype}) - 1);
        break;
    }
    params.set(spec.name, value);
  }
  return params;
}

Params in_code(WeightCode code, const Params& params, std::span<const ParamSpec> specs) {
  std::unordered_map<std::string, MatrixForm> forms;
  for (const ParamSpec& spec : specs) {
    if (spec.matrix) {
      forms.emplace(spec.name, *spec.matrix);
    }
  }
  Params out;
  for (size_t i = 0; i < params.size(); ++i) {
    const std::string& name = params.name(i);
    const auto form = forms.find(name);
    if (form == forms.end()) {
      out.set(name, params.tensor(i));
      continue;
    }
    const Tensor numbers = dense(cast(params.tensor(i), Dtype::kF32));
    const HostRead read(numbers);
    const float* const from = read.values<float>().data();
    out.set(coded_name(name, code), encode_weight(code, name, numbers.shape(), form->second,
                                                  [from](int64_t first, int64_t count, float* to) {
                                                    std::copy_n(from + first, count, to);
                                                  }));
  }
  return out;
}

Params abstract_params(std::span<const ParamSpec> specs) {
  check(Trace::innermost() != nullptr, "abstract parameters exist inside a trace only");
  Params params;
  for (const ParamSpec& spec : specs) {
    params.set(spec.name, zeros(spec.type));
  }
  return params;
}

}  // namespace mstrain
