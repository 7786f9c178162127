#!/usr/bin/env python3
"""Races steps of environments on one core against Gymnasium's vector environments, and EnvPool's.

    python3 -m venv .venv-bench && .venv-bench/bin/pip install gymnasium envpool
    .venv-bench/bin/python benchmarks/environments_vs_gymnasium.py --steps build/benchmarks/environment_steps

All take the same kind of random actions, made beforehand, and reset environments at their end. CartPole's peer is the vector
environment that Gymnasium wrote with NumPy; of the others there are only lists of environments (SyncVectorEnv). EnvPool steps all of its
environments at a call, with one thread. Every contender is a process of its own, pinned to one core; rounds are interleaved and a ratio
is the median of the rounds' ratios."""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import race

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = {"cartpole": "CartPole-v1", "acrobot": "Acrobot-v1", "mountain_car": "MountainCar-v0",
         "mountain_car_continuous": "MountainCarContinuous-v0", "pendulum": "Pendulum-v1"}


def gymnasium_env(name, envs):
    """An environment that was reset, and 64 actions of all its environments."""
    import gymnasium
    import numpy
    mode = "vector_entry_point" if name == "cartpole" else "sync"
    env = gymnasium.make_vec(PEERS[name], num_envs=envs, vectorization_mode=mode)
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(64)]
    if actions[0].dtype == numpy.float32:
        actions = [a.astype(numpy.float64) for a in actions]
    env.reset(seed=1)
    return env, actions


def envpool_env(name, envs):
    import envpool
    import numpy
    env = envpool.make(PEERS[name], env_type="gymnasium", num_envs=envs, num_threads=1, seed=1)
    env.action_space.seed(1)
    actions = [numpy.stack([env.action_space.sample() for _ in range(envs)]) for _ in range(64)]
    if actions[0].dtype == numpy.int64:
        actions = [a.astype(numpy.int32) for a in actions]
    env.reset()
    return env, actions


def serve(peer, name, envs):
    """Runs in the child process: the same protocol as environment_steps."""
    env, actions = {"gymnasium": gymnasium_env, "envpool": envpool_env}[peer](name, envs)
    print(json.dumps({"ready": True}), flush=True)
    at = 0
    for line in sys.stdin:
        steps = int(line)
        begin = time.perf_counter()
        for _ in range(steps):
            env.step(actions[at % 64])
            at += 1
        print(json.dumps({"step_seconds": (time.perf_counter() - begin) / steps}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=pathlib.Path, default=ROOT / "build/benchmarks/environment_steps")
    parser.add_argument("--envs", type=int, nargs="+", default=[64, 1024])
    parser.add_argument("--names", nargs="+", choices=PEERS, default=["cartpole"])
    parser.add_argument("--peers", nargs="+", choices=["gymnasium", "envpool"], default=["gymnasium"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each contender's part of a round")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(*options.serve[:2], int(options.serve[2]))
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    print(f"{'environment':<24} {'envs':>5} {'ours, M steps/s':>16}" + "".join(f" {peer:>12} {'ratio':>7}" for peer in options.peers))
    for name in options.names:
        for envs in options.envs:
            commands = [[str(options.steps), name, str(envs)],
                        *([sys.executable, __file__, "--serve", peer, name, str(envs)] for peer in options.peers)]
            contenders = [race.Contender(command, race.environment(1)) for command in commands]
            steps = []
            for contender in contenders:  # enough of them, which also warms up
                step = contender.round(20, measure_memory=False)
                steps.append(max(1, int(options.seconds / contender.round(max(1, int(0.02 / step)), measure_memory=False))))
            rounds = [[c.round(s, measure_memory=False) for c, s in zip(contenders, steps)] for _ in range(options.rounds)]
            rates = [envs / statistics.median(r[k] for r in rounds) / 1e6 for k in range(len(contenders))]
            ratios = [statistics.median(r[k] / r[0] for r in rounds) for k in range(len(contenders))]
            print(f"{name:<24} {envs:>5} {rates[0]:>16.1f}"
                  + "".join(f" {rate:>12.3f} {ratio:>6.1f}x" for rate, ratio in zip(rates[1:], ratios[1:])), flush=True)
            for contender in contenders:
                contender.close()


if __name__ == "__main__":
    main()
