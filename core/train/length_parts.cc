#include "core/train/length_parts.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace mstrain {
namespace {

// A batch is looked at in so many equal parts, or fewer. Neighbours become one program: each takes its time to compile.
constexpr int64_t kFineParts[] = {8, 4, 2};
constexpr size_t kMostPrograms = 4;
constexpr double kWorthwhile = 0.9;  // of the units of whole rows
// Products over fewer take longer for each.
constexpr int64_t kFewestUnits = 256;
constexpr uint64_t kMostSteps = uint64_t{1} << 40;

StepRange steps_of(const TrainTask& task, const TrainConfig& config) {
  const RunBegin begin =
      task.begin.value_or(RunBegin{.seed = static_cast<uint64_t>(config.run.seed)});
  const int64_t batch = config.batch.global;
  const int64_t left = std::max<int64_t>(0, config.schedule.total_steps - begin.step);
  // A run that goes on looks at the same steps as the whole one did, and comes to the same parts; one that is made longer mostly does.
  const int64_t first = begin.samples % batch;
  const auto steps = static_cast<uint64_t>(begin.samples / batch + left);
  return {begin.seed, batch, first,
          first + static_cast<int64_t>(std::bit_ceil(std::min(steps, kMostSteps))) * batch};
}

// Where the last part of each group ends, so that whole groups, each as long as its last part, have the fewest units.
std::vector<size_t> best_groups(std::span<const TrainTask> fine) {
  const size_t count = fine.size();
  const size_t most = std::min(count, kMostPrograms);
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  // [groups][parts]: units of the first parts, and where the last group begins.
  std::vector<std::vector<int64_t>> units(most + 1, std::vector<int64_t>(count + 1, kNone));
  std::vector<std::vector<size_t>> begins(most + 1, std::vector<size_t>(count + 1, 0));
  units[0][0] = 0;
  size_t best = 0;
  for (size_t groups = 1; groups <= most; ++groups) {
    for (size_t end = 1; end <= count; ++end) {
      for (size_t begin = 0; begin < end; ++begin) {
        if (units[groups - 1][begin] == kNone) {
          continue;
        }
        const int64_t total = units[groups - 1][begin] +
                              static_cast<int64_t>(end - begin) * fine[end - 1].units.count;
        if (total < units[groups][end]) {
          units[groups][end] = total;
          begins[groups][end] = begin;
        }
      }
    }
    if (best == 0 || units[groups][count] < units[best][count]) {
      best = groups;
    }
  }
  std::vector<size_t> ends;
  for (size_t end = count; best > 0; --best) {
    ends.push_back(end);
    end = begins[best][end];
  }
  std::ranges::reverse(ends);
  return ends;
}

std::vector<LengthPart> parts_of(const TrainTask& task, const TrainConfig& config, int64_t count) {
  std::vector<TrainTask> fine = task.in_parts(steps_of(task, config), count);
  if (fine.empty()) {
    return {};
  }
  std::vector<LengthPart> parts;
  const int64_t each = config.batch.global / count;
  double units = 0;
  size_t begin = 0;
  for (const size_t end : best_groups(fine)) {
    TrainTask& longest = fine[end - 1];
    LengthPart& part = parts.emplace_back(
        LengthPart{task, each * static_cast<int64_t>(end - begin), longest.units.count});
    part.task.batch_types = std::move(longest.batch_types);
    part.task.sums = std::move(longest.sums);
    part.task.positions = std::move(longest.positions);
    units += static_cast<double>(part.samples * part.units);
    begin = end;
  }
  const double whole = static_cast<double>(config.batch.global * task.units.count);
  return units <= kWorthwhile * whole ? std::move(parts) : std::vector<LengthPart>();
}

}  // namespace

std::vector<LengthPart> length_parts(const TrainTask& task, const TrainConfig& config,
                                     int64_t micro, int64_t ranks) {
  if (task.in_parts == nullptr) {
    return {};
  }
  const int64_t turn = micro * ranks * config.parallel.copies;
  for (const int64_t count : kFineParts) {
    if (config.batch.global % (count * turn) == 0) {
      return parts_of(task, config, count);
    }
  }
  return {};
}

int64_t most_in_micro_batch(const TrainTask& task, const TrainConfig& config, int64_t ranks) {
  const int64_t turn = ranks * config.parallel.copies;
  const int64_t all = config.batch.global / turn;
  if (task.in_parts == nullptr) {
    return all;
  }
  for (const int64_t count : kFineParts) {
    if (all % count != 0) {
      continue;
    }
    int64_t units = 0;
    for (const LengthPart& part : parts_of(task, config, count)) {
      units += part.samples * part.units;
    }
    if (units == 0) {
      break;
    }
    if (units / (count * turn) >= kFewestUnits) {
      return all / count;
    }
  }
  return all;
}

}  // namespace mstrain
