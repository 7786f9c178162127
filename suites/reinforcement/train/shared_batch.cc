#include "suites/reinforcement/train/shared_batch.h"

#include <algorithm>

#include "suites/reinforcement/algorithms/sizes.h"

namespace mstrain::reinforcement {
namespace {

// f(place, turn, number in the part) for a learner's items that `holder` holds, in their order.
template <class F>
void each_item(const Replay& replay, const std::vector<int64_t>& places, const BatchParts& parts,
               int64_t learner, int64_t holder, const F& f) {
  for (int64_t turn = 0; turn < parts.turns(); ++turn) {
    for (int64_t i = 0; i < parts.size(); ++i) {
      const int64_t place = places[count(parts.first(turn, learner) + i)];
      if (replay.holder_of(place) == holder) {
        f(place, turn, i);
      }
    }
  }
}

}  // namespace

std::vector<std::vector<float>> shared_items(const Replay& replay,
                                             const std::vector<int64_t>& places,
                                             const BatchParts& parts, Communicator* ranks) {
  const int64_t numbers = replay.shape().item_numbers();
  std::vector<std::vector<float>> out(count(parts.turns()),
                                      std::vector<float>(count(parts.size() * numbers)));
  const auto item_of = [&](int64_t turn, int64_t i) {
    return std::span(out[count(turn)]).subspan(count(i * numbers), count(numbers));
  };
  if (ranks == nullptr) {
    each_item(replay, places, parts, 0, 0, [&](int64_t place, int64_t turn, int64_t i) {
      replay.read(place, item_of(turn, i));
    });
    return out;
  }
  std::vector<float> sent;
  std::vector<int64_t> sends, receives;
  int64_t arriving = 0;
  for (int64_t other = 0; other < parts.learners; ++other) {
    int64_t to = 0, from = 0;
    each_item(replay, places, parts, other, parts.learner, [&](int64_t place, int64_t, int64_t) {
      sent.resize(sent.size() + count(numbers));
      replay.read(place, std::span(sent).last(count(numbers)));
      to += numbers;
    });
    each_item(replay, places, parts, parts.learner, other,
              [&](int64_t, int64_t, int64_t) { from += numbers; });
    sends.push_back(to);
    receives.push_back(from);
    arriving += from;
  }
  std::vector<float> received(count(arriving));
  ranks
      ->all_to_all({sent.data(), static_cast<int64_t>(sent.size()), Dtype::kF32},
                   {received.data(), arriving, Dtype::kF32}, sends, receives, "drawn steps")
      .wait();
  std::span<const float> rest = received;
  for (int64_t other = 0; other < parts.learners; ++other) {
    each_item(replay, places, parts, parts.learner, other, [&](int64_t, int64_t turn, int64_t i) {
      std::ranges::copy(rest.first(count(numbers)), item_of(turn, i).begin());
      rest = rest.subspan(count(numbers));
    });
  }
  return out;
}

}  // namespace mstrain::reinforcement
