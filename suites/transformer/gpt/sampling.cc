#include "suites/transformer/gpt/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/error.h"

namespace mstrain::gpt {

void check_sampling(const SamplingOptions& options) {
  check(options.temperature > 0 && std::isfinite(options.temperature),
        "temperature {}: expected a number above 0", options.temperature);
  check(!options.top_k || *options.top_k >= 1, "top-k {}: expected at least 1",
        options.top_k.value_or(1));
  check(!options.top_p || (*options.top_p > 0 && *options.top_p <= 1),
        "top-p {}: expected a number above 0 and at most 1", options.top_p.value_or(1));
}

int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, Rng& rng) {
  check(!logits.empty() &&
            std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }),
        "the model's logits are not finite");
  if (options.greedy) {
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  }
  // Most likely first; equals in the order of their ids, so that a seed always means the same text.
  std::vector<int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.top_k && *options.top_k < static_cast<int64_t>(ids.size())) {
    ids.resize(static_cast<size_t>(*options.top_k));
  }
  std::vector<double> weights;
  const double largest = logits[static_cast<size_t>(ids.front())];
  double total = 0;
  for (const int64_t id : ids) {
    weights.push_back(std::exp((logits[static_cast<size_t>(id)] - largest) / options.temperature));
    total += weights.back();
  }
  if (options.top_p) {
    double kept = 0;
    size_t count = 0;
    while (count < weights.size() && (count == 0 || kept < *options.top_p * total)) {
      kept += weights[count++];
    }
    weights.resize(count);
    total = kept;
  }
  double left = rng.uniform() * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) {
      return ids[i];
    }
  }
  return ids[weights.size() - 1];
}

}  // namespace mstrain::gpt
