#include "core/train/ranked_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mstrain {
namespace {

constexpr size_t kRecent = size_t{1} << 20;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void RankedScores::add(std::span<const double> scores, std::span<const double> labels) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (labels[i] < 0) {
      continue;
    }
    const bool is_positive = labels[i] > 0.5;
    (is_positive ? positives_ : negatives_) += 1;
    predicted_ += 1 / (1 + std::exp(-scores[i]));
    if (std::isnan(scores[i])) {
      has_nan_ = true;
      continue;
    }
    recent_.push_back({static_cast<float>(scores[i]) + 0.0F, is_positive ? 1U : 0U});  // -0 is 0
    if (recent_.size() >= std::max(kRecent, ranked_.size())) {
      merge();
    }
  }
}

void RankedScores::merge() const {
  std::sort(recent_.begin(), recent_.end(),
            [](const Score& a, const Score& b) { return a.value < b.value; });
  std::vector<Tied> merged;
  merged.reserve(ranked_.size() + recent_.size());
  const auto add = [&](float value, int64_t positives, int64_t negatives) {
    if (merged.empty() || merged.back().value != value) {
      merged.push_back({value, 0, 0});
    }
    merged.back().positives += positives;
    merged.back().negatives += negatives;
  };
  auto old = ranked_.begin();
  for (const Score& score : recent_) {
    for (; old != ranked_.end() && old->value <= score.value; ++old) {
      add(old->value, old->positives, old->negatives);
    }
    add(score.value, score.is_positive, 1 - score.is_positive);
  }
  for (; old != ranked_.end(); ++old) {
    add(old->value, old->positives, old->negatives);
  }
  ranked_ = std::move(merged);
  recent_.clear();
}

double RankedScores::auc() const {
  if (has_nan_ || positives_ == 0 || negatives_ == 0) {
    return kNone;
  }
  merge();
  double below = 0;  // negatives with lower scores
  double pairs = 0;
  for (const Tied& tied : ranked_) {
    pairs +=
        static_cast<double>(tied.positives) * (below + 0.5 * static_cast<double>(tied.negatives));
    below += static_cast<double>(tied.negatives);
  }
  return pairs / static_cast<double>(positives_) / static_cast<double>(negatives_);
}

double RankedScores::normalized_entropy(double mean_log_loss) const {
  if (positives_ == 0 || negatives_ == 0) {
    return kNone;
  }
  const double p = static_cast<double>(positives_) / static_cast<double>(positives_ + negatives_);
  return mean_log_loss / -(p * std::log(p) + (1 - p) * std::log1p(-p));
}

void GroupedScores::add(std::span<const double> scores, std::span<const double> labels,
                        std::span<const double> groups) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (labels[i] >= 0) {
      samples_.push_back({groups[i], static_cast<float>(scores[i]), labels[i] > 0.5});
    }
  }
}

double GroupedScores::auc() const {
  std::sort(samples_.begin(), samples_.end(),
            [](const Sample& a, const Sample& b) { return a.group < b.group; });
  double sum = 0;
  double weight = 0;
  for (auto first = samples_.begin(); first != samples_.end();) {
    const auto last = std::find_if(first, samples_.end(),
                                   [&](const Sample& each) { return each.group != first->group; });
    RankedScores of_group;
    std::for_each(first, last, [&](const Sample& each) {
      const double score = each.score;
      const double label = each.is_positive ? 1 : 0;
      of_group.add(std::span(&score, 1), std::span(&label, 1));
    });
    if (of_group.positives() > 0 && of_group.negatives() > 0) {
      const auto samples = static_cast<double>(last - first);
      sum += samples * of_group.auc();
      weight += samples;
    }
    first = last;
  }
  return weight > 0 ? sum / weight : kNone;
}

double RankedScores::calibration() const {
  return positives_ == 0 ? kNone : predicted_ / static_cast<double>(positives_);
}

}  // namespace mstrain
