#!/usr/bin/env python3
"""Writes classic_control.h: single steps and short episodes of Gymnasium 1.4's classic control, for tests that run without it.
Needs gymnasium and numpy: tests/golden/classic_control.py > tests/golden/classic_control.h"""
import gymnasium as gym
import numpy as np

PI = np.pi
RNG = np.random.default_rng(20)


def near(scales, sizes, n):
    return RNG.uniform(-1, 1, (n, len(scales))) * scales * RNG.choice(sizes, (n, 1))


ENVS = [
    ("cartpole", "CartPole-v1", lambda n: near([2.4, 3, 0.2, 3], [0.05, 0.5, 1.2], n)),
    ("acrobot", "Acrobot-v1", lambda n: near([PI, PI, 4 * PI, 9 * PI], [0.1, 0.5, 1, 3], n)),
    ("mountain_car", "MountainCar-v0", lambda n: RNG.uniform([-1.2, -0.07], [0.6, 0.07], (n, 2))),
    ("mountain_car_continuous", "MountainCarContinuous-v0", lambda n: RNG.uniform([-1.2, -0.07], [0.6, 0.07], (n, 2))),
    ("pendulum", "Pendulum-v1", lambda n: near([PI, 8], [0.1, 1, 30, 1e6], n)),
]
CASES, STEPS = 24, 3

print("// Made by classic_control.py with Gymnasium 1.4 and NumPy 2: do not edit.\n#pragma once\n\n#include <vector>\n")
print("namespace mstrain::golden {\n")
print("// From `state` by `actions`, one after the other: the state after each, and reward and end of the last.")
print("struct ClassicCase {\n  std::vector<double> state;\n  std::vector<double> actions;\n"
      "  std::vector<std::vector<double>> after;\n  double reward;\n  bool terminated;\n};\n")
print("struct ClassicEnv {\n  const char* name;\n  std::vector<ClassicCase> cases;\n};\n")
print("// clang-format off\ninline const std::vector<ClassicEnv> kClassic = {")


def braces(values):
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


for name, gym_name, draw in ENVS:
    env = gym.make(gym_name)
    discrete = isinstance(env.action_space, gym.spaces.Discrete)
    print(f'{{"{name}", {{')
    for state in draw(CASES):
        env.reset(seed=0)
        env.unwrapped.state = state.copy()
        actions, after = [], []
        for _ in range(STEPS):
            a = int(RNG.integers(env.action_space.n)) if discrete else RNG.uniform(env.action_space.low, env.action_space.high).astype(np.float64)
            _, reward, terminated, _, _ = env.step(a)
            actions.append(a if discrete else a[0])
            after.append(braces(env.unwrapped.state))
            if terminated:
                break
        print(f" {{{braces(state)}, {braces(actions)}, {{{', '.join(after)}}}, {float(reward)!r}, {str(bool(terminated)).lower()}}},")
    print("}},")
print("};\n// clang-format on\n\n}  // namespace mstrain::golden")
