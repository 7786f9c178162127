// `mstrain play`: one command for all that learned to act. What it does, and what options it takes, follows from what the
// checkpoint holds.
#pragma once

#include <string>

#include "suites/run/suite.h"

namespace mstrain::reinforcement {

struct PlayKind {
  std::string file;  // that a checkpoint of this kind has, and no other
  Command command;   // its name is "play"; gets all arguments
};

// Once for each kind; the command itself comes with the first.
void add_play_kind(const PlayKind& kind);

}  // namespace mstrain::reinforcement
