#include "embedding_cache/past.h"

#include <algorithm>

#include "core/base/error.h"
#include "embedding_cache/core.h"

namespace mstrain::embedding_cache {

namespace {

constexpr size_t kKernelsKept = 1024;  // of some 250 bytes each, where a step is 8

}  // namespace

Past::Past(RowLayout layout) : layout_(std::move(layout)), no_gradient_(layout_.width()) {}

void Past::add(const PastStep& step) {
  if (!layout_.learns_always()) {
    return;
  }
  check(steps_.empty() || steps_.back().step < step.step,
        "embedding_cache: step {} after step {}, of a table whose rows learn at every step",
        step.step, steps_.empty() ? 0 : steps_.back().step);
  steps_.push_back(step);
  kernels_.push_back(kernel_of(step));
  if (kernels_.size() > kKernelsKept) {
    kernels_.pop_front();
  }
}

RowKernel Past::kernel_of(const PastStep& step) const {
  return make_kernel(layout_, step.step, step.lr_scale, PartsOf::kAlways);
}

void Past::add(std::span<const PastStep> steps) {
  for (const PastStep& step : steps) {
    add(step);
  }
}

bool Past::is_any_late(std::span<std::byte* const> records) const {
  return !steps_.empty() && std::any_of(records.begin(), records.end(),
                                        [&](const std::byte* record) { return is_late(record); });
}

void Past::catch_up(std::span<std::byte* const> records) const {
  std::vector<std::byte*> late;
  std::copy_if(records.begin(), records.end(), std::back_inserter(late),
               [&](const std::byte* record) { return is_late(record); });
  if (late.empty()) {
    return;
  }
  // Those that are behind farthest first: at each step a beginning of them learns.
  std::sort(late.begin(), late.end(), [&](const std::byte* a, const std::byte* b) {
    return layout_.until(a) < layout_.until(b);
  });
  const std::vector<const float*> gradients(late.size(), no_gradient_.data());
  const auto first =
      std::upper_bound(steps_.begin(), steps_.end(), layout_.until(late.front()),
                       [](uint32_t until, const PastStep& step) { return until < step.step; });
  size_t learning = 0;
  for (auto i = static_cast<size_t>(first - steps_.begin()); i < steps_.size(); ++i) {
    while (learning < late.size() && layout_.until(late[learning]) < steps_[i].step) {
      ++learning;
    }
    const size_t newer = steps_.size() - i;
    const auto learn = [&](const RowKernel& kernel) {
      kernel(late.data(), gradients.data(), learning);
    };
    newer <= kernels_.size() ? learn(kernels_[kernels_.size() - newer])
                             : learn(kernel_of(steps_[i]));
  }
  for (std::byte* const record : late) {
    layout_.set_until(record, steps_.back().step);
  }
}

const std::byte* Past::caught_up(const std::byte* record, std::vector<std::byte>& space) const {
  if (!is_late(record)) {
    return record;
  }
  space.assign(record, record + layout_.record_bytes());
  std::byte* const copy = space.data();
  catch_up(std::span(&copy, 1));
  return copy;
}

}  // namespace mstrain::embedding_cache
