#!/usr/bin/env python3
"""Connect four with a PyTorch network: 64 games at once, one network batch for all of them. The network is untrained; the
loop is the self-play part of AlphaZero."""
import torch

from mstrain_mcts import Game, TorchEvaluator, self_play


class Network(torch.nn.Module):
    def __init__(self, inputs, actions):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(inputs, 64), torch.nn.ReLU())
        self.policy, self.value = torch.nn.Linear(64, actions), torch.nn.Linear(64, 1)

    def forward(self, observations):
        features = self.body(observations)
        return torch.tanh(self.value(features)), self.policy(features)  # the value of the player to move


def main(games=64, simulations=50):
    torch.manual_seed(0)
    game = Game("connect_four")
    evaluator = TorchEvaluator(Network(game.observation_size, game.max_actions))
    for played in self_play(game, evaluator, games, simulations, noise_fraction=0.25):
        print(f"game {played.number}: {len(played.actions)} moves, {played.returns}")


if __name__ == "__main__":
    main()
