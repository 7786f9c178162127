#!/usr/bin/env python3
"""Connect four with a PyTorch network: 64 games at once, one network batch for all of them. The network is untrained; the
loop is the self-play part of AlphaZero."""
import torch

from mstrain_mcts import Batch, Game, Search


class Network(torch.nn.Module):
    def __init__(self, inputs, actions):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(inputs, 64), torch.nn.ReLU())
        self.policy, self.value = torch.nn.Linear(64, actions), torch.nn.Linear(64, 1)

    @torch.no_grad()
    def answer(self, observations):
        features = self.body(torch.from_numpy(observations))
        mine = torch.tanh(self.value(features))  # of the player to move; the other's is its negative
        return torch.cat([mine, -mine], 1).numpy(), torch.softmax(self.policy(features), 1).numpy()


def main(games=64, simulations=50, moves=8):
    torch.manual_seed(0)
    game = Game("connect_four")
    network = Network(game.observation_size, game.max_actions)
    searches = [Search(game, policy="puct", by_mover=True, seed=i, noise_fraction=0.25) for i in range(games)]
    states = [game.initial_state() for _ in searches]
    for search, state in zip(searches, states):
        search.set_root(state)
    batch = Batch(searches)
    for move in range(moves):
        for _ in range(simulations):
            batch.scatter(*network.answer(batch.gather()))
        for i, search in enumerate(searches):
            action = search.best_action
            states[i] = game.apply(states[i], action)
            if game.player(states[i]) < 0:  # over: the next game
                states[i] = game.initial_state()
                search.set_root(states[i])
            else:
                search.advance(action)
        print(f"move {move + 1}: {games} games, {games * simulations} leaves evaluated")


if __name__ == "__main__":
    main()
