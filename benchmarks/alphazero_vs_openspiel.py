#!/usr/bin/env python3
"""Races self-play of AlphaZero against OpenSpiel's in Python: positions a second of games of connect four by the same network.

    .venv-bench/bin/pip install open_spiel "jax[cpu]" flax optax chex orbax-checkpoint
    .venv-bench/bin/python benchmarks/alphazero_vs_openspiel.py --program build/bin/mstrain

Both search with PUCT and Dirichlet noise, so many simulations a move, with a residual network of 4 blocks of 48 channels that
has learned nothing yet, and keep what they evaluated. OpenSpiel plays as its own training does, by one process of actor.py's kind
for each processor, without its learner; mstrain plays an iteration of a run of as many threads, 256 games at once. Compiling
does not count in OpenSpiel's. Rounds take turns; the ratio is the median of the rounds' ratios."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCKS, WIDTH = 4, 48


class Silent:
    def print(self, *_):
        pass

    opt_print = print


def act(simulations, seconds):
    """Plays games with OpenSpiel's own functions for so long and prints how many positions that gave."""
    import pyspiel
    from open_spiel.python.algorithms.alpha_zero import alpha_zero, evaluator

    game = pyspiel.load_game("connect_four")
    config = alpha_zero.Config(
        game="connect_four", path=tempfile.mkdtemp(), learning_rate=1e-3, weight_decay=1e-4, decouple_weight_decay=False,
        train_batch_size=256, replay_buffer_size=1 << 16, replay_buffer_reuse=True, max_steps=1, checkpoint_freq=1, actors=1,
        evaluators=0, evaluation_window=1, eval_levels=1, uct_c=1.25, max_simulations=simulations, policy_alpha=1.4,
        policy_epsilon=0.25, temperature=1.0, temperature_drop=10, nn_model="resnet", nn_width=WIDTH, nn_depth=BLOCKS,
        observation_shape=game.observation_tensor_shape(), output_size=game.num_distinct_actions(), verbose=False, quiet=True)
    network = evaluator.AlphaZeroEvaluator(game, alpha_zero._init_model_from_config(config))
    bots = tuple(alpha_zero._init_bot(config, game, network, False) for _ in range(2))
    play = lambda number: len(alpha_zero._play_game(Silent(), number, game, bots, 1.0, 10).states)
    play(0)
    print("ready", flush=True)
    sys.stdin.readline()
    begin, positions, number = time.perf_counter(), 0, 1
    while time.perf_counter() < begin + seconds:
        positions += play(number)
        number += 1
    print(json.dumps(positions / (time.perf_counter() - begin)), flush=True)


def open_spiel(args):
    env = dict(os.environ, XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", OMP_NUM_THREADS="1")
    command = [sys.executable, __file__, "--act", "--simulations", str(args.simulations), "--seconds", str(args.seconds)]
    actors = [subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
              for _ in range(args.threads)]
    for actor in actors:
        if not actor.stdout.readline().startswith("ready"):
            raise SystemExit(f"OpenSpiel's actor ended early with status {actor.wait()}")
    for actor in actors:
        actor.stdin.write("\n")
        actor.stdin.flush()
    rates = [json.loads(actor.stdout.readline()) for actor in actors]
    for actor in actors:
        actor.wait()
    return sum(rates)


def mstrain(args):
    with tempfile.TemporaryDirectory() as folder:
        command = [
            args.program, "--config", ROOT / "configs/alphazero_connect_four.yaml", f"run.output_dir={folder}/run",
            f"run.threads={args.threads}", f"algorithm.threads={args.threads}", "algorithm.search=puct",
            f"algorithm.simulations={args.simulations}", "algorithm.steps=1", f"network.blocks={BLOCKS}", f"network.width={WIDTH}",
            "algorithm.games=256", "algorithm.parallel_games=256",
            "schedule.total_steps=1", "schedule.warmup_steps=0", "log.interval=1", "evaluation.interval=none"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in open(f"{folder}/run/metrics.jsonl")]
        return [row["self_play_positions_per_second"] for row in rows if "self_play_positions_per_second" in row][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/bin/mstrain")
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20, help="of OpenSpiel in a round")
    parser.add_argument("--act", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.act:
        act(args.simulations, args.seconds)
        return
    peer, mine = [], []
    for _ in range(args.rounds):
        peer.append(open_spiel(args))
        mine.append(mstrain(args))
        print(f"  OpenSpiel {peer[-1]:,.1f} positions/s, mstrain {mine[-1]:,.1f}", flush=True)
    ratios = [m / p for m, p in zip(mine, peer)]
    print(f"connect four, {args.simulations} simulations a move, {BLOCKS} blocks of {WIDTH}, {args.threads} processors, {args.rounds} rounds: "
          f"OpenSpiel {statistics.median(peer):,.1f} positions/s, mstrain {statistics.median(mine):,.1f}, "
          f"ratio {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})")


if __name__ == "__main__":
    main()
