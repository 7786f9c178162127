// Where layers that draw random numbers find their key.
#pragma once

#include "core/ir/tensor.h"

namespace mstrain {

// Binds `key` (u32[2], new in every step) to this thread until the end of the scope. Scopes nest.
class RandomScope {
 public:
  explicit RandomScope(Tensor key);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  // The innermost key. Throws outside of every scope, naming the layer `path` that asks.
  static const Tensor& key(const std::string& path);

 private:
  Tensor key_;
  const RandomScope* previous_;
};

}  // namespace mstrain
