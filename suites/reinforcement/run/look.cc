#include "suites/reinforcement/run/look.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "core/base/base64.h"

namespace mstrain::reinforcement {

double rounded(double x) { return std::strtod(fmt::format("{:.5g}", x).c_str(), nullptr); }

bool is_looked_at(int64_t number) {
  constexpr int kDense = 4;  // 2^4 of them are all looked at
  const int doublings = std::bit_width(static_cast<uint64_t>(number)) - kDense;
  return doublings <= 0 || number % (int64_t{1} << doublings) == 0;
}

void add_strip(OrderedJson& row, std::span<const Moment> moments) {
  constexpr int64_t kGap = 3;  // between two
  const size_t shown = std::min(kMoments, moments.size());
  const Image& first = moments.front().picture;
  const auto n = static_cast<int64_t>(shown);
  Image strip(first.height, n * first.width + (n - 1) * kGap, first.channels);
  std::ranges::fill(strip.pixels, 255);
  for (size_t i = 0; i < shown; ++i) {
    const Moment& moment = moments[shown == 1 ? 0 : i * (moments.size() - 1) / (shown - 1)];
    row["at"].push_back(moment.step);
    const int64_t left = static_cast<int64_t>(i) * (first.width + kGap) * first.channels;
    for (int64_t y = 0; y < first.height; ++y) {
      std::copy_n(moment.picture.row(y), first.width * first.channels, strip.row(y) + left);
    }
  }
  row["strip"] = to_base64(encode_png(strip));
}

OrderedJson compared(std::vector<Forecasted> states) {
  constexpr size_t kBins = 20;
  if (states.empty()) {
    return nullptr;
  }
  std::ranges::stable_sort(states, {}, &Forecasted::value);
  const auto variance = [&](const auto& of) {
    double sum = 0, squares = 0;
    for (const Forecasted& each : states) {
      sum += of(each);
    }
    const double mean = sum / static_cast<double>(states.size());
    for (const Forecasted& each : states) {
      squares += (of(each) - mean) * (of(each) - mean);
    }
    return squares;
  };
  const double all = variance([](const Forecasted& s) { return s.came; });
  OrderedJson out{{"count", states.size()}, {"explained", nullptr}};
  if (all > 0) {
    out["explained"] =
        rounded(1 - variance([](const Forecasted& s) { return s.came - s.value; }) / all);
  }
  const size_t bins = std::min(kBins, states.size());
  for (size_t bin = 0; bin < bins; ++bin) {
    const size_t begin = bin * states.size() / bins;
    const size_t end = (bin + 1) * states.size() / bins;
    std::vector<double> came;
    double value = 0, sum = 0;
    for (size_t i = begin; i < end; ++i) {
      value += states[i].value;
      sum += states[i].came;
      came.push_back(states[i].came);
    }
    std::ranges::sort(came);
    const auto n = static_cast<double>(came.size());
    const auto at = [&](double q) { return came[static_cast<size_t>(q * (n - 1) + 0.5)]; };
    out["value"].push_back(rounded(value / n));
    out["return"].push_back(rounded(sum / n));
    out["low"].push_back(rounded(at(0.1)));
    out["high"].push_back(rounded(at(0.9)));
  }
  return out;
}

}  // namespace mstrain::reinforcement
