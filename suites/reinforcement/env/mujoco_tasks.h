// What MuJoCo's tasks are, apart from their physics: sizes, what is seen of it, what it pays, when it ends.
#pragma once

#include <limits>
#include <span>

#include "suites/reinforcement/env/space.h"

namespace mstrain::reinforcement {

// Both ends excluded.
struct OpenRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool has(double x) const { return low < x && x < high; }
};

struct MujocoTask {
  enum class Place {
    kRoot,
    kTorso,
    kCentre
  };  // whose way along x is paid: qpos[0], body 1, the mass

  const char* name;
  const char* about;
  const char* model;                       // the file
  int64_t positions, velocities, actions;  // qpos, qvel, ctrl
  int64_t bodies = 0;                      // with the world; 0: none are seen
  double action_limit = 1;
  double threshold = std::numeric_limits<double>::quiet_NaN();

  int steps = 5;  // of the physics in one of the task
  Place place = Place::kRoot;
  double forward = 1, healthy = 0, control = 0, contact = 0;      // what is paid, and what it costs
  double most_contact = std::numeric_limits<double>::infinity();  // cost
  double most_force = std::numeric_limits<double>::infinity();    // of a contact, in size
  size_t height = 1;                                              // z in qpos
  OpenRange z{}, angle{}, rest{};  // healthy: z, what follows it, and all behind x

  size_t hidden = 1;  // first positions that are not seen
  double most_velocity = std::numeric_limits<double>::infinity();  // that is seen
  bool sees_bodies = false;  // their inertia, velocities, and forces of actuators

  double noise = 0.1;                 // of a beginning: uniform in ±
  bool has_normal_velocities = true;  // else uniform, too

  int64_t observation_size() const;
  EnvSpec spec() const;
};

std::span<const MujocoTask> mujoco_tasks();

// Of one environment after a step, as MuJoCo has it. Of bodies: rows [bodies, 6] or [bodies, 10], the world first.
struct MujocoView {
  std::span<const double> positions, velocities, controls;
  std::span<const double> inertias, body_velocities, actuator_forces, contact_forces;
};

bool is_healthy(const MujocoTask& task, const MujocoView& now);
// `speed`: along x. As of the end of the step.
double reward_of(const MujocoTask& task, const MujocoView& now, double speed);
void observe(const MujocoTask& task, const MujocoView& now, std::span<double> out);

}  // namespace mstrain::reinforcement
