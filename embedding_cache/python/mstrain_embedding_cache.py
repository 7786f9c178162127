"""Embedding tables larger than memory, from Python: a thin layer over the C wrapper. Ids are 64-bit integers, weights float32, both in any
contiguous memory that NumPy, PyTorch, array and the like have (the buffer protocol, or DLPack on the CPU); they are used in place.

    with Cache("directory: run/rows\ntables: [{name: ads, host_rows: 100000, segments: [{width: 16}]}]") as cache:
        with cache.prefetch("ads", ids, step) as ticket:      # ids: int64 or uint64
            cache.gather(ticket, out)                         # out: float32, len(ids) * 16, written to
            cache.update(ticket, gradients)                   # likewise, read
        commit = cache.commit(step, b"what the trainer needs to go on")

    with Reader("run/rows") as reader:                        # serving, in any process
        reader.lookup("ads", ids, out)

The library is what MSTRAIN_EMBEDDING_CACHE_LIBRARY names, else the one beside this file, in the lib of the prefix that this file was
installed in (PREFIX/share/mstrain/python), or where the system looks for libraries.
"""
import array
import ctypes
import json
import operator
import os
import pathlib
import warnings
import weakref

_NAME = "libmstrain_embedding_cache_c.so"


class Error(RuntimeError):
    """What the cache said."""


def _library_path():
    home = pathlib.Path(__file__).resolve().parent
    places = [home / _NAME]
    if home.parts[-3:] == ("share", "mstrain", "python"):
        prefix = home.parents[2]
        places += sorted(prefix.glob(f"lib*/{_NAME}")) + sorted(prefix.glob(f"lib*/*/{_NAME}"))
    return next((str(place) for place in places if place.exists()), _NAME)


def _load():
    library = ctypes.CDLL(os.environ.get("MSTRAIN_EMBEDDING_CACHE_LIBRARY") or _library_path())
    p, text, u64, size, c_int = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
    u64_out, int_out = ctypes.POINTER(u64), ctypes.POINTER(c_int)
    for name, result, arguments in (
        ("ec_open", p, (text, u64)),
        ("ec_close", None, (p,)),
        ("ec_announce", c_int, (p, text, p, size)),
        ("ec_prefetch", p, (p, text, p, size, u64, c_int)),
        ("ec_wait", c_int, (p, p)),
        ("ec_gather", c_int, (p, p, p, size)),
        ("ec_update", c_int, (p, p, p, size, ctypes.c_float)),
        ("ec_gather_bags", c_int, (p, p, p, size, c_int, p, p, size)),
        ("ec_update_bags", c_int, (p, p, p, size, c_int, p, p, size, ctypes.c_float)),
        ("ec_release", c_int, (p, p)),
        ("ec_commit", c_int, (p, u64, text, size, u64_out)),
        ("ec_start_commit", c_int, (p, u64, text, size, u64_out)),
        ("ec_wait_commit", c_int, (p, u64)),
        ("ec_confirm_commit", c_int, (p, u64)),
        ("ec_evict", c_int, (p, u64, u64_out)),
        ("ec_export_delta", c_int, (p, u64, text, c_int)),
        ("ec_import_delta", c_int, (p, text)),
        ("ec_describe", ctypes.c_int64, (p, text, p, size)),
        ("ec_reader_open", p, (text, u64, u64, c_int)),
        ("ec_reader_close", None, (p,)),
        ("ec_reader_lookup", c_int, (p, text, p, size, p, size, p)),
        ("ec_reader_apply_delta", c_int, (p, text)),
        ("ec_reader_move_to", c_int, (p, u64, int_out)),
        ("ec_reader_describe", ctypes.c_int64, (p, text, p, size)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_lib = _load()


def _text(function, handle, what):
    room = 4096
    while True:  # each call makes the text anew, which others may have changed
        out = ctypes.create_string_buffer(room + 1)
        length = function(handle, what.encode(), out, room + 1)
        if length < 0:
            raise Error(_text(_lib.ec_describe, None, "error").decode())
        if length <= room:
            return out.raw[:length]
        room = 2 * length


def _check(result):
    if result in (None, -1):
        raise Error(_text(_lib.ec_describe, None, "error").decode())
    return result


class _DLTensor(ctypes.Structure):  # dlpack.h
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_CPU = 1
_INTEGER, _FLOAT = "64-bit integers", "float32"
_BUFFER_CODES = {_INTEGER: ("qQlL", 8), _FLOAT: ("f", 4), "bytes": ("?bBc", 1)}
_DLPACK_TYPES = {_INTEGER: ((0, 64), (1, 64)), _FLOAT: ((2, 32),), "bytes": ((0, 8), (1, 8), (6, 8))}
_DLPACK_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


def _tensor(data, kind, what):
    """Address, length and owner of a tensor that speaks DLPack."""
    if data.__dlpack_device__()[0] != _CPU:
        raise TypeError(f"{what}: expected memory of the CPU, found that of a device; .cpu() copies it")
    if getattr(data, "is_neg", lambda: False)():
        raise TypeError(f"{what}: expected the numbers themselves, found a view of their negatives; .resolve_neg() copies it")
    capsule = data.__dlpack__()  # until it is consumed it frees itself
    tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    if (tensor.code, tensor.bits) not in _DLPACK_TYPES[kind] or tensor.lanes != 1:
        raise TypeError(f"{what}: expected {kind}, found {_DLPACK_NAMES.get(tensor.code, 'another type')}{tensor.bits}")
    count = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != count:
            raise TypeError(f"{what}: expected contiguous memory; .contiguous() copies it")
        count *= tensor.shape[axis]
    return (tensor.data or 0) + tensor.byte_offset if count else None, count, (capsule, data)


def _memory(data, kind, what, writable=False):
    """Address, length and owner of contiguous elements of a kind."""
    try:
        view = memoryview(data)
    except TypeError:
        if hasattr(data, "__dlpack__"):
            return _tensor(data, kind, what)
        if isinstance(data, (list, tuple, range)) and kind == _INTEGER:
            try:
                view = memoryview(array.array("q" if data and min(data) < 0 else "Q", data))
            except (OverflowError, TypeError) as error:
                raise TypeError(f"{what}: expected {kind}: {error}") from None
        else:
            raise TypeError(f"{what}: expected memory with {kind} (NumPy, PyTorch, array), found {type(data).__name__}") from None
    codes, size = _BUFFER_CODES[kind]
    if view.format.lstrip("@=<") not in codes or view.itemsize != size:
        raise TypeError(f"{what}: expected {kind}, found {view.format!r} of {view.itemsize} bytes")
    if not view.c_contiguous or (writable and view.readonly):
        raise TypeError(f"{what}: expected {'writable ' if writable else ''}contiguous memory")
    count = view.nbytes // size
    if count == 0:
        return None, 0, view
    if view.readonly:  # ctypes takes addresses of writable memory only
        owner = (ctypes.c_char * view.nbytes).from_buffer_copy(view.cast("B"))
    else:
        owner = (ctypes.c_char * view.nbytes).from_buffer(view)
    return ctypes.addressof(owner), count, owner


def _room(out, count, width, what):
    """Memory for `count` rows, made where none is given, and its address."""
    if out is None:
        out = array.array("f", bytes(4 * count * width))
    address, floats, owner = _memory(out, _FLOAT, what, writable=True)
    if floats != count * width:
        raise Error(f"{what} has {floats} floats, expected {count} x {width}")
    return out, address, owner


_POOLINGS = ("sum", "mean", "max")


def _bags(ticket, offsets, pooling, weights):
    """What the library is told of bags, and the owners of that memory."""
    if pooling not in _POOLINGS:
        raise Error(f"pooling: expected one of {', '.join(_POOLINGS)}, found {pooling!r}")
    begins, count, owner = _memory(offsets, _INTEGER, "offsets")
    if count == 0:
        raise Error("offsets: expected one for each bag, and an end")
    scales, scaled, scales_owner = (None, ticket.count, None) if weights is None else _memory(weights, _FLOAT, "weights")
    if scaled != ticket.count:
        raise Error(f"weights: {scaled} for {ticket.count} positions")
    return (begins, count - 1, _POOLINGS.index(pooling), scales), (owner, scales_owner)


def _number(value, what):
    """A step or an id of a commit."""
    value = operator.index(value)
    if not 0 <= value < 1 << 64:
        raise Error(f"{what} is {value}")
    return value


def _threads(value):
    value = operator.index(value)
    if not 1 <= value <= 256:
        raise Error(f"read_threads: expected 1 to 256, found {value}")
    return value


def _blob(data):
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(f"blob: expected bytes, found {type(data).__name__}") from None


class Ticket:
    """Rows of a batch, held in memory until release; as a context manager it waits on entry and releases on exit. Without an
    update that gives its batch back: it may be prefetched again. One that is dropped is released, with a ResourceWarning."""

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

    def __del__(self):
        if getattr(self, "_handle", None) and self._cache._handle:
            warnings.warn(f"a ticket of table {self.table!r} was dropped without release", ResourceWarning)
            self.release()


class Cache:
    """Holds the lock on its directory until it is closed: by close(), as a context manager, or when nothing refers to it any more."""

    def __init__(self, options, commit=0):
        """`options`: YAML text. `commit`: 0 for the newest one, else exactly that one."""
        self._handle = None
        self._tickets = weakref.WeakSet()
        self._widths = {}
        self._handle = _check(_lib.ec_open(options.encode(), _number(commit, "commit")))

    def _open(self):
        if not self._handle:
            raise Error("the cache was closed")
        return self._handle

    def close(self):
        """Releases open tickets, ends a started commit, and gives the directory free."""
        if self._handle:
            for ticket in list(self._tickets):
                if ticket._handle:
                    ticket.release()
            handle, self._handle = self._handle, None
            _lib.ec_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def width(self, table):
        if table not in self._widths:
            self._widths[table] = int(_text(_lib.ec_describe, self._open(), f"width {table}"))
        return self._widths[table]

    def announce(self, table, ids):
        """Tells a batch that will be prefetched later, with the same ids, in the order of the prefetches."""
        address, count, _owner = _memory(ids, _INTEGER, "ids")
        _check(_lib.ec_announce(self._open(), table.encode(), address, count))

    def prefetch(self, table, ids, step, training=True):
        address, count, _owner = _memory(ids, _INTEGER, "ids")
        handle = _check(_lib.ec_prefetch(self._open(), table.encode(), address, count, _number(step, "step"), int(training)))
        ticket = Ticket(self, handle, table, count)
        self._tickets.add(ticket)
        return ticket

    def gather(self, ticket, out=None, offsets=None, pooling="sum", weights=None):
        """Weights of each position to `out`, or to a new array; returns it. With offsets[bags + 1], those of bags of positions, pooled: sum (of
        rows times `weights` by position), mean or max."""
        width = self.width(ticket.table)
        if offsets is not None:
            bags, _owners = _bags(ticket, offsets, pooling, weights)
            out, address, _owner = _room(out, bags[1], width, "out")
            _check(_lib.ec_gather_bags(self._open(), ticket._held(), *bags, address, width))
            return out
        out, address, _owner = _room(out, ticket.count, width, "out")
        if ticket.count:
            _check(_lib.ec_gather(self._open(), ticket._held(), address, width))
        return out

    def update(self, ticket, gradients, lr_scale=1.0, offsets=None, pooling="sum", weights=None):
        """Learns from the gradient of each position, or of each bag, as gathered."""
        address, count, _owner = _memory(gradients, _FLOAT, "gradients")
        if offsets is not None:
            bags, _owners = _bags(ticket, offsets, pooling, weights)
            _check(_lib.ec_update_bags(self._open(), ticket._held(), *bags, address, count, lr_scale))
            return
        _check(_lib.ec_update(self._open(), ticket._held(), address, count, lr_scale))

    def commit(self, step, blob=b""):
        commit = ctypes.c_uint64()
        blob = _blob(blob)
        _check(_lib.ec_commit(self._open(), _number(step, "step"), blob, len(blob), ctypes.byref(commit)))
        return commit.value

    def start_commit(self, step, blob=b""):
        """A commit that is written while training goes on: durable after wait_commit(); confirm_commit() removes older ones."""
        commit = ctypes.c_uint64()
        blob = _blob(blob)
        _check(_lib.ec_start_commit(self._open(), _number(step, "step"), blob, len(blob), ctypes.byref(commit)))
        return commit.value

    def wait_commit(self, commit):
        _check(_lib.ec_wait_commit(self._open(), _number(commit, "commit")))

    def confirm_commit(self, commit):
        _check(_lib.ec_confirm_commit(self._open(), _number(commit, "commit")))

    def evict(self, step):
        """Forgets rows that no update has touched for their table's ttl_steps; returns how many."""
        rows = ctypes.c_uint64()
        _check(_lib.ec_evict(self._open(), _number(step, "step"), ctypes.byref(rows)))
        return rows.value

    def export_delta(self, path, since=0, weights_only=False):
        _check(_lib.ec_export_delta(self._open(), _number(since, "since"), os.fsencode(path), int(weights_only)))

    def import_delta(self, path):
        _check(_lib.ec_import_delta(self._open(), os.fsencode(path)))

    @property
    def last_commit(self):
        return int(_text(_lib.ec_describe, self._open(), "commit"))

    @property
    def last_step(self):
        return int(_text(_lib.ec_describe, self._open(), "step"))

    @property
    def blob(self):
        return _text(_lib.ec_describe, self._open(), "blob")

    def digest(self):
        return _text(_lib.ec_describe, self._open(), "digest").decode()

    def stats(self):
        return json.loads(_text(_lib.ec_describe, self._open(), "stats"))


class Reader:
    """Serves the weights of a commit, while another process trains if need be."""

    def __init__(self, directory, commit=0, host_rows=100000, read_threads=8):
        self._handle = None
        self._widths = {}
        self._handle = _check(
            _lib.ec_reader_open(os.fsencode(directory), _number(commit, "commit"), _number(host_rows, "host_rows"),
                                _threads(read_threads)))

    def _open(self):
        if not self._handle:
            raise Error("the reader was closed")
        return self._handle

    def close(self):
        if self._handle:
            handle, self._handle = self._handle, None
            _lib.ec_reader_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def width(self, table):
        if table not in self._widths:
            self._widths[table] = int(_text(_lib.ec_reader_describe, self._open(), f"width {table}"))
        return self._widths[table]

    def lookup(self, table, ids, out=None, found=None):
        """Weights of `ids` to `out`, or to a new array; returns it. `found`, memory of one byte an id, says which have a row."""
        address, count, _ids = _memory(ids, _INTEGER, "ids")
        width = self.width(table)
        out, into, _out = _room(out, count, width, "out")
        there, flags, _found = (None, count, None) if found is None else _memory(found, "bytes", "found", writable=True)
        if flags != count:
            raise Error(f"found has {flags} bytes, expected {count}")
        _check(_lib.ec_reader_lookup(self._open(), table.encode(), address, count, into, width, there))
        return out

    def apply_delta(self, path):
        _check(_lib.ec_reader_apply_delta(self._open(), os.fsencode(path)))

    def move_to(self, commit=0):
        """To a commit, or to the newest where that is of a later step; returns whether it moved."""
        moved = ctypes.c_int()
        _check(_lib.ec_reader_move_to(self._open(), _number(commit, "commit"), ctypes.byref(moved)))
        return bool(moved.value)

    @property
    def commit(self):
        return int(_text(_lib.ec_reader_describe, self._open(), "commit"))

    @property
    def step(self):
        return int(_text(_lib.ec_reader_describe, self._open(), "step"))

    def stats(self):
        return json.loads(_text(_lib.ec_reader_describe, self._open(), "stats"))
