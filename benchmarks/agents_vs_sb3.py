#!/usr/bin/env python3
"""Races agents against stable-baselines3, and a loop of CleanRL's kind, with the same settings, networks and environments, each on one processor.

    python3 -m venv .venv-bench && .venv-bench/bin/pip install torch stable-baselines3
    .venv-bench/bin/python benchmarks/agents_vs_sb3.py --program build/bin/mstrain --replay build/benchmarks/prioritised_replay

    solve     seconds until 100 episodes of CartPole come to 475 by PPO, with the settings that stable-baselines3's zoo tuned
              for it (configs/ppo_cartpole.yaml); evaluated every 10,000 steps; a seed for each round
    ppo       steps a second of the same training without evaluations
    cleanrl   the same against CleanRL's way of PPO: one loop with networks, advantages and updates compiled by torch.compile,
              whose compilation does not count
    sac       updates a second on Pendulum (configs/sac_pendulum.yaml), a step of the environment with each
    replay    draws and changes of priorities a second among 10^6 items, against a sum tree of NumPy arrays, whose loops
              over a batch are NumPy's

Of mstrain's runs the whole process counts, its start and its files too; of stable-baselines3 what learn() takes, of the loop its steps. Contenders take turns,
and a ratio is the median of the rounds' ratios."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import race

ROOT = pathlib.Path(__file__).resolve().parent.parent
PPO_STEPS, SAC_STEPS, SAC_WARM_UP = 102_400, 6_000, 500
ITEMS, DRAWN = 1_000_000, 256
RACES = ["solve", "ppo", "cleanrl", "sac", "replay"]


def sb3_ppo(seed, steps, evaluated):
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=8, seed=seed), n_steps=32, batch_size=256, gae_lambda=0.8,
                gamma=0.98, n_epochs=20, ent_coef=0.0, learning_rate=lambda left: 1e-3 * left,
                clip_range=lambda left: 0.2 * left, seed=seed, device="cpu")
    callback = EvalCallback(make_vec_env("CartPole-v1", n_envs=8, seed=seed + 1000), n_eval_episodes=100, eval_freq=10_000 // 8,
                            callback_on_new_best=StopTrainingOnRewardThreshold(475, verbose=0), verbose=0) if evaluated else None
    begin = time.perf_counter()
    model.learn(steps, callback=callback)
    seconds = time.perf_counter() - begin
    solved = callback is None or callback.best_mean_reward >= 475
    return {"seconds": seconds, "steps": model.num_timesteps, "solved": bool(solved)}


def compiled_ppo(seed, steps):
    """PPO as CleanRL has it, with its compiled variant's three functions: what acts, what estimates, what learns."""
    import gymnasium
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    envs, length, epochs, discount, decay = 8, 32, 20, 0.98, 0.8
    make = lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))
    world = gymnasium.vector.SyncVectorEnv([make] * envs, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)

    def network(out, gain):
        layers = [nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out)]
        for layer, scale in zip(layers[::2], (2**0.5, 2**0.5, gain)):
            nn.init.orthogonal_(layer.weight, scale)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(*layers)

    policy, critic = network(2, 0.01), network(1, 1.0)
    trained = [*policy.parameters(), *critic.parameters()]
    rate, clip = torch.tensor(1e-3), torch.tensor(0.2)
    optimizer = torch.optim.Adam(trained, lr=rate, eps=1e-5, fused=True)

    @torch.compile
    def act(seen):
        choice = torch.distributions.Categorical(logits=policy(seen), validate_args=False)
        action = choice.sample()
        return action, choice.log_prob(action), critic(seen).flatten()

    @torch.compile
    def advantages_of(rewards, ends, values, last):
        out, advantage = [], torch.zeros(envs)
        for t in reversed(range(length)):
            goes_on = 1 - ends[t]
            error = rewards[t] + discount * goes_on * (last if t + 1 == length else values[t + 1]) - values[t]
            advantage = error + discount * decay * goes_on * advantage
            out.append(advantage)
        return torch.stack(out[::-1])

    @torch.compile
    def update(seen, action, log_prob, advantage, target):
        optimizer.zero_grad()
        choice = torch.distributions.Categorical(logits=policy(seen), validate_args=False)
        ratio = (choice.log_prob(action) - log_prob).exp()
        gain = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        loss = -torch.min(gain * ratio, gain * ratio.clamp(1 - clip, 1 + clip)).mean()
        loss = loss + 0.5 * ((critic(seen).flatten() - target)**2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 0.5)
        optimizer.step()
        return loss.detach()

    seen = torch.as_tensor(world.reset(seed=seed)[0])
    returns = []

    def iterate(left):
        nonlocal seen
        rate.fill_(1e-3 * left)
        clip.fill_(0.2 * left)
        taken = []
        for _ in range(length):
            with torch.no_grad():
                action, log_prob, value = act(seen)
            after, reward, terminated, truncated, told = world.step(action.numpy())
            taken.append((seen, action, log_prob, value, torch.as_tensor(reward, dtype=torch.float32),
                          torch.as_tensor(terminated | truncated, dtype=torch.float32)))
            seen = torch.as_tensor(after)
            if "final_info" in told:
                episode = told["final_info"]["episode"]
                returns.extend(episode["r"][episode["l"] > 0])
        seens, actions, log_probs, values, rewards, ends = (torch.stack(part) for part in zip(*taken))
        with torch.no_grad():
            advantages = advantages_of(rewards, ends, values, act(seen)[2])
        flat = [x.flatten(0, 1) for x in (seens, actions, log_probs, advantages, advantages + values)]
        for _ in range(epochs):
            order = torch.randperm(envs * length)
            loss = update(*(x[order] for x in flat))
        return loss.item()

    for _ in range(3):
        iterate(1.0)
    count = steps // (envs * length)
    begin = time.perf_counter()
    for i in range(count):
        iterate(1 - i / count)
    seconds = time.perf_counter() - begin
    learns = statistics.mean(returns[-20:]) > 2 * statistics.mean(returns[:20])
    return {"seconds": seconds, "steps": count * envs * length, "solved": bool(learns)}


def sb3_sac(seed):
    import gymnasium
    import torch
    from stable_baselines3 import SAC

    torch.set_num_threads(1)
    model = SAC("MlpPolicy", gymnasium.make("Pendulum-v1"), buffer_size=50_000, learning_starts=SAC_WARM_UP, batch_size=128,
                learning_rate=1e-3, policy_kwargs={"net_arch": [64, 64]}, seed=seed, device="cpu")
    model.learn(2 * SAC_WARM_UP)
    begin = time.perf_counter()
    model.learn(SAC_STEPS // 3, reset_num_timesteps=False)
    return {"seconds": time.perf_counter() - begin, "steps": SAC_STEPS // 3, "solved": True}


def numpy_replay(rounds_of):
    """A sum tree in one array, all draws of a batch going down, and all changes going up, a level at a time."""
    import numpy

    random = numpy.random.default_rng(1)
    levels = (ITEMS - 1).bit_length()
    first = 1 << levels
    tree = numpy.zeros(2 * first)
    tree[first:first + ITEMS] = random.random(ITEMS) + 0.01
    for level in range(levels - 1, -1, -1):
        nodes = numpy.arange(1 << level, 2 << level)
        tree[nodes] = tree[2 * nodes] + tree[2 * nodes + 1]

    def turn():
        place = (numpy.arange(DRAWN) + random.random(DRAWN)) * (tree[1] / DRAWN)
        node = numpy.ones(DRAWN, dtype=numpy.int64)
        for _ in range(levels):
            node *= 2
            left = tree[node]
            right = place >= left
            place -= left * right
            node += right
        tree[node] = random.random(DRAWN) + 0.01
        for _ in range(levels):
            node = numpy.unique(node >> 1)
            tree[node] = tree[2 * node] + tree[2 * node + 1]

    for line in rounds_of:
        count = int(line)
        begin = time.perf_counter()
        for _ in range(count):
            turn()
        print(json.dumps({"step_seconds": (time.perf_counter() - begin) / count}), flush=True)


def mstrain(options, config, *overrides):
    """A run from its beginning; what it did, and the rows that it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        subprocess.run([options.program, "--config", ROOT / "configs" / config, "run.threads=1", f"run.output_dir={folder}/run",
                        *overrides], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        rows = [json.loads(line) for line in open(f"{folder}/run/metrics.jsonl")]
    return seconds, rows


def ours(options, race_name, seed):
    if race_name == "solve":
        seconds, rows = mstrain(options, "ppo_cartpole.yaml", f"run.seed={seed}")
        best = max(row.get("eval_return", 0) for row in rows)
        return {"seconds": seconds, "steps": rows[-1]["step"], "solved": best >= 475}
    if race_name in ("ppo", "cleanrl"):
        seconds, rows = mstrain(options, "ppo_cartpole.yaml", f"run.seed={seed}", f"schedule.total_env_steps={PPO_STEPS}",
                                "eval={interval: none, stop_at_return: null}")
        return {"seconds": seconds, "steps": rows[-1]["step"], "solved": True}
    seconds, rows = mstrain(options, "sac_pendulum.yaml", f"run.seed={seed}", f"schedule.total_env_steps={SAC_STEPS}",
                            "eval={interval: none, stop_at_return: null}")
    return {"seconds": seconds, "steps": SAC_STEPS - SAC_WARM_UP, "solved": True}


def theirs(race_name, seed):
    run = subprocess.run([sys.executable, __file__, "--contender", race_name, "--seed", str(seed)], check=True,
                         stdout=subprocess.PIPE, text=True, env=race.environment(1))
    return json.loads(run.stdout.strip().splitlines()[-1])


def race_runs(options, name):
    ratios, rates, late = [], ([], []), [0, 0]
    for seed in range(1, options.rounds + 1):
        pair = [ours(options, name, seed), theirs(name, seed)]
        for k, it in enumerate(pair):
            rates[k].append(it["seconds"] if name == "solve" else it["steps"] / it["seconds"])
            late[k] += not it["solved"]
        ratios.append(rates[1][-1] / rates[0][-1] if name == "solve" else rates[0][-1] / rates[1][-1])
    unit = {"solve": "s", "ppo": "steps/s", "cleanrl": "steps/s", "sac": "updates/s"}[name]
    peer = "compiled loop" if name == "cleanrl" else "stable-baselines3"
    shown = [f"{statistics.median(each):,.2f} {unit}" if name == "solve" else f"{statistics.median(each):,.0f} {unit}" for each in rates]
    print(f"{name:8} ours {shown[0]:>20}   {peer} {shown[1]:>20}   {statistics.median(ratios):6.1f}x"
          + (f"   not solved: {late[0]} of ours, {late[1]} of theirs" if any(late) else ""), flush=True)


def race_replay(options):
    contenders = [race.Contender([str(options.replay), str(ITEMS), str(DRAWN)], race.environment(1)),
                  race.Contender([sys.executable, __file__, "--contender", "replay"], race.environment(1))]
    counts = (2000, 20)
    rounds = [[c.round(n, measure_memory=False) for c, n in zip(contenders, counts)] for _ in range(options.rounds + 1)][1:]
    rates = [DRAWN / statistics.median(r[k] for r in rounds) for k in range(2)]
    print(f"replay   ours {rates[0] / 1e6:>13.2f} M items/s   NumPy {rates[1] / 1e6:>25.3f} M items/s   "
          f"{race.median_ratio([r[1] for r in rounds], [r[0] for r in rounds]):6.1f}x", flush=True)
    for contender in contenders:
        contender.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/bin/mstrain")
    parser.add_argument("--replay", default=ROOT / "build/benchmarks/prioritised_replay")
    parser.add_argument("--races", nargs="+", choices=RACES, default=RACES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender == "replay":
        print(json.dumps({"ready": True}), flush=True)
        return numpy_replay(sys.stdin)
    if options.contender:
        result = {"solve": lambda: sb3_ppo(options.seed, 100_000, True), "ppo": lambda: sb3_ppo(options.seed, PPO_STEPS // 5, False),
                  "cleanrl": lambda: compiled_ppo(options.seed, PPO_STEPS // 5), "sac": lambda: sb3_sac(options.seed)}[options.contender]()
        return print(json.dumps(result))
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    for name in options.races:
        race_replay(options) if name == "replay" else race_runs(options, name)


if __name__ == "__main__":
    main()
