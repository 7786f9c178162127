// What the ranks of a run tell each other besides tensors. Every rank calls these in the same order. `ranks` null: there is one rank,
// and each gives back what it is given.
//
// What a clock, a signal or a file decides is decided by rank 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/mesh.h"

namespace mstrain {

bool is_first(const Ranks* ranks);
// Rank 0's.
int64_t told(Ranks* ranks, int64_t value, std::string_view what);
std::string told(Ranks* ranks, const std::string& text, std::string_view what);
std::string told(Communicator& group, const std::string& text, std::string_view what);
// The least of all ranks.
int64_t least(Ranks* ranks, int64_t value, std::string_view what);
// Those of all ranks along `data`, one rank's after the other.
std::vector<double> gathered(Ranks* ranks, std::span<const double> values, std::string_view what);
// On rank 0 those of all ranks, by rank; elsewhere none.
std::vector<std::string> told_to_first(Ranks* ranks, std::string text, std::string_view what);
// Returns when all ranks are here.
void meet(Ranks* ranks, std::string_view what);
// Every rank works, in a thread of its own, and waits until all are done, however long that takes: no single wait for a peer takes as
// long. Throws what stopped the work, and Error where another rank failed. The work may use any group but the one that waits.
void work_together(Ranks* ranks, std::string_view what, const std::function<void()>& work);
void work_together(Communicator& group, std::string_view what, const std::function<void()>& work);
// How many ranks there are on the machine of this one.
int64_t ranks_here(Ranks* ranks);
int64_t ranks_here(Communicator& world);

}  // namespace mstrain
