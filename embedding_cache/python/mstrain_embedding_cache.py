"""Embedding tables larger than memory, from Python: a thin layer over the C wrapper, for any object with a buffer (numpy, array, torch.numpy()).

    cache = Cache("directory: run/rows\ntables: [{name: ads, host_rows: 100000, segments: [{width: 16}]}]")
    with cache.prefetch("ads", ids, step) as ticket:      # ids: buffer of uint64
        cache.gather(ticket, out)                         # out: writable buffer of float32, len(ids) * 16
        cache.update(ticket, gradients)                   # likewise
    commit = cache.commit(step, b"what the trainer needs to go on")

The library is found beside this file, in MSTRAIN_EMBEDDING_CACHE_LIBRARY, or where the system looks for libraries.
"""
import ctypes
import json
import os
import pathlib

_NAME = "libmstrain_embedding_cache_c.so"


class Error(RuntimeError):
    """What the cache said."""


def _load():
    beside = pathlib.Path(__file__).resolve().parent / _NAME
    library = ctypes.CDLL(os.environ.get("MSTRAIN_EMBEDDING_CACHE_LIBRARY") or (str(beside) if beside.exists() else _NAME))
    p, u64, size, c_int = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
    for name, result, arguments in (
        ("ec_open", p, (ctypes.c_char_p, u64)),
        ("ec_close", None, (p,)),
        ("ec_prefetch", p, (p, ctypes.c_char_p, p, size, u64, c_int)),
        ("ec_wait", c_int, (p, p)),
        ("ec_gather", c_int, (p, p, p, size)),
        ("ec_update", c_int, (p, p, p, size, ctypes.c_float)),
        ("ec_release", c_int, (p, p)),
        ("ec_commit", c_int, (p, u64, ctypes.c_char_p, size, ctypes.POINTER(u64))),
        ("ec_export_delta", c_int, (p, u64, ctypes.c_char_p, c_int)),
        ("ec_describe", ctypes.c_int64, (p, ctypes.c_char_p, p, size)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_lib = _load()


def _describe(cache, what):
    length = _lib.ec_describe(cache, what.encode(), None, 0)
    if length < 0:
        raise Error(_describe(None, "error").decode())
    out = ctypes.create_string_buffer(length + 1)
    _lib.ec_describe(cache, what.encode(), out, length + 1)
    return out.raw[:length]


def _check(result):
    if result in (None, -1):
        raise Error(_describe(None, "error").decode())
    return result


def _buffer(data, code, what, writable=False):
    """Address, length and owner of a contiguous buffer of the given element type."""
    view = memoryview(data)
    if view.format.lstrip("@=<") not in code or not view.c_contiguous or (writable and view.readonly):
        raise TypeError(f"{what}: expected a contiguous{' writable' if writable else ''} buffer of {code[0]!r}, found {view.format!r}")
    count = view.nbytes // view.itemsize
    if count == 0:
        return None, 0, view
    if view.readonly:  # ctypes takes addresses of writable memory only
        owner = (ctypes.c_char * view.nbytes).from_buffer_copy(view.cast("B"))
    else:
        owner = (ctypes.c_char * view.nbytes).from_buffer(view)
    return ctypes.addressof(owner), count, owner


class Ticket:
    """Rows of a batch, held in memory until release; as a context manager it waits on entry and releases on exit."""

    def __init__(self, cache, handle, table, count):
        self._cache, self._handle, self.table, self.count = cache, handle, table, count

    def wait(self):
        _check(_lib.ec_wait(self._cache._open(), self._held()))

    def release(self):
        handle, self._handle = self._held(), None
        _check(_lib.ec_release(self._cache._open(), handle))

    def _held(self):
        if not self._handle:
            raise Error("the ticket was released")
        return self._handle

    def __enter__(self):
        self.wait()
        return self

    def __exit__(self, *_):
        if self._handle:
            self.release()


class Cache:
    def __init__(self, options, commit=0):
        """`options`: YAML text. `commit`: 0 for the newest one, else exactly that one."""
        self._handle = _check(_lib.ec_open(options.encode(), commit))
        self._widths = {}

    def _open(self):
        if not self._handle:
            raise Error("the cache was closed")
        return self._handle

    def close(self):
        if self._handle:
            _lib.ec_close(self._handle)
            self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def width(self, table):
        if table not in self._widths:
            self._widths[table] = int(_describe(self._open(), f"width {table}"))
        return self._widths[table]

    def prefetch(self, table, ids, step, training=True):
        address, count, _owner = _buffer(ids, "QLq", "ids")
        handle = _lib.ec_prefetch(self._open(), table.encode(), address, count, step, int(training))
        return Ticket(self, _check(handle), table, count)

    def gather(self, ticket, out):
        address, count, _owner = _buffer(out, "f", "out", writable=True)
        width = self.width(ticket.table)
        if count != ticket.count * width:
            raise Error(f"out has {count} floats, expected {ticket.count} x {width}")
        if count:
            _check(_lib.ec_gather(self._open(), ticket._held(), address, width))

    def update(self, ticket, gradients, lr_scale=1.0):
        address, count, _owner = _buffer(gradients, "f", "gradients")
        _check(_lib.ec_update(self._open(), ticket._held(), address, count, lr_scale))

    def commit(self, step, blob=b""):
        commit = ctypes.c_uint64()
        _check(_lib.ec_commit(self._open(), step, blob, len(blob), ctypes.byref(commit)))
        return commit.value

    def export_delta(self, path, since=0, weights_only=False):
        _check(_lib.ec_export_delta(self._open(), since, os.fsencode(path), int(weights_only)))

    @property
    def last_commit(self):
        return int(_describe(self._open(), "commit"))

    @property
    def last_step(self):
        return int(_describe(self._open(), "step"))

    @property
    def blob(self):
        return _describe(self._open(), "blob")

    def digest(self):
        return _describe(self._open(), "digest").decode()

    def stats(self):
        return json.loads(_describe(self._open(), "stats"))
