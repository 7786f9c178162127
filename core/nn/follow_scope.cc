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
    const Tensor value = sum(now * stop_gradient(now - next));
    innermost_follow->pulls_.push_back(value - stop_gradient(value));
  }
}

Tensor FollowScope::with_pulls(const Tensor& sum, const Tensor& count) const {
  Tensor all = sum;
  for (const Tensor& pull : pulls_) {
    all = all + cast(pull * cast(count, pull.dtype()), all.dtype());
  }
  return all;
}

}  // namespace mstrain
