"""Games that a search plays against itself: what AlphaZero learns from."""
import numpy as np

from .games import CHANCE, TERMINAL
from .search import Batch, Search


class PlayedGame:
    """states [moves] and actions [moves]; movers [moves]; policies [moves, max_actions], which sum to 1; values [moves], the
    search's, for the player to move; rewards [moves, players], paid by the action and by the chance that followed; returns
    [players], the whole result; finished, False where it was cut at max_moves."""

    def __init__(self, number, players):
        self.number, self.finished = number, False
        self.states, self.actions, self.movers, self.policies, self.values, self.rewards = [], [], [], [], [], []
        self.returns = np.zeros(players, np.float64)


def _move_all(game, states, actions):
    """The states after the actions, and what was paid."""
    if getattr(game, "vectorised", False):
        after = np.array(states, game.dtype)
        game.apply(after, np.asarray(actions))
        paid = game.rewards(after) if hasattr(game, "rewards") else np.zeros((len(after), game.players))
        return list(after), np.asarray(paid)
    after = [game.after(state, action) for state, action in zip(states, actions)]
    return after, np.array([game.rewards_of(s) for s in after])


def self_play(game, evaluator, games, simulations, policy="puct", at_once=64, seed=0, discount=1.0, max_moves=1 << 20,
              temperature_moves=8, start=None, **settings):
    """Yields PlayedGames as they end. Up to `at_once` games share the evaluator's batches; `evaluator(leaves)` as in Search.run.
    The first `temperature_moves` moves are drawn from the visits. `start(number)`: the state that a game begins with."""
    if games < 1 or simulations < 2:
        raise ValueError(f"self-play: {games} games of {simulations} simulations a move; at least 1 game of 2 is needed")
    at_once = min(at_once, games)
    rng = np.random.default_rng(seed)
    boards, waiting = [], iter(range(games))

    class Board:
        def begin(self, number):
            # Each game has a search of its own: set_root() draws the same numbers again.
            self.search = Search(game, policy, seed=seed * 1000003 + number, discount=discount, **settings)
            self.played, self.weight = PlayedGame(number, game.players), 1.0
            self.state = game.initial_state() if start is None else start(number)
            self.pass_chance()
            self.search.set_root(self.state)

        def end(self, over):
            self.played.finished = over
            if over:
                self.played.returns += self.weight * game.returns_of(self.state)
            return self.played

        def earn(self, paid):
            self.played.returns += self.weight * paid
            self.weight *= discount
            if self.played.rewards:
                self.played.rewards[-1] = self.played.rewards[-1] + paid

        def pass_chance(self):
            passed = []
            while game.player_of(self.state) == CHANCE:
                outcomes, shares = game.chance_outcomes(self.state)
                action = rng.choice(outcomes, p=shares.astype(np.float64) / shares.sum(dtype=np.float64))
                self.state = game.after(self.state, action)
                self.earn(game.rewards_of(self.state))
                passed.append(action)
            return passed

    def choose(board):
        edges, played = board.search.edges(), board.played
        action = board.search.best_action
        if len(played.actions) < temperature_moves and policy != "gumbel":
            action = rng.choice(edges["action"], p=edges["visits"] / edges["visits"].sum())
        played.states.append(board.state)
        played.actions.append(int(action))
        played.movers.append(game.player_of(board.state))
        played.policies.append(board.search.policy())
        played.values.append(board.search.summary()["value"])
        played.rewards.append(np.zeros(game.players))
        return int(action)

    def begin_next(board):
        """The games that are over where they begin, before the one that is to be played."""
        for number in waiting:
            board.begin(number)
            board.active = game.player_of(board.state) != TERMINAL
            if board.active:
                return
            yield board.end(True)
        board.active = False

    boards = [Board() for _ in range(at_once)]
    for board in boards:
        yield from begin_next(board)
    while active := [b for b in boards if b.active]:
        batch = Batch([b.search for b in active], simulations=simulations)
        while len(leaves := batch.gather()):
            output = evaluator(leaves)
            batch.scatter(*(output if isinstance(output, tuple) else (output,)))
        actions = [choose(b) for b in active]
        after, paid = _move_all(game, [b.state for b in active], actions)
        for board, action, state, reward in zip(active, actions, after, paid):
            board.state = state
            board.earn(reward)
            way = [action] + board.pass_chance()
            over = game.player_of(board.state) == TERMINAL
            if not over and len(board.played.actions) < max_moves:
                for each in way:
                    board.search.advance(each)
                continue
            yield board.end(over)
            yield from begin_next(board)
