#include "suites/run/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/error.h"

namespace mstrain {
namespace {

// The `count` most likely first; equals in the order of their ids, so that a seed always means the same text.
void sort_most_likely(std::span<const float> logits, std::vector<int64_t>& ids, int64_t count) {
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  check(options.temperature > 0 && std::isfinite(options.temperature),
        "temperature {}: expected a number above 0", options.temperature);
  check(!options.top_k || *options.top_k >= 1, "top-k {}: expected at least 1",
        options.top_k.value_or(1));
  check(!options.top_p || (*options.top_p > 0 && *options.top_p <= 1),
        "top-p {}: expected a number above 0 and at most 1", options.top_p.value_or(1));
  check(!options.min_p || (*options.min_p > 0 && *options.min_p <= 1),
        "min-p {}: expected a number above 0 and at most 1", options.min_p.value_or(1));
}

int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, Rng& rng,
                     std::vector<int64_t>* support) {
  check(!logits.empty() &&
            std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }),
        "the model's logits are not finite");
  if (options.greedy) {
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  }
  std::vector<double> weights;
  weights.reserve(logits.size());
  for (const double largest = *std::max_element(logits.begin(), logits.end());
       const float logit : logits) {
    weights.push_back(std::exp((logit - largest) / options.temperature));
  }
  const auto weight = [&](int64_t id) { return weights[static_cast<size_t>(id)]; };
  const auto count = static_cast<int64_t>(logits.size());
  std::vector<int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (options.top_k && *options.top_k < count) {
    sort_most_likely(logits, ids, *options.top_k);
    ids.resize(static_cast<size_t>(*options.top_k));
  }
  double total = 0;
  for (const int64_t id : ids) {
    total += weight(id);
  }
  if (options.top_p) {
    // Few tokens make up most of what is likely: more are sorted only where they are needed.
    double kept = 0;
    size_t taken = 0;
    size_t sorted = 0;
    while (taken < ids.size() && (taken == 0 || kept < *options.top_p * total)) {
      if (taken == sorted) {
        sorted = std::min(ids.size(), std::max<size_t>(64, 4 * sorted));
        sort_most_likely(logits, ids, static_cast<int64_t>(sorted));
      }
      kept += weight(ids[taken++]);
    }
    ids.resize(taken);
    total = kept;
  }
  if (options.min_p) {
    std::erase_if(ids, [&](int64_t id) { return weight(id) < *options.min_p; });
    total = 0;
    for (const int64_t id : ids) {
      total += weight(id);
    }
  }
  if (support != nullptr) {
    *support = ids;
  }
  double left = rng.uniform() * total;
  for (const int64_t id : ids) {
    left -= weight(id);
    if (left < 0) {
      return id;
    }
  }
  return ids.back();
}

}  // namespace mstrain
