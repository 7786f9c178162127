#include "core/schedule/order.h"

namespace mstrain {

Action ActionOrder::action(size_t id) const {
  const auto micro = static_cast<size_t>(micro_batches_);
  const auto chunks = static_cast<size_t>(chunks_);
  return {0, static_cast<Work>(id / micro / chunks), static_cast<int>(id / micro % chunks),
          static_cast<int>(id % micro)};
}

std::optional<Action> ActionOrder::source_of(const Action& action) const {
  Action source = action;
  if (action.work == Work::kForward && action.chunk > 0) {
    --source.chunk;
    return source;
  }
  if (action.work == Work::kBackward && action.chunk < chunks_ - 1) {
    ++source.chunk;
    return source;
  }
  return std::nullopt;
}

std::optional<Action> ActionOrder::reader_of(const Action& action) const {
  Action reader = action;
  if (action.work == Work::kForward && action.chunk < chunks_ - 1) {
    ++reader.chunk;
    return reader;
  }
  if (action.work == Work::kBackward && action.chunk > 0) {
    --reader.chunk;
    return reader;
  }
  return std::nullopt;
}

std::optional<Stuck> ActionOrder::stuck(const std::vector<std::vector<Action>>& ranks,
                                        const std::vector<size_t>& at) const {
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (at[r] == ranks[r].size()) {
      continue;
    }
    Stuck out{ranks[r][at[r]], *source_of(ranks[r][at[r]]), {}};
    for (size_t q = 0; q < ranks.size(); ++q) {
      for (size_t i = at[q]; i < ranks[q].size(); ++i) {
        const Action& later = ranks[q][i];
        if (later.work == out.awaited.work && later.chunk == out.awaited.chunk &&
            later.micro_batch == out.awaited.micro_batch) {
          out.awaited = later;
          out.other = ranks[q][at[q]];
        }
      }
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace mstrain
