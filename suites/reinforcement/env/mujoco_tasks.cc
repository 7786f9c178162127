#include "suites/reinforcement/env/mujoco_tasks.h"

#include <algorithm>
#include <cmath>

namespace mstrain::reinforcement {
namespace {

constexpr int64_t kInertia = 10, kForce = 6;  // numbers of a body
constexpr size_t kFreeJoint = 6;              // velocities that no actuator moves

double square_sum(std::span<const double> values, double most) {
  double sum = 0;
  for (const double value : values) {
    const double cut = std::clamp(value, -most, most);
    sum += cut * cut;
  }
  return sum;
}

// Bounds that belong to the range.
OpenRange closed(double low, double high) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  return {std::nextafter(low, -kFar), std::nextafter(high, kFar)};
}

}  // namespace

std::span<const MujocoTask> mujoco_tasks() {
  static const MujocoTask kTasks[] = {
      {.name = "half_cheetah",
       .about = "run: MuJoCo's HalfCheetah-v5",
       .model = "half_cheetah.xml",
       .positions = 9,
       .velocities = 9,
       .actions = 6,
       .threshold = 4800,
       .control = 0.1},
      {.name = "hopper",
       .about = "hop on one leg: MuJoCo's Hopper-v5",
       .model = "hopper.xml",
       .positions = 6,
       .velocities = 6,
       .actions = 3,
       .threshold = 3800,
       .steps = 4,
       .healthy = 1,
       .control = 1e-3,
       .z = {.low = 0.7},
       .angle = {-0.2, 0.2},
       .rest = {-100, 100},
       .most_velocity = 10,
       .noise = 5e-3,
       .has_normal_velocities = false},
      {.name = "walker2d",
       .about = "walk on two legs: MuJoCo's Walker2d-v5",
       .model = "walker2d_v5.xml",
       .positions = 9,
       .velocities = 9,
       .actions = 6,
       .steps = 4,
       .healthy = 1,
       .control = 1e-3,
       .z = {0.8, 2},
       .angle = {-1, 1},
       .most_velocity = 10,
       .noise = 5e-3,
       .has_normal_velocities = false},
      {.name = "ant",
       .about = "walk on four legs: MuJoCo's Ant-v5",
       .model = "ant.xml",
       .positions = 15,
       .velocities = 14,
       .actions = 8,
       .bodies = 14,
       .threshold = 6000,
       .place = MujocoTask::Place::kTorso,
       .healthy = 1,
       .control = 0.5,
       .contact = 5e-4,
       .most_force = 1,
       .height = 2,
       .z = closed(0.2, 1),
       .hidden = 2},
      {.name = "humanoid",
       .about = "walk upright: MuJoCo's Humanoid-v5",
       .model = "humanoid.xml",
       .positions = 24,
       .velocities = 23,
       .actions = 17,
       .bodies = 14,
       .action_limit = 0.4F,
       .place = MujocoTask::Place::kCentre,
       .forward = 1.25,
       .healthy = 5,
       .control = 0.1,
       .contact = 5e-7,
       .most_contact = 10,
       .height = 2,
       .z = {1, 2},
       .hidden = 2,
       .sees_bodies = true,
       .noise = 1e-2,
       .has_normal_velocities = false},
  };
  return kTasks;
}

int64_t MujocoTask::observation_size() const {
  const int64_t seen_of_body = kForce + (sees_bodies ? kInertia + kForce : 0);
  return positions - static_cast<int64_t>(hidden) + velocities +
         (bodies > 0 ? (bodies - 1) * seen_of_body : 0) + (sees_bodies ? actions : 0);
}

EnvSpec MujocoTask::spec() const {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  return {.name = name,
          .about = about,
          .observation = Space::box({observation_size()}, -kFar, kFar),
          .action = Space::box({actions}, -action_limit, action_limit),
          .state_size = positions + velocities,
          .time_limit = 1000,
          .reward_threshold = threshold,
          .endless = healthy == 0};  // the task that has no falls
}

bool is_healthy(const MujocoTask& task, const MujocoView& now) {
  const auto fits = [&](double x) { return task.rest.has(x); };
  return task.z.has(now.positions[task.height]) && task.angle.has(now.positions[task.height + 1]) &&
         std::ranges::all_of(now.positions.subspan(2), fits) &&
         std::ranges::all_of(now.velocities, fits);
}

double reward_of(const MujocoTask& task, const MujocoView& now, double speed) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const double contact =
      std::min(task.contact * square_sum(now.contact_forces, task.most_force), task.most_contact);
  return task.forward * speed + (is_healthy(task, now) ? task.healthy : 0) -
         (task.control * square_sum(now.controls, kFar) + contact);
}

void observe(const MujocoTask& task, const MujocoView& now, std::span<double> out) {
  auto to = out.begin();
  const auto put = [&](std::span<const double> values, double most) {
    to = std::ranges::transform(values, to, [&](double x) {
           return std::clamp(x, -most, most);
         }).out;
  };
  constexpr double kFar = std::numeric_limits<double>::infinity();
  put(now.positions.subspan(task.hidden), kFar);
  put(now.velocities, task.most_velocity);
  if (task.sees_bodies) {  // all but the world
    put(now.inertias.subspan(kInertia), kFar);
    put(now.body_velocities.subspan(kForce), kFar);
    put(now.actuator_forces.subspan(kFreeJoint), kFar);
  }
  if (task.bodies > 0) {
    put(now.contact_forces.subspan(kForce), task.most_force);
  }
}

}  // namespace mstrain::reinforcement
