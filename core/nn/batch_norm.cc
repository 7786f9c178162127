#include "core/nn/batch_norm.h"

#include "core/ops/elementwise.h"
#include "core/ops/shape.h"
#include "core/ops/statistics.h"
#include "core/runtime/context.h"

namespace mstrain {

Tensor batch_norm(const Params& p, Params& state, const Tensor& x,
                  const BatchNormOptions& options) {
  const NameScope scope = NameScope::absolute(p.path());
  check(x.rank() >= 2, "{}: an input {} has no dim of channels", p.path(), to_string(x.shape()));
  const int64_t channels = x.dim(1);
  const std::string mean_name = p.path_of("running_mean");
  const std::string variance_name = p.path_of("running_var");
  const Tensor weight = p.get("weight", {channels}, ones_init(), false);
  const Tensor bias = p.get("bias", {channels}, zeros_init(), false);
  Tensor mean_c = state.get(mean_name, {channels}, zeros_init(), false);
  Tensor variance_c = state.get(variance_name, {channels}, ones_init(), false);

  if (current_context().training) {
    Shape others;
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (axis != 1) {
        others.push_back(axis);
      }
    }
    const int64_t count = channels == 0 ? 0 : x.elements() / channels;
    check(count > 1, "{}: one value for each channel has no variance: {}", p.path(),
          to_string(x.shape()));
    const auto moved = [&](const Tensor& running, const Tensor& batch) {
      return (1 - options.momentum) * running + options.momentum * stop_gradient(batch);
    };
    const Tensor mean_x = mean(x, others);
    const Tensor variance_x = variance(x, others);
    const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
    state.set(state.path_of(mean_name), moved(mean_c, mean_x));
    state.set(state.path_of(variance_name), moved(variance_c, variance_x * unbiased));
    mean_c = mean_x;
    variance_c = variance_x;
  }

  Shape along_channels = Shape::filled(x.rank() - 1, 1);
  along_channels[0] = channels;
  const auto spread = [&](const Tensor& y) { return reshape(y, along_channels); };
  const Tensor scale = rsqrt(variance_c + options.eps) * weight;
  return (x - spread(mean_c)) * spread(scale) + spread(bias);
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
