// What the ranks of a run do in a step, and when: bars for a picture, as planned or as measured.
#pragma once

#include <vector>

#include "core/base/json.h"
#include "core/schedule/schedule.h"

namespace mstrain {

// Between bars a rank waits.
struct Bar {
  enum class Kind : uint8_t { kForward, kBackward, kWeights, kUpdate, kExchange, kOther };
  Kind kind = Kind::kForward;
  int chunk = -1, micro_batch = -1;  // -1: not known, or of none
  double begin = 0, end = 0;         // seconds since the step began
};

// Of work that a schedule names.
Bar::Kind kind_of(Work work);

struct Timeline {
  double seconds = 0;
  std::vector<std::vector<Bar>> ranks;  // each in the order of time
};

// {seconds, ranks: [[["F", chunk, micro_batch, begin, end], …], …]}, with F, B, W and U as in schedules, X for an exchange and O
// for what is none of these; microseconds are the least that is told apart.
OrderedJson to_json(const Timeline& timeline);
// Throws Json::exception where it is none.
Timeline timeline_from(const Json& json);

}  // namespace mstrain
