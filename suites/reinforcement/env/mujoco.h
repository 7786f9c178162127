// MuJoCo's tasks as Gymnasium 1.4 has them in version 5: half_cheetah, hopper, walker2d, ant, humanoid. MuJoCo is looked for at run time:
// libmujoco.so in $MUJOCO_DIR or $MUJOCO_PATH (the folder, its lib or bin), then where the system looks; it must be of the version
// whose headers this was built with. Models are read from EnvConfig::models.
#pragma once

namespace mstrain::reinforcement {

// Of a build without the headers, too: what is missing is said by EnvEntry::missing and by whoever makes one.
void add_mujoco_environments();

}  // namespace mstrain::reinforcement
