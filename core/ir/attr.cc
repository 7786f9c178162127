#include "core/ir/attr.h"

#include <algorithm>
#include <bit>

#include "core/base/hash.h"
#include "core/ir/graph.h"

namespace mstrain {
namespace {

// Doubles compare and hash by their bits, so that NaN equals itself and -0 differs from 0.
bool same(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) {
    return false;
  }
  if (const double* x = std::get_if<double>(&a)) {
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(std::get<double>(b));
  }
  if (const GraphPtr* x = std::get_if<GraphPtr>(&a)) {
    const GraphPtr& y = std::get<GraphPtr>(b);
    return *x == y || **x == *y;
  }
  return a == b;
}

struct HashOf {
  uint64_t operator()(bool x) const { return x ? 1 : 0; }
  uint64_t operator()(int64_t x) const { return static_cast<uint64_t>(x); }
  uint64_t operator()(double x) const { return std::bit_cast<uint64_t>(x); }
  uint64_t operator()(Dtype x) const { return static_cast<uint64_t>(x); }
  uint64_t operator()(const Shape& x) const {
    uint64_t hash = static_cast<uint64_t>(x.rank());
    for (int64_t dim : x) {
      hash = hash_combine(hash, static_cast<uint64_t>(dim));
    }
    return hash;
  }
  uint64_t operator()(const std::string& x) const { return hash_bytes(x).lo; }
  uint64_t operator()(const GraphPtr& x) const { return x->hash(); }
};

}  // namespace

constinit const Attrs::Items Attrs::kNone;

void Attrs::set(std::string_view name, Attr value) {
  if (held_.use_count() != 1) {
    held_ = std::make_shared<Held>(items());
  }
  held_->hash.store(0, std::memory_order_relaxed);
  Items& own = held_->items;
  const auto at =
      std::lower_bound(own.begin(), own.end(), name,
                       [](const auto& item, std::string_view key) { return item.first < key; });
  if (at != own.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    own.emplace(at, std::string(name), std::move(value));
  }
}

const Attr* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : items()) {
    if (key == name) {
      return &value;
    }
  }
  return nullptr;
}

template <class T>
const T& Attrs::get(std::string_view name) const {
  const Attr* attr = find(name);
  check(attr != nullptr, "attribute {} is missing", name);
  const T* value = std::get_if<T>(attr);
  check(value != nullptr, "attribute {} is of another kind", name);
  return *value;
}

template const bool& Attrs::get<bool>(std::string_view) const;
template const int64_t& Attrs::get<int64_t>(std::string_view) const;
template const double& Attrs::get<double>(std::string_view) const;
template const Dtype& Attrs::get<Dtype>(std::string_view) const;
template const Shape& Attrs::get<Shape>(std::string_view) const;
template const std::string& Attrs::get<std::string>(std::string_view) const;
template const GraphPtr& Attrs::get<GraphPtr>(std::string_view) const;

Attrs Attrs::with(std::string_view name, Attr value) const {
  Attrs copy = *this;
  copy.set(name, std::move(value));
  return copy;
}

bool operator==(const Attrs& a, const Attrs& b) {
  return a.held_ == b.held_ || std::equal(a.items().begin(), a.items().end(), b.items().begin(),
                                          b.items().end(), [](const auto& x, const auto& y) {
                                            return x.first == y.first && same(x.second, y.second);
                                          });
}

uint64_t Attrs::hash() const {
  if (held_ == nullptr) {
    return 0;
  }
  if (const uint64_t known = held_->hash.load(std::memory_order_relaxed); known != 0) {
    return known;
  }
  uint64_t hash = items().size();
  for (const auto& [name, value] : items()) {
    hash = hash_combine(hash, hash_bytes(name).lo);
    hash = hash_combine(hash, value.index());
    hash = hash_combine(hash, std::visit(HashOf{}, value));
  }
  held_->hash.store(hash, std::memory_order_relaxed);
  return hash;
}

}  // namespace mstrain
