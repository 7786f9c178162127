// MuJoCo behind a seam: the one file that includes its headers is mujoco_physics.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/io/images/image.h"
#include "suites/reinforcement/env/mujoco_tasks.h"

namespace mstrain::reinforcement {

// One model, and one place to compute in. Whatever MuJoCo ends a call with is thrown as Error.
class MujocoPhysics {
 public:
  virtual ~MujocoPhysics() = default;

  virtual double seconds() const = 0;  // of a step of the task
  virtual std::vector<double> first_state()
      const = 0;  // positions, velocities: as the model has them
  // An episode begins at positions and velocities.
  virtual void begin(std::span<const double> state) = 0;
  virtual void step(std::span<const double> controls) = 0;
  virtual MujocoView view() const = 0;  // until the next call
  virtual double place() const = 0;     // along x, as the task has it

  // All that steps depend on, and nothing that they find.
  virtual int64_t whole_state_size() const = 0;
  virtual void save(std::span<double> state) const = 0;
  virtual void load(std::span<const double> state) = 0;

  virtual Image picture() = 0;  // from the side
};

// Why there is no MuJoCo; empty: there is.
std::string mujoco_missing();
// Throws Error for a file that is no model, or not of this task.
std::unique_ptr<MujocoPhysics> make_mujoco_physics(const MujocoTask& task,
                                                   const std::string& model);

}  // namespace mstrain::reinforcement
