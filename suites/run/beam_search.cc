#include "suites/run/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"

namespace mstrain {
namespace {

// log(sum(exp(x)))
double log_sum_exp(std::span<const float> x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const float value : x) {
    sum += std::exp(static_cast<double>(value) - largest);
  }
  return largest + std::log(sum);
}

}  // namespace

void check_beams(const BeamOptions& options) {
  check(options.beams >= 1 && options.beams <= 1024, "beams {}: expected 1 … 1024", options.beams);
  check(std::isfinite(options.length_penalty), "length-penalty {}: expected a number",
        options.length_penalty);
}

BeamSearch::BeamSearch(const BeamOptions& options, int64_t tokens, std::vector<int32_t> stop)
    : options_(options), most_(tokens), stop_(std::move(stop)), open_(1) {
  check_beams(options);
  check(tokens >= 1, "tokens {}: expected at least 1", tokens);
}

bool BeamSearch::is_stop(int32_t token) const {
  return std::find(stop_.begin(), stop_.end(), token) != stop_.end();
}

void BeamSearch::finish(Text text) {
  const auto at = std::upper_bound(finished_.begin(), finished_.end(), text.score,
                                   [](double score, const Text& x) { return score > x.score; });
  finished_.insert(at, std::move(text));
  finished_.resize(std::min(finished_.size(), static_cast<size_t>(options_.beams)));
}

void BeamSearch::advance(std::span<const float> logits, int64_t known) {
  const auto beams = static_cast<size_t>(options_.beams);
  const size_t all = logits.size() / beams;
  const auto vocab = static_cast<size_t>(known);
  check(std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }),
        "the model's logits are not finite");
  std::vector<double> scores(open_.size() * vocab);
  for (size_t beam = 0; beam < open_.size(); ++beam) {
    const std::span<const float> row = logits.subspan(beam * all, all);
    const double base = open_[beam].score - log_sum_exp(row);
    std::transform(row.begin(), row.begin() + static_cast<ptrdiff_t>(vocab),
                   scores.begin() + static_cast<ptrdiff_t>(beam * vocab),
                   [base](float logit) { return base + static_cast<double>(logit); });
  }
  // As many as there are beams go on, even where the best ones all end.
  const size_t ends = std::max<size_t>(2, 1 + stop_.size());
  std::vector<size_t> best(scores.size());
  std::iota(best.begin(), best.end(), size_t{0});
  const size_t kept = std::min(best.size(), ends * beams);
  std::partial_sort(best.begin(), best.begin() + static_cast<ptrdiff_t>(kept), best.end(),
                    [&](size_t a, size_t b) {
                      return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
                    });
  best.resize(kept);

  ++length_;
  const bool is_last = length_ == most_;
  const double by_length = std::pow(static_cast<double>(length_), options_.length_penalty);
  std::vector<Text> open;
  last_.clear();
  from_.clear();
  for (size_t rank = 0; rank < best.size(); ++rank) {
    const size_t beam = best[rank] / vocab;
    const auto token = static_cast<int32_t>(best[rank] % vocab);
    const bool ends_here = is_stop(token);
    if ((ends_here || is_last) && rank >= beams) {
      continue;
    }
    if (!ends_here && !is_last && open.size() == beams) {
      continue;
    }
    Text text{open_[beam].text, scores[best[rank]]};
    if (!ends_here) {
      text.text.push_back(token);
    }
    if (ends_here || is_last) {
      text.score /= by_length;
      finish(std::move(text));
      continue;
    }
    open.push_back(std::move(text));
    last_.push_back(token);
    from_.push_back(static_cast<int32_t>(beam));
  }
  open_ = std::move(open);
  const bool could_improve =
      finished_.size() < beams ||
      (!open_.empty() && open_.front().score / by_length > finished_.back().score);
  done_ = is_last || open_.empty() || !could_improve;
  // A small vocabulary has fewer continuations than there are beams: the rest repeat one that nobody looks at.
  while (!done_ && last_.size() < beams) {
    last_.push_back(last_.front());
    from_.push_back(from_.front());
  }
}

}  // namespace mstrain
