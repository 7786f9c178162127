#!/usr/bin/env python3
"""UCT on one thread against OpenSpiel's C++ bot, in the same run, alternating: simulations a second from the empty board.

usage: mcts_uct.py BENCH_MCTS [--simulations N] [--rounds N]
Needs a Python with open_spiel from PyPI; BENCH_MCTS is the program `bench_mcts`. Settings of both: uct_c 2, one random
rollout for each evaluation, solver off, tree destruction not timed. Prints the median of the rounds' ratios."""
import argparse
import json
import statistics
import subprocess
import time

import pyspiel


def open_spiel(game_name, simulations, seed):
    game = pyspiel.load_game(game_name)
    bot = pyspiel.MCTSBot(game, pyspiel.RandomRolloutEvaluator(1, seed), 2.0, simulations, 8000, False, seed, False)
    state = game.new_initial_state()
    begin = time.perf_counter()
    root = bot.mcts_search(state)
    seconds = time.perf_counter() - begin
    del root
    return simulations / seconds


def ours(program, game_name, simulations, seed):
    command = [program, "uct", game_name, str(simulations), str(seed)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--simulations", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(f"{args.simulations} simulations from the empty board, one thread, {args.rounds} rounds in turn")
    for name in ("connect_four", "tic_tac_toe"):
        peer, mine, ratios, nodes = [], [], [], 0
        for round_number in range(args.rounds):
            peer.append(open_spiel(name, args.simulations, 1 + round_number))
            answer = ours(args.program, name, args.simulations, 1 + round_number)
            mine.append(answer["simulations_per_second"])
            nodes = answer["bytes_per_node"]
            ratios.append(mine[-1] / peer[-1])
        print(
            f"{name}: OpenSpiel {statistics.median(peer):,.0f}/s, mstrain {statistics.median(mine):,.0f}/s, "
            f"ratio {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}), {nodes:.2f} bytes a node"
        )


if __name__ == "__main__":
    main()
