#include "mcts/search/gumbel_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"

namespace mstrain::mcts {
namespace {

float edge_mean(const Block& block, uint32_t i) {
  return block.sums()[i] / static_cast<float>(std::max(block.visits()[i], 1U));
}

// What is known of the visited edges of a block.
struct Visited {
  float visits = 0;
  float prior = 0;
  float prior_value = 0;
};

Visited add_up(const Block& block, const BlockFormat& format, uint32_t end) {
  Visited all;
  for (uint32_t i = 0; i < end; ++i) {
    if (block.visits()[i] > 0) {
      const float prior = unpack_prior(block.priors(format)[i]);
      all.visits += static_cast<float>(block.visits()[i]);
      all.prior += prior;
      all.prior_value += prior * edge_mean(block, i);
    }
  }
  return all;
}

}  // namespace

void GumbelRoot::plan(const Block& root, const BlockFormat& format, const SearchConfig& config,
                      int64_t simulations, Random& rng) {
  const uint32_t count = root.header().count;
  scale_ = {static_cast<float>(config.gumbel_visit), static_cast<float>(config.gumbel_scale)};
  gumbel_.resize(count);
  logits_.resize(count);
  visits_.assign(count, 0);
  for (uint32_t i = 0; i < count; ++i) {
    gumbel_[i] = static_cast<float>(rng.gumbel());
    logits_[i] = std::log(std::max(unpack_prior(root.priors(format)[i]), 1e-9F));
  }
  considered_.resize(count);
  std::iota(considered_.begin(), considered_.end(), 0U);
  std::stable_sort(considered_.begin(), considered_.end(), [&](uint32_t a, uint32_t b) {
    return gumbel_[a] + logits_[a] > gumbel_[b] + logits_[b];
  });
  considered_.resize(std::min<size_t>(count, static_cast<size_t>(config.gumbel_considered)));
  schedule_ = halving_schedule(static_cast<uint32_t>(considered_.size()),
                               static_cast<uint32_t>(std::clamp<int64_t>(simulations, 1, 1 << 24)));
  next_ = 0;
}

std::vector<float> GumbelRoot::improved_logits(const Block& root, const BlockFormat& format) const {
  const uint32_t count = root.header().count;
  std::vector<float> means(count);
  for (uint32_t i = 0; i < count; ++i) {
    means[i] = edge_mean(root, i);
  }
  const Visited all = add_up(root, format, count);
  const float mixed = mixed_value(root.trailer(format), all.visits, all.prior_value, all.prior);
  std::vector<float> result(count);
  transform_values({root.visits(), count}, means, mixed, scale_, result);
  for (uint32_t i = 0; i < count; ++i) {
    result[i] += logits_[i];
  }
  return result;
}

uint32_t GumbelRoot::choose(const Block& root, const BlockFormat& format) {
  check(planned(), "search: a Gumbel root is searched before its run has begun");
  // Past the plan (a budget by time) the schedule's last rounds go on.
  const uint32_t due =
      next_ < schedule_.size()
          ? schedule_[next_]
          : schedule_.back() + 1 + static_cast<uint32_t>((next_ - schedule_.size()) / 2);
  ++next_;
  const std::vector<float> improved = improved_logits(root, format);
  const auto score = [&](uint32_t edge) { return gumbel_[edge] + improved[edge]; };
  uint32_t best = considered_[0];
  bool found = false;
  for (const uint32_t edge : considered_) {
    const bool matches = visits_[edge] == due;
    if ((matches && !found) || (matches == found && score(edge) > score(best))) {
      best = edge;
      found = matches;
    }
  }
  ++visits_[best];
  return best;
}

uint32_t GumbelRoot::final_edge(const Block& root, const BlockFormat& format) const {
  const std::vector<float> improved = improved_logits(root, format);
  uint32_t best = considered_[0];
  for (const uint32_t edge : considered_) {
    if (visits_[edge] > visits_[best] ||
        (visits_[edge] == visits_[best] &&
         gumbel_[edge] + improved[edge] > gumbel_[best] + improved[best])) {
      best = edge;
    }
  }
  return best;
}

std::vector<float> GumbelRoot::policy(const Block& root, const BlockFormat& format) const {
  std::vector<float> result = improved_logits(root, format);
  softmax(result, result);
  return result;
}

uint32_t choose_improved(const Block& block, const BlockFormat& format, const GumbelScale& scale) {
  const uint32_t open = block.header().opened;
  const uint32_t count = block.header().count;
  const Visited all = add_up(block, format, open);
  const float mixed = mixed_value(block.trailer(format), all.visits, all.prior_value, all.prior);
  float low = mixed;
  float high = mixed;
  uint32_t most = 0;
  for (uint32_t i = 0; i < open; ++i) {
    low = std::min(low, edge_mean(block, i));
    high = std::max(high, edge_mean(block, i));
    most = std::max(most, block.visits()[i]);
  }
  const float factor =
      (scale.visit + static_cast<float>(most)) * scale.scale / std::max(high - low, 1e-8F);
  // The best q has sigma = (high - low) * factor; weights are taken relative to it, so exp() cannot overflow.
  const auto weight = [&](uint32_t i, float value) {
    return unpack_prior(block.priors(format)[i]) * std::exp((value - high) * factor);
  };
  float total = std::max(0.0F, 1 - all.prior) * std::exp((mixed - high) * factor);
  for (uint32_t i = 0; i < open; ++i) {
    total += weight(i, edge_mean(block, i));
  }
  total = std::max(total, std::numeric_limits<float>::min());
  uint32_t best = open;
  float best_score =
      open < count ? weight(open, mixed) / total : -std::numeric_limits<float>::infinity();
  for (uint32_t i = 0; i < open; ++i) {
    const float score = weight(i, edge_mean(block, i)) / total -
                        static_cast<float>(block.visits()[i]) / (1 + all.visits);
    if (score > best_score) {
      best_score = score;
      best = i;
    }
  }
  return best;
}

}  // namespace mstrain::mcts
