// Where layers that draw random numbers find their key.
#pragma once

#include "core/ops/random.h"

namespace mstrain {

// Some of the samples of a batch: those of a micro-batch, or one of them.
struct SamplePart {
  Tensor first;       // i32 []: the place of the first in the batch
  int64_t count = 0;  // of the part
  int64_t whole = 0;  // of the batch
};

// Binds `key` (u32[2], new in every step) to this thread until the end of the scope. Scopes nest. Where the scope's function
// sees a part of a batch, its layers draw what they would draw for these samples in the whole.
class RandomScope {
 public:
  explicit RandomScope(Tensor key, std::optional<SamplePart> samples = {});
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  // The innermost key. Throws outside of every scope, naming the layer `path` that asks.
  static const Tensor& key(const std::string& path);

  // Which part of the layer's draw for the whole batch a draw of `shape` is, whose leading dim counts samples, or equally
  // many rows of each; nothing where the scope sees the whole. Throws as key() does, and where the dim does not divide.
  static std::optional<RandomPart> part(const std::string& path, const Shape& shape);

 private:
  static const RandomScope& scope(const std::string& path);

  Tensor key_;
  std::optional<SamplePart> samples_;
  const RandomScope* previous_;
};

}  // namespace mstrain
