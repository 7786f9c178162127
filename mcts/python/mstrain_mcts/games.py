"""Games: those of the library, and one's own."""
import ctypes

import numpy as np

from . import _library as c

CHANCE, TERMINAL = -1, -2


def shipped_games():
    """Names of the games that come with the library."""
    names, number = [], 0
    while (name := c.library.mst_mcts_game_name(number)) is not None:
        names.append(name.decode())
        number += 1
    return names


class Game:
    """A game of the library by name (shipped_games()), and what all games have in common. States are NumPy scalars of `dtype`
    (for games of the library: bytes that mean something to them alone); methods that take a state leave it as it is."""

    def __init__(self, name):
        found = ctypes.POINTER(c.GameTable)()
        c.call("find_game", name.encode(), ctypes.byref(found))
        self.name, self.dtype = name, np.dtype((np.void, found.contents.state_size))
        self._take(found.contents)

    def _take(self, table):
        self._table, self._raised = table, []
        self.players, self.max_actions = table.players, table.max_actions
        self.observation_size = table.observation_size

    def _copy(self, state):
        """The state in memory of its own."""
        raw = state if isinstance(state, bytes) else np.asarray(state, self.dtype).tobytes()
        if len(raw) != self._table.state_size:
            raise c.SearchError(1, f"a state of {self._table.state_size} bytes expected, found {len(raw)}")
        return ctypes.create_string_buffer(raw, len(raw))

    def _ask(self, name, *args):
        function = getattr(self._table, name)
        if not function:
            raise c.SearchError(1, f"this game has no {name}")
        code = function(self._table.context, *args)
        self._raise()
        return code

    def _raise(self):
        """What a callback in Python raised must not pass through C: it is raised here."""
        if self._raised:
            error = self._raised[0]
            self._raised.clear()
            raise error

    def _do(self, name, *args):
        code = self._ask(name, *args)
        if code != 0:
            raise c.SearchError(2, f"game: {name} returned {code}")

    def initial_state(self):
        state = ctypes.create_string_buffer(self._table.state_size)
        c.call("initial_state", ctypes.byref(self._table_of_library()), state)
        return np.frombuffer(state.raw, self.dtype)[0]

    def _table_of_library(self):
        found = ctypes.POINTER(c.GameTable)()
        c.call("find_game", self.name.encode(), ctypes.byref(found))
        return found.contents

    def player_of(self, state):
        """0, 1, ..., CHANCE or TERMINAL."""
        return self._ask("player", self._copy(state))

    def legal_actions(self, state):
        out, count = np.zeros(self.max_actions, np.uint32), c.u32()
        self._do("legal", self._copy(state), c.numbers(out), count)
        return out[: count.value].copy()

    def chance_outcomes(self, state):
        """Actions and their probabilities."""
        out, shares, count = np.zeros(self.max_actions, np.uint32), np.zeros(self.max_actions, np.float32), c.u32()
        self._do("chance", self._copy(state), c.numbers(out), c.floats(shares), count)
        return out[: count.value].copy(), shares[: count.value].copy()

    def after(self, state, action):
        """The state after an action, or after an outcome of chance."""
        known = self.chance_outcomes(state)[0] if self.player_of(state) == CHANCE else self.legal_actions(state)
        if action not in known:
            raise c.SearchError(1, f"{action} is not a legal action")
        buffer = self._copy(state)
        self._do("apply", buffer, int(action))
        return np.frombuffer(buffer.raw, self.dtype)[0]

    def returns_of(self, state):
        return self._values("returns", state)

    def rewards_of(self, state):
        """What the last action paid."""
        return self._values("rewards", state) if self._table.rewards else np.zeros(self.players, np.float32)

    def _values(self, name, state):
        out = np.zeros(self.players, np.float32)
        self._do(name, self._copy(state), c.floats(out))
        return out

    def observation(self, state, player=None):
        """The network input that `player` (else the player to move) sees."""
        player = self.player_of(state) if player is None else player
        if not 0 <= player < self.players:  # CHANCE and TERMINAL among them
            raise c.SearchError(1, f"game: observation of player {player}; expected 0 to {self.players - 1}")
        out = np.zeros(self.observation_size, np.float32)
        self._do("observe", self._copy(state), int(player), c.floats(out))
        return out


class OwnGame(Game):
    """A game of one's own: a class with

        players, max_actions     numbers; every action is below max_actions
        dtype                    NumPy's, of a state
        initial_state(self)      a state
        player(self, s)          0, 1, ..., CHANCE or TERMINAL
        legal(self, s)           the legal actions
        apply(self, s, action)   changes s, an array of shape () that stands for the state
        returns(self, s)         [players], in a terminal state

    and, where the game has them: min_return and max_return (without them nothing is proven), zero_sum, observation_size with
    observe(s, player) -> [size], chance(s) -> actions, probabilities; rewards(s) -> [players], of the last apply; hash(s) -> int;
    undo(s, action); determinize(s, player, rng) with information_key(s, player) -> int; sample_action(s, rng);
    rollout(s, rng) -> [players]. `rng` is a numpy.random.Generator. What a method raises comes out of the search.

    With `vectorised = True` the methods take arrays of n states: player -> [n], legal -> bool [n, max_actions], apply(s,
    actions), returns -> [n, players], observe(s, players) -> [n, size], rewards -> [n, players], and so on. A search asks for one
    state at a time but for observations, which it asks for once a batch; self_play() moves all its games at once."""

    vectorised = False
    observation_size = 0
    min_return = max_return = 0.0
    zero_sum = False

    _OPTIONAL = ("chance", "rewards", "rollout", "observe", "hash", "undo", "determinize", "information_key",
                 "sample_action")

    def __init__(self):
        self.name, self.dtype = type(self).__name__, np.dtype(self.dtype)
        table = c.GameTable(abi_version=c.library.mst_mcts_abi_version(), players=self.players,
                            state_size=self.dtype.itemsize, max_actions=self.max_actions,
                            observation_size=self.observation_size, min_return=self.min_return,
                            max_return=self.max_return, zero_sum=int(self.zero_sum))
        for name in ("player", "legal", "apply", "returns") + self._OPTIONAL:
            if hasattr(type(self), name):
                body = getattr(self, "_call_" + name)
                failed = {"player": -3, "hash": 0, "information_key": 0}.get(name, 1)
                setattr(table, name, c.CALLBACKS[name](self._guarded(body, failed)))
        self._take(table)

    def _guarded(self, body, failed):
        def callback(_, *args):
            try:
                return body(*args)
            except BaseException as error:  # must not pass through C; raised again by whoever called it
                self._raised.append(error)
                return failed
        return callback

    def _view(self, address):
        """The state there, without a copy: an array of shape () or, vectorised, (1,)."""
        array = np.ctypeslib.as_array((ctypes.c_uint8 * self.dtype.itemsize).from_address(address)).view(self.dtype)
        return array if self.vectorised else array.reshape(())

    def _write(self, out, values, count):
        row = np.asarray(values, np.float32).reshape(-1)
        if row.size != count:
            raise c.SearchError(2, f"game: {row.size} values; {count} expected")
        np.ctypeslib.as_array(out, (count,))[:] = row

    def _one(self, value):
        return np.asarray(value).reshape(-1).tolist()[0]

    def _few(self, value):
        """An argument for each state."""
        return np.asarray([value]) if self.vectorised else value

    def _list(self, out, count, actions):
        actions = np.asarray(actions).reshape(-1)
        if actions.size > self.max_actions:
            raise c.SearchError(2, f"game: {actions.size} actions; max_actions is {self.max_actions}")
        np.ctypeslib.as_array(out, (self.max_actions,))[: actions.size] = actions
        count[0] = actions.size
        return 0

    def _call_player(self, s):
        return int(self._one(self.player(self._view(s))))

    def _call_legal(self, s, out, count):
        legal = self.legal(self._view(s))
        return self._list(out, count, np.flatnonzero(legal) if self.vectorised else list(legal))

    def _call_apply(self, s, action):
        self.apply(self._view(s), self._few(action))
        return 0

    def _call_returns(self, s, out):
        self._write(out, self.returns(self._view(s)), self.players)
        return 0

    def _call_rewards(self, s, out):
        self._write(out, self.rewards(self._view(s)), self.players)
        return 0

    def _call_rollout(self, s, seed, out):
        self._write(out, self.rollout(self._view(s), np.random.default_rng(seed)), self.players)
        return 0

    def _call_chance(self, s, out, shares, count):
        actions, probabilities = self.chance(self._view(s))
        self._list(out, count, actions)
        self._write(shares, probabilities, count[0])
        return 0

    def _call_observe(self, s, player, out):
        self._write(out, self.observe(self._view(s), self._few(player)), self.observation_size)
        return 0

    def _call_hash(self, s):
        return self._one(self.hash(self._view(s))) % (1 << 64)

    def _call_undo(self, s, action):
        self.undo(self._view(s), self._few(action))
        return 0

    def _call_determinize(self, s, player, seed):
        self.determinize(self._view(s), self._few(player), np.random.default_rng(seed))
        return 0

    def _call_information_key(self, s, player):
        return self._one(self.information_key(self._view(s), self._few(player))) % (1 << 64)

    def _call_sample_action(self, s, seed, out):
        out[0] = int(self._one(self.sample_action(self._view(s), np.random.default_rng(seed))))
        return 0

    def initial_state(self):
        raise NotImplementedError(f"{self.name}.initial_state")
