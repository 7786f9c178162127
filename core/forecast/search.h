// The best layouts of a run on a cluster.
#pragma once

#include <functional>
#include <set>

#include "core/forecast/forecast.h"

namespace mstrain {

// The profile of a micro-batch of a layout, or of one of its copies.
using ProfileOf = std::function<const Profile&(const RunLayout& layout)>;

// Why a layout is none that a run may have, for people; empty: it is one.
using Objection = std::function<std::string(const RunLayout&)>;

struct SearchResult {
  std::vector<Forecast> best;  // that fit, fastest first
  std::vector<Forecast>
      too_large;  // faster than the best or, where none fits, nearest to the memory that is there
  std::vector<Forecast> slower;  // the fastest of other kinds: tensor, pipeline or schedule differ
  int64_t considered = 0;
  std::string objection;  // to the last layout that was left out for one
};

// Tries what `given` leaves open. `fixed` are keys ("parallel.tensor", "batch.micro", "memory.recompute") that stay as they are in
// `given`; the rest of it, such as overlap, stays too. Keeps `top` of each list at most, of layouts without an objection.
SearchResult search_layouts(const ForecastInput& input, const ProfileOf& profile_of,
                            const RunLayout& given, const std::set<std::string>& fixed, size_t top,
                            const Objection& objection = nullptr);

// Why `it` lost against `best`, in a few words.
std::string reason(const Forecast& it, const Forecast* best);

}  // namespace mstrain
