// Parts of a row of evaluations.jsonl (core/train/report_data.h) as the report draws them.
#pragma once

#include <span>
#include <vector>

#include "core/base/json.h"
#include "core/io/images/image.h"

namespace mstrain::reinforcement {

// Whether the evaluation of this number, from 0 on, is looked at: each of the first ones, and eight of every doubling.
bool is_looked_at(int64_t number);

// To five digits, in which rows are written.
double rounded(double x);

// Of an episode or a game.
struct Moment {
  int64_t step;  // in front of which it was
  Image picture;
};
// How many are shown at most.
inline constexpr size_t kMoments = 6;
// strip: a PNG in base 64, of pictures of one size side by side; at: their steps. Of more than kMoments some, from the first to the last.
void add_strip(OrderedJson& row, std::span<const Moment> moments);

// What a state was taken to be worth, and what came of it.
struct Forecasted {
  double value, came;
};
// In bins of equally many, by their value: the mean value, and of what came the mean, a tenth and nine tenths; count: of all; explained:
// the share of their variance that values tell, null where there is none. Null of none.
OrderedJson compared(std::vector<Forecasted> states);

}  // namespace mstrain::reinforcement
