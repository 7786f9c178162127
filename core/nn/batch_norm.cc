#include "core/nn/batch_norm.h"

#include "core/nn/follow_scope.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/ops/statistics.h"
#include "core/runtime/context.h"

namespace mstrain {
namespace {

constexpr const char* kRunningMean = "running_mean";
constexpr const char* kRunningVariance = "running_var";

}  // namespace

Tensor batch_norm(const Params& p, Params& state, const Tensor& x,
                  const BatchNormOptions& options) {
  const NameScope scope = NameScope::absolute(p.path());
  check(x.rank() >= 2, "{}: an input {} has no dim of channels", p.path(), to_string(x.shape()));
  const int64_t channels = x.dim(1);
  const std::string mean_name = p.path_of(kRunningMean);
  const std::string variance_name = p.path_of(kRunningVariance);
  const Tensor weight = p.get("weight", {channels}, ones_init(), false);
  const Tensor bias = p.get("bias", {channels}, zeros_init(), false);
  const Tensor mean_c = state.get(mean_name, {channels}, zeros_init(), false);
  const Tensor variance_c = state.get(variance_name, {channels}, ones_init(), false);

  Shape along_channels = Shape::filled(x.rank() - 1, 1);
  along_channels[0] = channels;
  const auto spread = [&](const Tensor& y) { return reshape(y, along_channels); };
  if (!current_context().training) {
    const Tensor scale = rsqrt(variance_c + options.eps) * weight;
    return (x - spread(mean_c)) * spread(scale) + spread(bias);
  }

  const int64_t samples = options.samples == 0 ? x.dim(0) : options.samples;
  check(samples == x.dim(0) || x.dim(0) % samples == 0,
        "{}: statistics are of {} samples each, which do not divide {}", p.path(), samples,
        x.dim(0));
  // Groups of samples: [g, n, c, …].
  Shape grouped = x.shape();
  grouped[0] = samples;
  grouped = grouped.with_inserted(0, samples == 0 ? 1 : x.dim(0) / samples);
  Shape others{1};
  for (int axis = 3; axis < grouped.rank(); ++axis) {
    others.push_back(axis);
  }
  const int64_t count = channels == 0 ? 0 : x.elements() / channels / grouped[0];
  check(count > 1, "{}: one value for each channel has no variance: {}", p.path(),
        to_string(x.shape()));
  const Tensor x_g = reshape(x, grouped);
  const Tensor mean_g = mean(x_g, others, true);
  const Tensor variance_g = variance(x_g, others, true);
  const auto moved = [&](const Tensor& running, const Tensor& batch) {
    const Tensor batch_c = mean(reshape(batch, {grouped[0], channels}), {0});
    return (1 - options.momentum) * running + options.momentum * stop_gradient(batch_c);
  };
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  state.set(state.path_of(mean_name), moved(mean_c, mean_g));
  state.set(state.path_of(variance_name), moved(variance_c, variance_g * unbiased));
  const Tensor scale_g = rsqrt(variance_g + options.eps) * spread(weight);
  return reshape((x_g - mean_g) * scale_g + spread(bias), x.shape());
}

Tensor batch_norm(const Params& p, const Tensor& x, const BatchNormOptions& options) {
  Params state;
  for (const auto& [name, init] :
       {std::pair(kRunningMean, zeros_init()), std::pair(kRunningVariance, ones_init())}) {
    state.set(p.path_of(name), p.followed(name, {x.dim(1)}, init));
  }
  const Params before = state;
  const Tensor y = batch_norm(p, state, x, options);
  if (current_context().training) {
    for (const char* name : {kRunningMean, kRunningVariance}) {
      FollowScope::follow(*before.find(p.path_of(name)), *state.find(p.path_of(name)));
    }
  }
  return y;
}

StatefulSpecs declare_stateful(const std::function<void(const Params&, Params&)>& model) {
  StatefulSpecs specs;
  specs.params = declare_params([&](const Params& p) {
    specs.state = declare_params([&](const Params& s) {
      Params state = s;
      model(p, state);
    });
  });
  return specs;
}

}  // namespace mstrain
