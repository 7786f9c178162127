// How well scores rank samples of two kinds, exactly: the area under the ROC curve, ties counted half (Fawcett 2006, "An introduction to
// ROC analysis"). Scores come in any order; what is kept of them grows with the number of different scores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mstrain {

class RankedScores {
 public:
  // Log-odds, compared as f32, and labels: 1, 0, or below 0 for a sample that does not count.
  void add(std::span<const double> scores, std::span<const double> labels);

  int64_t positives() const { return positives_; }
  int64_t negatives() const { return negatives_; }
  // NaN where all samples are of one kind, or a score was NaN.
  double auc() const;
  // The mean log loss over that of who always says the share of positives (He et al. 2014). NaN where all samples are of one kind.
  double normalized_entropy(double mean_log_loss) const;
  // The sum of what was predicted over the number of positives; NaN without any.
  double calibration() const;

 private:
  struct Score {
    float value;
    uint32_t is_positive;
  };
  struct Tied {  // samples of one score
    float value;
    int64_t positives, negatives;
  };
  void merge() const;

  int64_t positives_ = 0, negatives_ = 0;
  double predicted_ = 0;
  bool has_nan_ = false;
  mutable std::vector<Score> recent_;  // not yet among the others
  mutable std::vector<Tied> ranked_;   // ascending
};

// The same within groups, such as the samples of one user: the mean of the groups' areas by their samples, over groups with samples of both
// kinds (Zhu et al. 2017, "Optimized cost per click in Taobao display advertising"). Keeps every sample.
class GroupedScores {
 public:
  // Groups are whole numbers.
  void add(std::span<const double> scores, std::span<const double> labels,
           std::span<const double> groups);
  double auc() const;  // NaN where no group has both kinds

 private:
  struct Sample {
    double group;
    float score;
    bool is_positive;
  };
  mutable std::vector<Sample> samples_;
};

}  // namespace mstrain
