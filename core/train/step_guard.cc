#include "core/train/step_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/train/state_fields.h"

namespace mstrain {
namespace {

constexpr const char* kOwner = "skipped steps";
constexpr float kAnyFinite = std::numeric_limits<float>::max();
constexpr double kLeastDeviation = 0.01;  // of the mean: norms that hardly vary make no spike

}  // namespace

float StepGuard::limit(int64_t step) const {
  if (!config_.skip_spikes) {
    return kAnyFinite;
  }
  const auto end = std::find_if(norms_.begin(), norms_.end(),
                                [&](const Norm& norm) { return norm.step >= step - 1; });
  const int64_t window = config_.skip_spikes->window;
  if (end - norms_.begin() < window) {
    return kAnyFinite;
  }
  const auto count = static_cast<double>(window);
  double mean = 0;
  for (auto norm = end - window; norm != end; ++norm) {
    mean += norm->value / count;
  }
  double variance = 0;
  for (auto norm = end - window; norm != end; ++norm) {
    variance += (norm->value - mean) * (norm->value - mean) / count;
  }
  const double deviation = std::max(std::sqrt(variance), kLeastDeviation * mean);
  return static_cast<float>(std::min(mean + config_.skip_spikes->deviations * deviation,
                                     static_cast<double>(kAnyFinite)));
}

bool StepGuard::observe(int64_t step, double loss, double grad_norm,
                        std::optional<double> loss_scale) {
  const bool finite = std::isfinite(loss) && std::isfinite(grad_norm);
  const float most = limit(step);
  const bool updated = finite && grad_norm <= static_cast<double>(most);
  if (config_.skip_spikes && std::isfinite(grad_norm)) {
    norms_.push_back({step, grad_norm});
    // One more than the window, for a step that does not know the last one yet.
    while (static_cast<int64_t>(norms_.size()) > config_.skip_spikes->window + 1) {
      norms_.pop_front();
    }
  }
  if (!finite && loss_scale && *loss_scale > precision_.loss_scale_min) {
    ++skipped_;
    log_info("step {}: overflow at a loss scale of {}; the step is skipped ({} so far)", step,
             *loss_scale, skipped_);
    return false;
  }
  const double scale = loss_scale.value_or(precision_.first_loss_scale());
  if (config_.not_finite == NotFinite::kStop && std::isfinite(loss) && !finite && scale > 1) {
    fail(
        "step {}: the gradient's norm is {} at a loss scale of {}, and the loss {}: begin anew "
        "with {}",
        step, grad_norm, scale, loss,
        loss_scale ? "a lower precision.loss_scale_min"
                   : "precision.loss_scale=dynamic, or a lower one");
  }
  if (!finite && config_.not_finite == NotFinite::kStop) {
    fail(
        "step {}: the loss is {} and the gradient's norm {}; a checkpoint, where there is "
        "one, is from before. Go on from it with --change optimizer.lr=LESS{}, a lower "
        "optimizer.clip_grad or a longer "
        "schedule.warmup_steps, or skip such steps: --change optimizer.not_finite=skip",
        step, loss, grad_norm,
        has_rows_ ? " (rows of ids: embedding.optimizer.lr, embedding.wide_optimizer.lr)" : "");
  }
  in_a_row_ = updated ? 0 : in_a_row_ + 1;
  skipped_ += updated ? 0 : 1;
  if (updated) {
    return true;
  }
  const std::string why =
      finite ? fmt::format("the gradient's norm is {:.4g}, more than {:.4g}", grad_norm, most)
             : fmt::format("the loss is {} and the gradient's norm {}", loss, grad_norm);
  if (in_a_row_ > config_.max_skipped) {
    fail("step {}: {}; {} steps were skipped before it already (optimizer.max_skipped)", step, why,
         config_.max_skipped);
  }
  log_warning("step {}: {}; the step is skipped", step, why);
  return false;
}

void StepGuard::check_any(int64_t steps) const {
  if (steps == 0 || skipped_ < steps) {
    return;
  }
  fail("none of {} steps changed a weight: all were skipped; {}", steps,
       precision_.scales_dynamically()
           ? "the loss scale has not come down to what gradients bear: begin anew with a lower "
             "precision.loss_scale_init, or take more steps"
           : "their loss or gradients are no finite numbers");
}

Json StepGuard::state() const {
  Json norms = Json::array();
  for (const Norm& norm : norms_) {
    norms.push_back({norm.step, norm.value});
  }
  return {{"skipped", skipped_}, {"in_a_row", in_a_row_}, {"norms", std::move(norms)}};
}

void StepGuard::restore(const Json& state) {
  skipped_ = state_count(state, "skipped", kOwner);
  in_a_row_ = state_count(state, "in_a_row", kOwner);
  norms_.clear();
  const auto norms = state.find("norms");
  check(norms != state.end() && norms->is_array(), "{}: the saved state has no norms", kOwner);
  for (const Json& norm : *norms) {
    check(norm.is_array() && norm.size() == 2 && norm[0].is_number_integer() && norm[1].is_number(),
          "{}: a saved norm is no pair of step and number", kOwner);
    norms_.push_back({norm[0].get<int64_t>(), norm[1].get<double>()});
  }
}

}  // namespace mstrain
