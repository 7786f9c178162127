// Rows of observations by eights, the last ones filled up: a row's results are the same bits whatever rows it stands beside, so
// that actions do not depend on how environments are dealt out to actors.
#pragma once

#include <algorithm>
#include <span>

#include "core/tensor/host.h"
#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {

inline constexpr int64_t kRowsOfCall = 8;

// Rows from `begin` on of [n, width], as [8, width] with zeros behind the last.
inline Tensor eight_rows(std::span<const float> all, int64_t begin, int64_t width) {
  HostWrite out({Dtype::kF32, {kRowsOfCall, width}});
  const std::span<const float> rest = all.subspan(count(begin * width));
  const std::span<const float> rows = rest.first(std::min(rest.size(), count(kRowsOfCall * width)));
  const std::span<float> to = out.values<float>();
  std::ranges::fill(std::ranges::copy(rows, to.begin()).out, to.end(), 0.0F);
  return out.finish();
}

// Into rows from `begin` on of [n, width].
inline void copy_rows(const Tensor& from, int64_t begin, int64_t width, std::span<float> all) {
  const HostRead read(from);
  const std::span<float> to = all.subspan(count(begin * width));
  std::ranges::copy(read.values<float>().first(std::min(to.size(), count(kRowsOfCall * width))),
                    to.begin());
}

// program(eight rows of x[n, width], the first one's number) for all of them: its results into y[n, out_width].
template <class Program>
void by_eights(std::span<const float> x, int64_t width, int64_t out_width, std::span<float> y,
               Program&& program) {
  const auto rows = static_cast<int64_t>(x.size()) / width;
  for (int64_t row = 0; row < rows; row += kRowsOfCall) {
    copy_rows(program(eight_rows(x, row, width), row), row, out_width, y);
  }
}

}  // namespace mstrain::reinforcement
