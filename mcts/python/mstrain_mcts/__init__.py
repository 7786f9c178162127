"""Tree search in C++, evaluated by Python in NumPy batches.

    game = Game("connect_four")
    search = Search(game, policy="puct", seed=1)
    search.set_root(game.initial_state())
    search.run(simulations=1000)                     # random rollouts
    search.run(simulations=1000, evaluator=network)  # network(observations [n, size]) -> values [n, players], priors [n, actions]
    search.best_action, search.edges()

Values are seen by player 0, 1, ... (`by_mover=True`: by the player to move first). Many trees in one batch: gather() and
scatter(). Errors of the library are raised as SearchError; what an evaluator raises comes out of run() itself.
"""
import ctypes
import pathlib

import numpy as np

__version__ = "0.1.0"
_ABI = 1
_MESSAGES = {1: "usage", 2: "game", 3: "evaluator", 4: "memory", 5: "internal"}


class SearchError(RuntimeError):
    """`code`: 1 usage, 2 game, 3 evaluator, 4 memory, 5 internal."""

    def __init__(self, code, message):
        super().__init__(message or _MESSAGES.get(code, str(code)))
        self.code = code


_u32, _p, _f = ctypes.c_uint32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_float)
_pu32 = ctypes.POINTER(_u32)
_Player = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p)
_Legal = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p, _pu32, _pu32)
_Apply = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p, _u32)
_Returns = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p, _f)
_Chance = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p, _pu32, _f, _pu32)
_Rollout = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p, ctypes.c_uint64, _f)
_Observe = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p, ctypes.c_int, _f)
_Evaluate = ctypes.CFUNCTYPE(ctypes.c_int, _p, _u32, ctypes.POINTER(_p), _f, _f, _f)


class _Game(ctypes.Structure):
    _fields_ = [("abi_version", _u32), ("players", _u32), ("state_size", _u32), ("max_actions", _u32),
                ("observation_size", _u32), ("context", _p), ("player", _Player), ("legal", _Legal), ("apply", _Apply),
                ("returns", _Returns), ("chance", _Chance), ("rewards", _Returns), ("rollout", _Rollout),
                ("observe", _Observe)]


class _Budget(ctypes.Structure):
    _fields_ = [("simulations", ctypes.c_int64), ("milliseconds", ctypes.c_double), ("stable", ctypes.c_int64)]


class _Edge(ctypes.Structure):
    _fields_ = [("action", _u32), ("visits", _u32), ("value", ctypes.c_double), ("prior", ctypes.c_double),
                ("weight", ctypes.c_double), ("proven", ctypes.c_int32)]


class _Summary(ctypes.Structure):
    _fields_ = [("best_action", ctypes.c_int64), ("value", ctypes.c_double), ("proven", ctypes.c_int32), ("edges", _u32),
                ("simulations", ctypes.c_uint64), ("evaluations", ctypes.c_uint64), ("collisions", ctypes.c_uint64),
                ("nodes", ctypes.c_uint64), ("tree_bytes", ctypes.c_uint64), ("seconds", ctypes.c_double)]


def _load():
    library = ctypes.CDLL(str(pathlib.Path(__file__).resolve().parent / "libmstrain_mcts_c.so"))
    library.mst_mcts_last_error.restype = ctypes.c_char_p
    library.mst_mcts_version.restype = ctypes.c_char_p
    library.mst_mcts_abi_version.restype = _u32
    library.mst_mcts_destroy.argtypes = [_p]
    library.mst_mcts_destroy.restype = None
    arguments = {
        "find_game": [ctypes.c_char_p, ctypes.POINTER(ctypes.POINTER(_Game))],
        "initial_state": [ctypes.POINTER(_Game), _p],
        "create": [ctypes.POINTER(_Game), ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_p)],
        "set_root": [_p, _p],
        "advance": [_p, _u32],
        "run": [_p, ctypes.POINTER(_Budget), _Evaluate, _p, ctypes.c_int],
        "gather": [ctypes.POINTER(_p), _u32, _u32, _u32, ctypes.POINTER(_p), _f, _pu32],
        "scatter": [ctypes.POINTER(_p), _u32, _u32, _f, _f],
        "result": [_p, ctypes.POINTER(_Summary)],
        "edges": [_p, ctypes.POINTER(_Edge), _u32, _pu32],
        "principal_variation": [_p, _pu32, _u32, _pu32],
    }
    for name, types in arguments.items():
        function = getattr(library, "mst_mcts_" + name)
        function.argtypes = types
        function.restype = ctypes.c_int
    if library.mst_mcts_abi_version() != _ABI:
        raise ImportError(f"libmstrain_mcts_c has ABI {library.mst_mcts_abi_version()}, this module wants {_ABI}")
    return library


_library = _load()


def _call(name, *args):
    code = getattr(_library, "mst_mcts_" + name)(*args)
    if code != 0:
        raise SearchError(code, _library.mst_mcts_last_error().decode())


def _pointer(array):
    return array.ctypes.data_as(_f)


class Game:
    """A game of the library by name: tic_tac_toe, connect_four, othello. States are bytes."""

    def __init__(self, name):
        found = ctypes.POINTER(_Game)()
        _call("find_game", name.encode(), ctypes.byref(found))
        self._table = found
        table = found.contents
        self.name, self.players, self.max_actions = name, table.players, table.max_actions
        self.observation_size, self._state_size = table.observation_size, table.state_size

    def initial_state(self):
        state = ctypes.create_string_buffer(self._state_size)
        _call("initial_state", self._table, state)
        return state.raw

    def player(self, state):
        """0, 1, ..., or -2 where the game is over."""
        return self._table.contents.player(None, ctypes.create_string_buffer(state, self._state_size))

    def legal(self, state):
        out, count = (_u32 * self.max_actions)(), _u32()
        self._done(self._table.contents.legal(None, ctypes.create_string_buffer(state, self._state_size), out, count))
        return list(out[: count.value])

    def apply(self, state, action):
        if action not in self.legal(state):
            raise SearchError(1, f"{action} is not a legal action")
        after = ctypes.create_string_buffer(state, self._state_size)
        self._done(self._table.contents.apply(None, after, action))
        return after.raw

    def returns(self, state):
        out = np.zeros(self.players, np.float32)
        self._done(self._table.contents.returns(None, ctypes.create_string_buffer(state, self._state_size), _pointer(out)))
        return out

    @staticmethod
    def _done(code):
        if code != 0:
            raise SearchError(2, f"the game returned {code}")


def _answer(output, count, players, actions, movers):
    values, priors = output if isinstance(output, tuple) else (output, None)
    values = np.asarray(values, np.float32)
    if values.shape != (count, players):
        raise SearchError(3, f"evaluator: values of shape {values.shape}; ({count}, {players}) expected")
    if movers is not None:  # row i lists the player to move first
        columns = (np.arange(players)[None, :] - np.asarray(movers)[:, None]) % players
        values = np.take_along_axis(values, columns, axis=1)
    if priors is not None:
        priors = np.ascontiguousarray(priors, np.float32)
        if priors.shape != (count, actions):
            raise SearchError(3, f"evaluator: priors of shape {priors.shape}; ({count}, {actions}) expected")
    return np.ascontiguousarray(values), priors


class Search:
    """One tree. `policy`: uct (or ucb1), uct_tuned (or ucb1_tuned), puct, gumbel, rave, epsilon_greedy, wu_uct, widening.
    `settings` are the keys of the library's SearchConfig: seed, uct_c, puct_c, threads, parallelism, ..."""

    def __init__(self, game, policy="uct", by_mover=False, **settings):
        self.game, self.by_mover = game, by_mover
        self._handle = _p()
        text = ", ".join(f"{key}: {str(value).lower() if isinstance(value, bool) else value}" for key, value in settings.items())
        _call("create", game._table, policy.encode(), ("{" + text + "}").encode(), ctypes.byref(self._handle))

    def __del__(self):
        handle = getattr(self, "_handle", None)
        if handle:
            _library.mst_mcts_destroy(handle)
            self._handle = None

    def set_root(self, state):
        _call("set_root", self._handle, ctypes.create_string_buffer(state, self.game._state_size))

    def advance(self, action):
        _call("advance", self._handle, action)

    def run(self, simulations=0, milliseconds=0.0, stable=0, evaluator=None):
        """evaluator(observations) -> values, or (values, priors); see the module's text."""
        raised = []

        def evaluate(_, count, states, observations, values, priors):
            try:
                size = self.game.observation_size
                rows = np.ctypeslib.as_array(observations, (count, size)).copy()
                movers = [self.game._table.contents.player(None, states[i]) for i in range(count)] if self.by_mover else None
                v, p = _answer(evaluator(rows), count, self.game.players, self.game.max_actions, movers)
                np.ctypeslib.as_array(values, v.shape)[:] = v
                if priors:
                    np.ctypeslib.as_array(priors, (count, self.game.max_actions))[:] = 1 if p is None else p
                return 0
            except BaseException as error:  # must not pass through C; raised again below
                raised.append(error)
                return 1

        callback = _Evaluate(evaluate) if evaluator is not None else _Evaluate()
        budget = _Budget(simulations, milliseconds, stable)
        try:
            _call("run", self._handle, ctypes.byref(budget), callback, None, 1)
        except SearchError:
            if raised:
                raise raised[0] from None
            raise
        return self

    def summary(self):
        """best_action (None: nothing visited), value, proven, simulations, evaluations, collisions, nodes, tree_bytes, seconds."""
        out = _Summary()
        _call("result", self._handle, ctypes.byref(out))
        answer = {name: getattr(out, name) for name, _ in _Summary._fields_}
        answer["best_action"] = None if out.best_action < 0 else out.best_action
        answer["proven"] = bool(out.proven)
        return answer

    @property
    def best_action(self):
        return self.summary()["best_action"]

    def edges(self):
        """The root's actions as a structured array: action, visits, value, prior, weight, proven."""
        count = _u32()
        _call("edges", self._handle, None, 0, ctypes.byref(count))
        out = (_Edge * count.value)()
        _call("edges", self._handle, out, count.value, ctypes.byref(count))
        return np.array([tuple(getattr(e, name) for name, _ in _Edge._fields_) for e in out],
                        dtype=[("action", "u4"), ("visits", "u4"), ("value", "f8"), ("prior", "f8"), ("weight", "f8"),
                               ("proven", "?")])

    def policy(self):
        """The improved policy over all actions: [max_actions], sums to 1."""
        out = np.zeros(self.game.max_actions, np.float32)
        edges = self.edges()
        out[edges["action"]] = edges["weight"]
        return out

    def principal_variation(self):
        count = _u32()
        _call("principal_variation", self._handle, None, 0, ctypes.byref(count))
        out = (_u32 * count.value)()
        _call("principal_variation", self._handle, out, count.value, ctypes.byref(count))
        return list(out)


class Batch:
    """Many searches of one game that share evaluator batches: gather() leaves, evaluate them, scatter() the answers."""

    def __init__(self, searches, leaves_each=1):
        self.searches, self.leaves_each, self.game = list(searches), leaves_each, searches[0].game
        self._handles = (_p * len(self.searches))(*[s._handle for s in self.searches])
        self._capacity = len(self.searches) * leaves_each
        self._observations = np.zeros((self._capacity, self.game.observation_size), np.float32)
        self._states = (_p * self._capacity)()
        self._counts = (_u32 * len(self.searches))()
        self._total = 0

    def gather(self):
        """Observations [n, size] of the leaves, seen by their players to move."""
        _call("gather", self._handles, len(self.searches), self.leaves_each, self._capacity, self._states,
              _pointer(self._observations), self._counts)
        self._total = sum(self._counts)
        return self._observations[: self._total]

    def scatter(self, values, priors=None):
        by_mover = self.searches[0].by_mover
        movers = [self.game._table.contents.player(None, self._states[i]) for i in range(self._total)] if by_mover else None
        v, p = _answer((values, priors), self._total, self.game.players, self.game.max_actions, movers)
        _call("scatter", self._handles, len(self.searches), self._total, _pointer(v), _pointer(p) if p is not None else None)
