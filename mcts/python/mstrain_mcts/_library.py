"""The C interface (mstrain_mcts.h) by ctypes: tables, and calls whose codes become exceptions."""
import ctypes
import pathlib

_ABI = 2
_MESSAGES = {1: "usage", 2: "game", 3: "evaluator", 4: "memory", 5: "internal"}


class SearchError(RuntimeError):
    """`code`: 1 usage, 2 game, 3 evaluator, 4 memory, 5 internal."""

    def __init__(self, code, message):
        super().__init__(message or _MESSAGES.get(code, str(code)))
        self.code = code


u32, i32, u64, i64, f32, f64 = (ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int64, ctypes.c_float,
                                ctypes.c_double)
void_p, char_p, int_ = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
pointer_f, pointer_u32 = ctypes.POINTER(f32), ctypes.POINTER(u32)
_f = ctypes.CFUNCTYPE

CALLBACKS = {
    "player": _f(int_, void_p, void_p),
    "legal": _f(int_, void_p, void_p, pointer_u32, pointer_u32),
    "apply": _f(int_, void_p, void_p, u32),
    "returns": _f(int_, void_p, void_p, pointer_f),
    "chance": _f(int_, void_p, void_p, pointer_u32, pointer_f, pointer_u32),
    "rewards": _f(int_, void_p, void_p, pointer_f),
    "rollout": _f(int_, void_p, void_p, u64, pointer_f),
    "observe": _f(int_, void_p, void_p, int_, pointer_f),
    "hash": _f(u64, void_p, void_p),
    "undo": _f(int_, void_p, void_p, u32),
    "determinize": _f(int_, void_p, void_p, int_, u64),
    "information_key": _f(u64, void_p, void_p, int_),
    "sample_action": _f(int_, void_p, void_p, u64, pointer_u32),
}
Evaluate = _f(int_, void_p, u32, ctypes.POINTER(void_p), pointer_f, pointer_f, pointer_f)


class GameTable(ctypes.Structure):
    _fields_ = (
        [("abi_version", u32), ("players", u32), ("state_size", u32), ("max_actions", u32), ("observation_size", u32),
         ("context", void_p)]
        + [(name, CALLBACKS[name])
           for name in ("player", "legal", "apply", "returns", "chance", "rewards", "rollout", "observe")]
        + [("min_return", f32), ("max_return", f32), ("zero_sum", i32)]
        + [(name, CALLBACKS[name]) for name in ("hash", "undo", "determinize", "information_key", "sample_action")])


class BudgetTable(ctypes.Structure):
    _fields_ = [("simulations", i64), ("milliseconds", f64), ("stable", i64)]


class EdgeTable(ctypes.Structure):
    _fields_ = [("action", u32), ("proven", i32), ("visits", u64), ("value", f64), ("prior", f64), ("weight", f64)]


class SummaryTable(ctypes.Structure):
    _fields_ = [("best_action", i64), ("value", f64), ("proven", i32), ("edges", u32), ("simulations", u64),
                ("evaluations", u64), ("collisions", u64), ("nodes", u64), ("tree_bytes", u64), ("seconds", f64)]


def _load():
    library = ctypes.CDLL(str(pathlib.Path(__file__).resolve().parent / "libmstrain_mcts_c.so"))
    handle, handles = ctypes.POINTER(void_p), ctypes.POINTER(void_p)
    game, budget = ctypes.POINTER(GameTable), ctypes.POINTER(BudgetTable)
    functions = {
        "abi_version": (u32, []),
        "version": (char_p, []),
        "last_error": (char_p, []),
        "game_name": (char_p, [u32]),
        "destroy": (None, [void_p]),
        "find_game": (int_, [char_p, ctypes.POINTER(game)]),
        "initial_state": (int_, [game, void_p]),
        "create": (int_, [game, char_p, char_p, handle]),
        "set_root": (int_, [void_p, void_p]),
        "advance": (int_, [void_p, u32]),
        "run": (int_, [void_p, budget, Evaluate, void_p, int_]),
        "gather": (int_, [handles, u32, budget, u32, u32, ctypes.POINTER(void_p), pointer_f, pointer_u32]),
        "scatter": (int_, [handles, u32, u32, pointer_f, pointer_f]),
        "result": (int_, [void_p, ctypes.POINTER(SummaryTable)]),
        "edges": (int_, [void_p, ctypes.POINTER(EdgeTable), u32, pointer_u32]),
        "principal_variation": (int_, [void_p, pointer_u32, u32, pointer_u32]),
        "muzero_create": (int_, [char_p, handle]),
        "muzero_destroy": (None, [void_p]),
        "muzero_set_roots": (int_, [void_p, pointer_f, pointer_f, pointer_f]),
        "muzero_gather": (int_, [void_p, pointer_u32, pointer_u32, pointer_f]),
        "muzero_scatter": (int_, [void_p, pointer_f, pointer_f, pointer_f, pointer_f]),
        "muzero_result": (int_, [void_p, pointer_u32, pointer_f, pointer_f, pointer_u32]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(library, "mst_mcts_" + name)
        function.restype, function.argtypes = result, arguments
    if library.mst_mcts_abi_version() != _ABI:
        raise ImportError(f"libmstrain_mcts_c has ABI {library.mst_mcts_abi_version()}, this module wants {_ABI}")
    return library


library = _load()


def call(name, *args):
    code = getattr(library, "mst_mcts_" + name)(*args)
    if code != 0:
        raise SearchError(code, (library.mst_mcts_last_error() or b"").decode())


def floats(array):
    return None if array is None else array.ctypes.data_as(pointer_f)


def numbers(array):
    return array.ctypes.data_as(pointer_u32)


def settings_text(settings):
    """Settings as the YAML that the library reads."""
    def text(value):
        return str(value).lower() if isinstance(value, bool) else str(value)

    return ("{" + ", ".join(f"{key}: {text(value)}" for key, value in settings.items()) + "}").encode()
