#!/usr/bin/env python3
"""`mstrain rollout` gives what Gymnasium's classic control gives on random states and actions: observations, rewards and both flags.

Usage: gymnasium_test.py MSTRAIN. Skipped where no Python has gymnasium and safetensors (tests/interpreter.py)."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import interpreter  # noqa: E402

interpreter.need("gymnasium>=1", "numpy", "safetensors")
import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

SEED = 20
PI = np.pi


def near(rng, n, sizes, shares):
    return rng.uniform(-1, 1, (n, len(sizes))) * sizes * rng.choice(shares, (n, 1))


def valley(rng, n):
    return rng.uniform([-1.2, -0.07], [0.6, 0.07], (n, 2))


# The peer, states to begin with, and how many steps two implementations stay together: Acrobot is chaotic.
ENVS = {
    "cartpole": ("CartPole-v1", lambda rng, n: near(rng, n, [2.4, 3, 0.2, 3], [0.05, 0.3, 1, 1.3]), 520),
    "acrobot": ("Acrobot-v1", lambda rng, n: near(rng, n, [PI, PI, 4 * PI, 9 * PI], [0.1, 0.5, 1, 3]), 30),
    "mountain_car": ("MountainCar-v0", valley, 220),
    "mountain_car_continuous": ("MountainCarContinuous-v0", valley, 1010),
    "pendulum": ("Pendulum-v1", lambda rng, n: near(rng, n, [PI, 8], [0.1, 1, 100, 1e6]), 210),
}


def check(command, name, n, steps, folder):
    rng = np.random.default_rng([SEED, n, steps])
    peer, draw, _ = ENVS[name]
    env = gymnasium.make(peer)
    state = draw(rng, n)
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    if discrete:
        actions = rng.integers(0, env.action_space.n, (steps, n))
    else:
        actions = rng.uniform(env.action_space.low[0], env.action_space.high[0], (steps, n, 1))
    save_file({"state": state, "actions": actions}, folder / "in.safetensors")
    subprocess.run([command, "rollout", "--env", name, "--input", folder / "in.safetensors", "--output", folder / "out.safetensors"],
                   check=True)
    out = load_file(folder / "out.safetensors")
    for i in range(n):
        env.reset(seed=0)
        env.unwrapped.state = state[i].copy()
        ended = False
        for t in range(steps):
            if not ended:
                seen, reward, terminated, truncated, _ = env.step(int(actions[t, i]) if discrete else actions[t, i])
                ended = terminated or truncated
            where = f"{name}, environment {i} of {n}, step {t}"
            np.testing.assert_allclose(out["observations"][t, i], seen, rtol=2e-6, atol=1e-7, err_msg=where)
            np.testing.assert_allclose(out["rewards"][t, i], np.float32(reward), rtol=1e-6, err_msg=where)
            assert (bool(out["terminated"][t, i]), bool(out["truncated"][t, i])) == (terminated, truncated), where


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, (_, _, steps) in ENVS.items():
            check(sys.argv[1], name, 101, 3, pathlib.Path(folder))
            check(sys.argv[1], name, 5, steps, pathlib.Path(folder))
            print(f"{name}: as Gymnasium {gymnasium.__version__} over up to {steps} steps")


main()
