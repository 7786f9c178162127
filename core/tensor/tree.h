// Structs of tensors as arguments. A struct states its members once:
//
//   struct Batch {
//     Tensor tokens, targets;
//     template <class V> void fields(V& v) { v("tokens", tokens); v("targets", targets); }
//   };
//
// and can then be differentiated, compiled, saved and passed to a jitted function. Tensors and Params are leaves; vectors,
// arrays, maps, optionals, pairs and tuples of trees are trees as they are. Numbers, enumerators and strings in a tree are
// static: part of the program that is recorded, by value, and not of its data. A jitted function is compiled again for
// other ones, a derivative leaves them as they are.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/tensor/params.h"

namespace mstrain {

class LeafVisitor;

// What a tree holds besides tensors.
template <class T>
concept StaticValue = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
    std::is_convertible_v<const T&, std::string_view>;

template <class T>
concept StatesFields = requires(T& tree, LeafVisitor& visitor) {
  tree.fields(visitor);
};

// Containers of trees, by what they are templates of.
template <class T>
inline constexpr bool kIsSequence = false;
template <class T>
inline constexpr bool kIsSequence<std::vector<T>> = !std::is_same_v<T, bool>;
template <class T, size_t n>
inline constexpr bool kIsSequence<std::array<T, n>> = true;
template <class T>
inline constexpr bool kIsTuple = false;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsMap = false;
template <class K, class T, class... Rest>
inline constexpr bool kIsMap<std::map<K, T, Rest...>> = StaticValue<K>;

template <class T>
concept Tree = std::is_same_v<T, Tensor> || std::is_same_v<T, Params> || StaticValue<T> ||
    kIsSequence<T> || kIsTuple<T> || kIsOptional<T> || kIsMap<T> || StatesFields<T>;

// The text with its line ends spelled out.
std::string on_one_line(std::string_view text);

// The value as text of one line, different for different values.
template <StaticValue T>
std::string static_text(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return fmt::format("{}", static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format("{}", value);
  } else {
    return on_one_line(value);
  }
}

// Visits the leaves of a tree in order, with their paths ("params.h.0.attn.weight").
class LeafVisitor {
 public:
  enum class Access { kRead, kWrite };
  using OnLeaf = std::function<void(const std::string& path, Tensor& leaf)>;
  using OnStatic = std::function<void(const std::string& path, const std::string& value)>;
  // Calls `on_leaf` for each tensor; with kWrite it may replace it. Calls `on_static`, where given, for what is static.
  LeafVisitor(Access access, OnLeaf on_leaf, OnStatic on_static = nullptr)
      : access_(access), on_leaf_(std::move(on_leaf)), on_static_(std::move(on_static)) {}

  template <class T>
  void operator()(std::string_view name, T& tree) {
    static_assert(Tree<T>,
                  "this type is no tree: a tree is a Tensor, Params, a number, an enumerator, a "
                  "std::string, a "
                  "std::vector, array, map, optional, pair or tuple of trees, or a struct that "
                  "states its members: "
                  "template <class V> void fields(V& v) { v(\"name\", name); }");
    if constexpr (Tree<T>) {
      const size_t length = enter(name);
      visit(tree);
      path_.resize(length);
    }
  }

 private:
  template <class T>
  void visit(T& tree) {
    if constexpr (std::is_same_v<T, Tensor>) {
      on_leaf_(path_, tree);
    } else if constexpr (std::is_same_v<T, Params>) {
      visit_params(tree);
    } else if constexpr (StaticValue<T>) {
      if (on_static_ != nullptr) {
        on_static_(path_, static_text(tree));
      }
    } else if constexpr (kIsSequence<T>) {
      size_t i = 0;
      for (auto& item : tree) {
        (*this)(std::to_string(i++), item);
      }
    } else if constexpr (kIsTuple<T>) {
      size_t i = 0;
      std::apply([&](auto&... item) { (((*this)(std::to_string(i++), item)), ...); }, tree);
    } else if constexpr (kIsOptional<T>) {
      if (tree.has_value()) {
        (*this)("", *tree);
      }
    } else if constexpr (kIsMap<T>) {
      for (auto& [key, item] : tree) {
        (*this)(static_text(key), item);
      }
    } else {
      tree.fields(*this);
    }
  }
  void visit_params(Params& params);

  // Adds a part to the path; returns how long it was.
  size_t enter(std::string_view name) {
    const size_t length = path_.size();
    if (!path_.empty() && !name.empty()) {
      path_ += '.';
    }
    path_ += name;
    return length;
  }

  Access access_;
  OnLeaf on_leaf_;
  OnStatic on_static_;
  std::string path_;
};

// The leaves in order.
template <class T>
Tensors flatten_tree(const T& tree, std::vector<std::string>* paths = nullptr) {
  Tensors leaves;
  LeafVisitor visitor(LeafVisitor::Access::kRead, [&](const std::string& path, Tensor& leaf) {
    leaves.push_back(leaf);
    if (paths != nullptr) {
      paths->push_back(path);
    }
  });
  visitor("", const_cast<T&>(tree));  // only read
  return leaves;
}

// What is static in a tree, a line each: "0.rate = 0.1". Equal for trees of one type whose static parts are equal.
template <class T>
std::string statics_of(const T& tree) {
  std::string text;
  LeafVisitor visitor(
      LeafVisitor::Access::kRead, [](const std::string&, Tensor&) {},
      [&](const std::string& path, const std::string& value) {
        text += fmt::format("{} = {}\n", path, value);
      });
  visitor("", const_cast<T&>(tree));  // only read
  return text;
}

// Who asks for something, for errors.
struct Caller {
  const char* name;
  SourceLocation where;
};

// Throws where one of the leaves, which have `paths` within argument number `place`, is an empty tensor.
void expect_tensors(const Tensors& leaves, const std::vector<std::string>& paths, size_t place,
                    const Caller& caller);

// The leaves of argument number `place`, none of which may be an empty tensor.
template <class T>
Tensors leaves_of_argument(const T& tree, size_t place, const Caller& caller) {
  std::vector<std::string> paths;
  Tensors leaves = flatten_tree(tree, &paths);
  expect_tensors(leaves, paths, place, caller);
  return leaves;
}

// A tree like `tree` with other leaves.
template <class T>
T with_leaves(T tree, std::span<const Tensor> leaves) {
  size_t next = 0;
  LeafVisitor visitor(LeafVisitor::Access::kWrite, [&](const std::string&, Tensor& leaf) {
    leaf = next < leaves.size() ? leaves[next] : Tensor();
    ++next;
  });
  visitor("", tree);
  check(next == leaves.size(), "a tree of {} tensors was given {}", next, leaves.size());
  return tree;
}

// A tree like `tree` whose leaves are f(leaf, the leaves of the others in its place…). Throws where the others hold
// other numbers of tensors.
template <class F, class T, class... Others>
T tree_map(const F& f, const T& tree, const Others&... others) {
  Tensors leaves = flatten_tree(tree);
  const std::array<Tensors, sizeof...(Others)> beside{flatten_tree(others)...};
  for (const Tensors& other : beside) {
    check(other.size() == leaves.size(), "tree_map: trees of {} and {} tensors", leaves.size(),
          other.size());
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    leaves[i] = [&]<size_t... k>(std::index_sequence<k...>)->Tensor {
      return f(std::as_const(leaves[i]), beside[k][i]...);
    }
    (std::index_sequence_for<Others...>());
  }
  return with_leaves(tree, leaves);
}

}  // namespace mstrain
