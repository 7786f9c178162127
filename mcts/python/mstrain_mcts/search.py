"""Searches, batches of searches, and evaluators."""
import ctypes

import numpy as np

from . import _library as c


class Leaves:
    """What an evaluator is asked about: n states, in arrays that are the caller's to keep.

    observations [n, size]   seen by the player to move (size 0 where the game has none)
    movers       [n]         the player to move
    states       [n]         of the game's dtype
    players                  of the game"""

    def __init__(self, game, states, observations):
        self.players = game.players
        self.states, self.observations = states, observations
        self.movers = np.fromiter((game.player_of(s) for s in states), np.int32, len(states))

    def __len__(self):
        return len(self.states)


def by_player(values, movers):
    """Values [n, players] of which row i begins with the player to move, then the others in order of play, in the order of the
    players' numbers. Networks that see the board as the player to move sees it give such values."""
    values = np.asarray(values)
    columns = (np.arange(values.shape[1])[None, :] - np.asarray(movers)[:, None]) % values.shape[1]
    return np.take_along_axis(values, columns, axis=1)


class TorchEvaluator:
    """A PyTorch module as an evaluator: module(observations [n, size]) -> (values, logits). values [n, players], which begin with
    the player to move; or [n, 1], for one player, or two whose results sum to zero. logits [n, max_actions]."""

    def __init__(self, module, device="cpu"):
        self.module, self.device = module.to(device), device

    def __call__(self, leaves):
        import torch

        with torch.inference_mode():
            values, logits = self.module(torch.from_numpy(leaves.observations).to(self.device))
            values, priors = values.float().cpu().numpy(), torch.softmax(logits.float(), 1).cpu().numpy()
        if values.shape[1] == 1 and leaves.players == 2:
            values = np.concatenate([values, -values], 1)
        return by_player(values, leaves.movers), priors


def _numpy(array):
    return array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)


def _answer(output, count, game):
    values, priors = output if isinstance(output, tuple) else (output, None)
    values = np.ascontiguousarray(_numpy(values), np.float32)
    if values.shape != (count, game.players):
        raise c.SearchError(3, f"evaluator: values of shape {values.shape}; ({count}, {game.players}) expected")
    if priors is not None:
        priors = np.ascontiguousarray(_numpy(priors), np.float32)
        if priors.shape != (count, game.max_actions):
            raise c.SearchError(3, f"evaluator: priors of shape {priors.shape}; ({count}, {game.max_actions}) expected")
    return values, priors


def _leaves(game, addresses, count, observations):
    """Copies what `addresses` point to. `observations`, where given, are the game's own."""
    raw = b"".join(ctypes.string_at(addresses[i], game.dtype.itemsize) for i in range(count))
    states = np.frombuffer(raw, game.dtype).copy()
    leaves = Leaves(game, states, observations)
    if observations is None:
        leaves.observations = np.ascontiguousarray(game.observe(states, leaves.movers), np.float32)
        if leaves.observations.shape != (count, game.observation_size):
            raise c.SearchError(2, f"game: observations of shape {leaves.observations.shape}; "
                                   f"({count}, {game.observation_size}) expected")
    return leaves


def _observes_batches(game):
    return getattr(game, "vectorised", False) and game.observation_size > 0


class Search:
    """One tree. `policy`: uct (or ucb1), uct_tuned (or ucb1_tuned), puct, gumbel, rave, epsilon_greedy, wu_uct, widening, graph,
    information_set, open_loop. `settings` are the keys of the library's SearchConfig: seed, uct_c, puct_c, threads,
    parallelism, solve, ..."""

    def __init__(self, game, policy="uct", **settings):
        self.game, self._handle = game, c.void_p()
        c.call("create", ctypes.byref(game._table), policy.encode(), c.settings_text(settings), ctypes.byref(self._handle))

    def __del__(self):
        handle = getattr(self, "_handle", None)
        if handle:
            c.library.mst_mcts_destroy(handle)
            self._handle = None

    def _call(self, name, *args):
        try:
            c.call(name, self._handle, *args)
        finally:
            self.game._raise()

    def set_root(self, state):
        self._call("set_root", self.game._copy(state))

    def advance(self, action):
        if not 0 <= action < self.game.max_actions:  # which 32 bits might make another one
            raise c.SearchError(1, f"search: advance({action}): not a legal action at the root")
        self._call("advance", int(action))

    def run(self, simulations=0, milliseconds=0.0, stable=0, evaluator=None):
        """Random rollouts, or evaluator(leaves) -> values [n, players], or (values, priors [n, max_actions]): NumPy arrays or
        PyTorch tensors; values of player 0, player 1, ... What the evaluator raises comes out of here."""
        raised, game = [], self.game

        def evaluate(_, count, states, observations, values, priors):
            try:
                if _observes_batches(game):
                    rows = None
                elif observations:
                    rows = np.ctypeslib.as_array(observations, (count, game.observation_size)).copy()
                else:
                    rows = np.zeros((count, 0), np.float32)
                v, p = _answer(evaluator(_leaves(game, states, count, rows)), count, game)
                np.ctypeslib.as_array(values, v.shape)[:] = v
                if priors:
                    np.ctypeslib.as_array(priors, (count, game.max_actions))[:] = 1 if p is None else p
                return 0
            except BaseException as error:  # must not pass through C; raised again below
                raised.append(error)
                return 1

        callback = c.Evaluate(evaluate) if evaluator is not None else c.Evaluate()
        try:
            self._call("run", ctypes.byref(c.BudgetTable(simulations, milliseconds, stable)), callback, None, 1)
        except c.SearchError:
            if raised:
                raise raised[0] from None
            raise
        return self

    def summary(self):
        """best_action (None: no simulation yet, or chance moves), value (for the player to move at the root), proven,
        simulations, evaluations, collisions, nodes, tree_bytes, seconds."""
        out = c.SummaryTable()
        self._call("result", ctypes.byref(out))
        answer = {name: getattr(out, name) for name, _ in c.SummaryTable._fields_}
        answer["best_action"] = None if out.best_action < 0 else out.best_action
        answer["proven"] = bool(out.proven)
        return answer

    @property
    def best_action(self):
        return self.summary()["best_action"]

    def edges(self):
        """The root's actions as a structured array: action, visits, value (for the player to move), prior, weight, proven."""
        count = c.u32()
        self._call("edges", None, 0, ctypes.byref(count))
        out = (c.EdgeTable * count.value)()
        self._call("edges", out, count.value, ctypes.byref(count))
        fields = [("action", "u4"), ("visits", "u8"), ("value", "f8"), ("prior", "f8"), ("weight", "f8"), ("proven", "?")]
        return np.array([tuple(getattr(e, name) for name, _ in fields) for e in out], dtype=fields)

    def policy(self):
        """The improved policy over all actions: [max_actions], sums to 1."""
        out = np.zeros(self.game.max_actions, np.float32)
        edges = self.edges()
        out[edges["action"]] = edges["weight"]
        return out

    def principal_variation(self):
        count = c.u32()
        self._call("principal_variation", None, 0, ctypes.byref(count))
        out = np.zeros(count.value, np.uint32)
        self._call("principal_variation", c.numbers(out), count.value, ctypes.byref(count))
        return out


class Batch:
    """Runs of many searches of one game in steps, with common batches for the evaluator:

        batch = Batch(searches, simulations=100)
        while len(leaves := batch.gather()):
            batch.scatter(*network(leaves))

    The budget is that of each search, from its last set_root() or advance() on; `leaves_each` at most are taken from one at a time."""

    def __init__(self, searches, leaves_each=1, simulations=0, milliseconds=0.0, stable=0):
        self.searches, self.leaves_each = list(searches), leaves_each
        if not self.searches:
            raise c.SearchError(1, "batch: no searches")
        self.game = self.searches[0].game
        self.budget = c.BudgetTable(simulations, milliseconds, stable)
        self._handles = (c.void_p * len(self.searches))(*[s._handle for s in self.searches])
        self._capacity = len(self.searches) * leaves_each
        self._states = (c.void_p * self._capacity)()
        self._counts = np.zeros(len(self.searches), np.uint32)
        self._total = 0

    def _call(self, name, *args):
        try:
            c.call(name, self._handles, len(self.searches), *args)
        finally:
            self.game._raise()

    def gather(self):
        """Leaves of all searches whose run is not over; none where all are."""
        rows = None
        if not _observes_batches(self.game):
            rows = np.zeros((self._capacity, self.game.observation_size), np.float32)
        self._call("gather", ctypes.byref(self.budget), self.leaves_each, self._capacity, self._states, c.floats(rows),
                   c.numbers(self._counts))
        self._total = int(self._counts.sum())
        return _leaves(self.game, self._states, self._total, None if rows is None else rows[: self._total].copy())

    def scatter(self, values, priors=None):
        """Values [n, players] and priors [n, max_actions] of the leaves gathered last."""
        v, p = _answer((values, priors), self._total, self.game)
        self._call("scatter", self._total, c.floats(v), c.floats(p))
