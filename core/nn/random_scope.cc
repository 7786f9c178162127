#include "core/nn/random_scope.h"

#include <utility>

namespace mstrain {
namespace {

thread_local const RandomScope* innermost = nullptr;

}  // namespace

RandomScope::RandomScope(Tensor key)
    : key_(std::move(key)), previous_(std::exchange(innermost, this)) {}

RandomScope::~RandomScope() { innermost = previous_; }

const Tensor& RandomScope::key(const std::string& path) {
  check(innermost != nullptr,
        "{}: draws random numbers, but no RandomScope gives a key; open one around the model",
        path);
  return innermost->key_;
}

}  // namespace mstrain
