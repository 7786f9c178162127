#include "core/nn/follow_scope.h"

#include <utility>

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"

namespace mstrain {
namespace {

thread_local FollowScope* innermost_follow = nullptr;

}  // namespace

FollowScope::FollowScope() : previous_(std::exchange(innermost_follow, this)) {}
FollowScope::~FollowScope() { innermost_follow = previous_; }

void FollowScope::follow(const Tensor& now, const Tensor& next) {
  if (innermost_follow != nullptr) {
    // Nothing is multiplied but 0: in 16 bits a product of two statistics would have no finite value to take away again.
    innermost_follow->pulls_.push_back(sum((now - stop_gradient(now)) * stop_gradient(now - next)));
  }
}

Tensors FollowScope::pulls(const Tensor& count) const {
  Tensors all;
  for (const Tensor& pull : pulls_) {
    all.push_back(pull * cast(count, pull.dtype()));
  }
  return all;
}

}  // namespace mstrain
