// Attributes of an operation: plain data whose equality, hash and printed form are derived from the variant.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/runtime/dtype.h"
#include "core/runtime/shape.h"

namespace mstrain {

class Graph;
using GraphPtr =
    std::shared_ptr<const Graph>;  // bodies of loops and calls; equal when structurally equal

using Attr = std::variant<bool, int64_t, double, Dtype, Shape, std::string, GraphPtr>;

// A few named values, kept sorted by name. Copies share them until one is changed: passes copy most nodes as they are.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string_view, Attr>> items) {
    for (const auto& [name, value] : items) {
      set(name, value);
    }
  }

  void set(std::string_view name, Attr value);
  const Attr* find(std::string_view name) const;  // null where absent

  // The value of `name`; throws Error where it is absent or of another kind.
  bool flag(std::string_view name) const { return get<bool>(name); }
  int64_t integer(std::string_view name) const { return get<int64_t>(name); }
  double number(std::string_view name) const { return get<double>(name); }
  Dtype dtype(std::string_view name) const { return get<Dtype>(name); }
  const Shape& ints(std::string_view name) const { return get<Shape>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }
  const GraphPtr& graph(std::string_view name) const { return get<GraphPtr>(name); }

  // A copy with one value changed or added.
  Attrs with(std::string_view name, Attr value) const;

  using Items = std::vector<std::pair<std::string, Attr>>;
  const Items& items() const { return held_ == nullptr ? kNone : held_->items; }
  friend bool operator==(const Attrs& a, const Attrs& b);
  uint64_t hash() const;

 private:
  template <class T>
  const T& get(std::string_view name) const;

  struct Held {
    explicit Held(const Items& all) : items(all) {}
    Items items;
    std::atomic<uint64_t> hash = 0;  // of the items, once asked for; 0: not yet
  };

  static const Items kNone;
  std::shared_ptr<Held> held_;  // null: none
};

}  // namespace mstrain
