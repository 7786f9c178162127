#include "core/forecast/laid_model.h"

#include <algorithm>

namespace mstrain {

LaidModel::LaidModel(const ForecastInput& given, const Profile& of, const RunLayout& under)
    : input(given),
      profile(of),
      layout(under),
      share{static_cast<double>(layout.tensor), layout.tensor > 1 && layout.sequence_parallel,
            static_cast<double>(layout.context)},
      own(layout.own != nullptr ? check_schedule(*layout.own) : ScheduleFacts()),
      beside(input.beside == nullptr ? BesideSteps() : input.beside(layout)),
      chunks_(static_cast<size_t>(layout.pipeline)) {
  for (int64_t c = 0; c < layout.chunks(); ++c) {
    chunks_[static_cast<size_t>(rank_of_chunk(c))].push_back(c);
  }
}

int64_t LaidModel::rank_of_chunk(int64_t c) const {
  if (layout.own != nullptr) {
    return own.chunk_rank[static_cast<size_t>(c)];
  }
  return layout.schedule == ScheduleKind::kZbv && layout.pipeline > 1 && c >= layout.pipeline
             ? 2 * layout.pipeline - 1 - c
             : c % layout.pipeline;
}

double LaidModel::parameters_of_chunk(int64_t c) const {
  const auto part = [&](Region region) {
    return profile.regions[static_cast<size_t>(region)].parameters;
  };
  const double blocks = blocks_of_chunk(c);
  DividedBytes out{part(Region::kBlock).divided * blocks, part(Region::kBlock).whole * blocks};
  for (Region region : {Region::kFirst, Region::kLast}) {
    if (region == Region::kFirst ? c == 0 : c == layout.chunks() - 1) {
      out.divided += part(region).divided;
      out.whole += part(region).whole;
    }
  }
  // One chunk has what both ends share once.
  if (layout.chunks() == 1) {
    out.divided -= profile.tied.divided;
    out.whole -= profile.tied.whole;
  }
  return out.local(share.tensor, false);
}

double LaidModel::parameters_of_rank(int64_t r) const {
  double sum = 0;
  for (int64_t c : chunks_of_rank(r)) {
    sum += parameters_of_chunk(c);
  }
  return sum;
}

double LaidModel::parameters_beside(int64_t r) const {
  // What both ends share is counted for each of them.
  double sum = layout.chunks() == 1 ? 0 : -profile.tied.local(share.tensor, false);
  for (int64_t other = 0; other < layout.pipeline; ++other) {
    sum += other == r ? 0 : parameters_of_rank(other);
  }
  return std::max(sum, 0.0);
}

}  // namespace mstrain
