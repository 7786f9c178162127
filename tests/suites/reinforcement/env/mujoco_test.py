#!/usr/bin/env python3
"""`mstrain rollout` gives what Gymnasium's MuJoCo tasks give on random states and actions: observations, rewards and both flags; agents
train on them; what is missing is said.

Usage: mujoco_test.py MSTRAIN. Skipped where no Python has gymnasium, mujoco and safetensors (tests/interpreter.py), or where the command
was built without MuJoCo's headers or for another version."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import interpreter  # noqa: E402

interpreter.need("gymnasium>=1", "mujoco", "numpy", "safetensors")
import gymnasium  # noqa: E402
import gymnasium.envs.mujoco  # noqa: E402
import mujoco  # noqa: E402
import numpy as np  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

SEED = 20
MODELS = pathlib.Path(gymnasium.envs.mujoco.__file__).parent / "assets"
ENVIRONMENT = dict(os.environ, MUJOCO_DIR=str(pathlib.Path(mujoco.__file__).parent))
TASKS = {"half_cheetah": "HalfCheetah-v5", "hopper": "Hopper-v5", "walker2d": "Walker2d-v5", "ant": "Ant-v5", "humanoid": "Humanoid-v5"}


def run(*arguments, env=ENVIRONMENT):
    return subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True, env=env, check=False)


def check(name, n, steps, folder):
    rng = np.random.default_rng([SEED, n, steps])
    env = gymnasium.make(TASKS[name])
    inner = env.unwrapped
    states = []
    for i in range(n):  # as they begin, and farther away
        env.reset(seed=i)
        state = np.concatenate([inner.data.qpos, inner.data.qvel])
        states.append(state + rng.normal(size=state.shape) * (0, 0.05, 0.5)[i % 3])
    space = env.action_space
    actions = rng.uniform(space.low, space.high, (steps, n, space.shape[0])).astype(np.float64)
    save_file({"state": np.stack(states), "actions": actions}, folder / "in.safetensors")
    done = run("rollout", "--env", name, "--models", MODELS, "--input", folder / "in.safetensors", "--output", folder / "out.safetensors")
    assert done.returncode == 0, done.stderr
    out = load_file(folder / "out.safetensors")
    ends = 0
    for i in range(n):
        env.reset(seed=0)
        mujoco.mj_resetData(inner.model, inner.data)
        inner.set_state(states[i][: inner.model.nq], states[i][inner.model.nq :])
        ended = False
        for t in range(steps):
            if not ended:
                seen, reward, terminated, truncated, _ = env.step(actions[t, i])
                ended = terminated or truncated
                ends += ended
            where = f"{name}, environment {i} of {n}, step {t}"
            np.testing.assert_array_equal(out["observations"][t, i], seen.astype(np.float32), err_msg=where)
            np.testing.assert_allclose(out["rewards"][t, i], np.float32(reward), rtol=1e-6, atol=1e-7, err_msg=where)
            assert (bool(out["terminated"][t, i]), bool(out["truncated"][t, i])) == (terminated, truncated), where
    assert ends or name == "half_cheetah", f"{name}: no episode ended"
    print(f"{name}: as Gymnasium {gymnasium.__version__} over {steps} steps of {n}, {ends} of which ended")


def train(folder, algorithm, name, *more):
    arguments = (f"run.output_dir={folder / algorithm}", f"environment.models={MODELS}", f"environment.name={name}", *more)
    config = folder / f"{algorithm}.yaml"
    off = ", learning_starts: 100, batch_size: 32" if algorithm == "sac" else ", steps: 32"
    config.write_text(f"algorithm: {{type: {algorithm}{off}}}\nenvironment: {{num_envs: 2}}\nnetwork: {{hidden: [16]}}\n"
                      "schedule: {total_env_steps: 256}\neval: {interval: none}\ncheckpoint: {interval: 128}\n")
    done = run("--config", config, *arguments)
    assert done.returncode == 0, done.stderr
    return folder / algorithm / "checkpoints"


def same_when_it_goes_on(folder):
    files = []
    for name, total in (("straight", (256,)), ("stopped", (128, 256))):
        place = folder / name
        place.mkdir()
        for steps in total:
            checkpoints = train(place, "ppo", "ant", f"schedule.total_env_steps={steps}")
        newest = sorted(checkpoints.iterdir())[-1]
        files.append([(newest / file).read_bytes() for file in ("model.safetensors", "agent-0000.bin")])
    assert files[0] == files[1], "a run on MuJoCo that was ended and went on is another one"


def says_what_is_missing(folder):
    save_file({"state": np.zeros((1, 12)), "actions": np.zeros((1, 1, 3))}, folder / "in.safetensors")
    files = ("--input", folder / "in.safetensors", "--output", folder / "out.safetensors")
    (folder / "hopper.xml").write_text((MODELS / "half_cheetah.xml").read_text())
    (folder / "walker2d_v5.xml").write_text("<mujoco><worldbody><nobody/></worldbody></mujoco>")
    nowhere = dict(ENVIRONMENT, MUJOCO_DIR=str(folder), MUJOCO_PATH="")
    for name, options, env, said in (
        ("hopper", (), ENVIRONMENT, "environment.models: hopper reads hopper.xml from there"),
        ("hopper", ("--models", folder), ENVIRONMENT, "is not the model of hopper: it has 9 positions, expected 6"),
        ("walker2d", ("--models", folder), ENVIRONMENT, "unrecognized"),
        ("ant", ("--models", folder), ENVIRONMENT, "ant.xml: there is no such model"),
        ("ant", ("--models", MODELS), nowhere, "libmujoco.so is not found"),
    ):
        done = run("rollout", "--env", name, *options, *files, env=env)
        assert done.returncode != 0 and said in done.stderr, (said, done.stderr)
    assert "not here: humanoid: libmujoco.so is not found" in run("envs", env=nowhere).stdout


def main():
    listed = run("envs", "hopper").stdout
    if "not here" in listed:
        interpreter.skip(listed[listed.index("not here") :].strip())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for task in TASKS:
            check(task, 6, 40, folder)
        check("half_cheetah", 1, 1003, folder)
        check("ant", 1, 1003, folder)
        train(folder, "sac", "hopper")
        same_when_it_goes_on(folder)
        says_what_is_missing(folder)


main()
