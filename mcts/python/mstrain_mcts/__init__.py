"""Tree search in C++ for games and evaluators in Python.

    game = Game("connect_four")                      # shipped_games() names all; a class of one's own: OwnGame
    search = Search(game, policy="puct", seed=1)
    search.set_root(game.initial_state())
    search.run(simulations=1000)                     # random rollouts
    search.run(simulations=1000, evaluator=network)  # network(leaves) -> values [n, players], priors [n, max_actions]
    search.best_action, search.edges()

Values are those of player 0, player 1, ... everywhere; the one value of an edge or of a root is that of the player to move at the
root. Many trees in one batch: Batch, self_play(). A learned model: MuZero. Errors of the library are SearchErrors; what a game or
an evaluator raises comes out of the call that met it.
"""
from ._library import SearchError
from .games import CHANCE, TERMINAL, Game, OwnGame, shipped_games
from .muzero import MuZero
from .search import Batch, Leaves, Search, TorchEvaluator, by_player
from .selfplay import PlayedGame, self_play

__version__ = "0.1.0"
__all__ = ["CHANCE", "TERMINAL", "Batch", "Game", "Leaves", "MuZero", "OwnGame", "PlayedGame", "Search", "SearchError",
           "TorchEvaluator", "by_player", "self_play", "shipped_games"]
