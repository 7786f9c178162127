// Running statistics among the parameters of a model. No rule of an optimizer moves them: a step replaces each by the mean of what its
// micro-batches say, weighted by what their losses count.
//
//   const Tensor mean_c = p.followed("running_mean", {c}, zeros_init());
//   if (current_context().training) FollowScope::follow(mean_c, 0.9 * mean_c + 0.1 * batch_mean_c);
//
// To steps a statistic is a parameter with the gradient that leads there, so that it is summed up, shared, stored and resumed like all others.
#pragma once

#include "core/ir/tensor.h"

namespace mstrain {

// Collects what is said in this thread until its end. Scopes nest.
class FollowScope {
 public:
  FollowScope();
  ~FollowScope();
  FollowScope(const FollowScope&) = delete;
  FollowScope& operator=(const FollowScope&) = delete;

  // `next`, of the type of the parameter `now`, takes its place after the step. Outside of every scope nobody hears it.
  static void follow(const Tensor& now, const Tensor& next);

  // For a sum over `count` predictions: each is 0, and its derivative by its `now` is count * (now - next).
  Tensors pulls(const Tensor& count) const;

 private:
  Tensors pulls_;  // 0, with the derivative now - next
  FollowScope* previous_;
};

}  // namespace mstrain
