#include "core/tensor/params.h"

#include <unordered_map>

#include "core/base/hash.h"
#include "core/ops/build.h"
#include "core/ops/elementwise.h"
#include "core/ops/random.h"
#include "core/ops/shape.h"
#include "core/runtime/context.h"

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
  const std::string path = path_of(name);
  if (Tensor* stored = store_->find(path)) {
    check(stored->shape() == shape, "parameter {} is {}, the model needs {}", path,
          to_string(stored->shape()), to_string(shape));
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
  store_->declaring->push_back({path, type, init, decay});
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

Params abstract_params(std::span<const ParamSpec> specs) {
  check(Trace::innermost() != nullptr, "abstract parameters exist inside a trace only");
  Params params;
  for (const ParamSpec& spec : specs) {
    params.set(spec.name, zeros(spec.type));
  }
  return params;
}

}  // namespace mstrain
