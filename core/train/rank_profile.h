// Profiles of the ranks of a run, brought together by the first: one trace, and where each spent its time.
#pragma once

#include <span>
#include <vector>

#include "core/comm/mesh.h"
#include "core/train/profile.h"

namespace mstrain {

// On rank 0 what all ranks recorded, by rank, with their times on its clock; elsewhere nothing. Every rank calls it, and none
// of them before it has recorded what it will. `ranks` null: `own` alone.
std::vector<RankRecord> gather_records(Ranks* ranks, RankRecord own);

// Of records of the same steps, by rank. The n-th exchange of a rank along an axis is the n-th of the others there.
std::vector<RankTotal> rank_totals(std::span<const RankRecord> records, const Mesh& mesh);

// What they did in the step of median length. A rank's bars follow one another; where it waited for others there is none. Of a
// pipeline every action is a bar; else what parts of the step and exchanges follow each other without a pause.
Timeline measured_step(std::span<const RankRecord> records, const Mesh& mesh);

}  // namespace mstrain
