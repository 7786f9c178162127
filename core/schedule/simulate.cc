#include "core/schedule/simulate.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/schedule/order.h"

namespace mstrain {

double SimulatedStep::bubble() const {
  double most = 0;
  for (size_t r = 0; r < busy.size(); ++r) {
    most = std::max(most, (end[r] - begin[r] - busy[r]) / busy[r]);
  }
  return most;
}

SimulatedStep simulate(const Schedule& schedule, const std::vector<ChunkTimes>& times) {
  check(times.size() == static_cast<size_t>(schedule.chunks),
        "times of {} chunks for a schedule of {}", times.size(), schedule.chunks);
  const ActionOrder order(schedule);
  const bool splits = schedule.splits_backward();
  const auto ranks = static_cast<size_t>(schedule.ranks);
  SimulatedStep out;
  out.begin.assign(ranks, -1);
  out.end.assign(ranks, 0);
  out.busy.assign(ranks, 0);
  std::vector<double> end(order.size());
  const auto stuck =
      order.walk(schedule.by_rank(), [&](const Action& action, const Action* source) {
        const auto r = static_cast<size_t>(action.rank);
        const ChunkTimes& chunk = times[static_cast<size_t>(action.chunk)];
        double begin = out.end[r];
        if (source != nullptr) {
          const ChunkTimes& from = times[static_cast<size_t>(source->chunk)];
          begin = std::max(
              begin, end[order.id(*source)] +
                         (action.work == Work::kForward ? from.send_forward : from.send_backward));
        }
        const double takes = action.work == Work::kForward   ? chunk.forward
                             : action.work == Work::kWeights ? chunk.weights
                             : splits                        ? chunk.backward
                                                             : chunk.backward + chunk.weights;
        out.begin[r] = out.begin[r] < 0 ? begin : out.begin[r];
        out.busy[r] += takes;
        out.end[r] = end[order.id(action)] = begin + takes;
      });
  check(!stuck, "schedule {} does not end; it was not checked", schedule.name);
  out.seconds = *std::max_element(out.end.begin(), out.end.end());
  return out;
}

}  // namespace mstrain
