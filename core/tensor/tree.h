// Structs of tensors as arguments. A struct states its members once:
//
//   struct Batch {
//     Tensor tokens, targets;
//     template <class V> void fields(V& v) { v("tokens", tokens); v("targets", targets); }
//   };
//
// and can then be differentiated, compiled, saved and passed to a jitted function. Tensors, vectors, pairs, tuples and
// Params are trees as they are.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "core/tensor/params.h"

namespace mstrain {

// Visits the leaves of a tree in order, with their paths ("params.h.0.attn.weight").
class LeafVisitor {
 public:
  enum class Access { kRead, kWrite };
  // Calls `leaf` for each tensor; with kWrite it may replace it.
  LeafVisitor(Access access, std::function<void(const std::string& path, Tensor& leaf)> leaf)
      : access_(access), leaf_(std::move(leaf)) {}

  void operator()(std::string_view name, Tensor& x) { leaf_(join(name), x); }
  void operator()(std::string_view name, Params& params);
  template <class T>
  void operator()(std::string_view name, std::vector<T>& items) {
    nested(name, [&] {
      for (size_t i = 0; i < items.size(); ++i) {
        (*this)(std::to_string(i), items[i]);
      }
    });
  }
  template <class... T>
  void operator()(std::string_view name, std::tuple<T...>& items) {
    nested(name, [&] {
      size_t i = 0;
      std::apply([&](T&... item) { (((*this)(std::to_string(i++), item)), ...); }, items);
    });
  }
  template <class A, class B>
  void operator()(std::string_view name, std::pair<A, B>& items) {
    nested(name, [&] {
      (*this)("0", items.first);
      (*this)("1", items.second);
    });
  }
  template <class T>
  requires requires(T& t, LeafVisitor& v) { t.fields(v); }
  void operator()(std::string_view name, T& tree) {
    nested(name, [&] { tree.fields(*this); });
  }

 private:
  std::string join(std::string_view name) const {
    return path_.empty()  ? std::string(name)
           : name.empty() ? path_
                          : path_ + "." + std::string(name);
  }
  template <class F>
  void nested(std::string_view name, const F& f) {
    std::string previous = join(name);
    std::swap(previous, path_);
    f();
    path_ = std::move(previous);
  }

  Access access_;
  std::function<void(const std::string&, Tensor&)> leaf_;
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

}  // namespace mstrain
