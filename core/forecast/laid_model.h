// A model under a layout: which rank along the pipeline has which of its parts.
#pragma once

#include "core/forecast/input.h"
#include "core/forecast/profile.h"
#include "core/forecast/rates.h"
#include "core/schedule/check.h"

namespace mstrain {

// All references must outlive it.
class LaidModel {
 public:
  LaidModel(const ForecastInput& input, const Profile& profile, const RunLayout& layout);

  const ForecastInput& input;
  const Profile& profile;
  const RunLayout& layout;
  const WorkShare share;
  const ScheduleFacts own;  // of layout.own
  const BesideSteps beside;

  // Where the schedule puts chunk c.
  int64_t rank_of_chunk(int64_t c) const;
  const std::vector<int64_t>& chunks_of_rank(int64_t r) const {
    return chunks_[static_cast<size_t>(r)];
  }
  // Elements of parameters that are computed with, by a chunk and by a rank.
  double parameters_of_chunk(int64_t c) const;
  double parameters_of_rank(int64_t r) const;
  // And of those that other ranks alone have.
  double parameters_beside(int64_t r) const;
  double blocks_of_chunk(int64_t c) const {
    return static_cast<double>(layout.stages[static_cast<size_t>(c)]);
  }
  // Bytes of gradients that are summed up over micro-batches: a single one's have the type of the parameters.
  double gradient_bytes() const {
    return layout.micro_batches > 1 ? profile.gradient_bytes : profile.parameter_bytes;
  }

 private:
  std::vector<std::vector<int64_t>> chunks_;
};

}  // namespace mstrain
