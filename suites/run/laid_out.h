// Runs whose layout over ranks a file or a search decides.
#pragma once

#include "core/comm/communicator.h"
#include "suites/run/run.h"

namespace mstrain {

// `tree` with the layout that parallel.plan names, a file's; as it is where that is manual, or auto.
YamlNode with_named_layout(FileSystem& files, YamlNode tree);

// With the fastest layout that these ranks can run on this machine, as it is measured now, where parallel.plan is auto; a run that goes on
// keeps what it has, as far as its ranks are as many. All of `world` call it, and get the same. Throws ConfigError where they are on
// several machines.
YamlNode with_layout(FileSystem& files, YamlNode tree, Communicator& world, bool restarts);

}  // namespace mstrain
