#!/usr/bin/env python3
"""The Python module and with it the C wrapper: training, resuming, serving, errors. NumPy and PyTorch are used where they are there.
Usage: python_test.py <folder of the module> <library>"""
import array
import ctypes
import gc
import importlib.util
import os
import sys
import tempfile
import warnings

os.environ["MSTRAIN_EMBEDDING_CACHE_LIBRARY"] = sys.argv[2]
sys.path.insert(0, sys.argv[1])
import mstrain_embedding_cache as ec  # noqa: E402


def options(directory):
    return (f"directory: {directory}\nstore: {{kind: memory}}\n"
            "tables: [{name: ads, host_rows: 40, segments: [{width: 3, optimizer: {kind: lazy_adam}}]}]")


def train(cache, steps):
    for step in range(cache.last_step + 1, steps + 1):
        ids = array.array("Q", [(step * 7 + i * i) % 90 for i in range(12)])
        out = array.array("f", bytes(4 * 3 * len(ids)))
        with cache.prefetch("ads", ids, step) as ticket:
            cache.gather(ticket, out)
            cache.update(ticket, array.array("f", [w + 0.5 for w in out]))
        if step % 5 == 0:
            commit = cache.commit(step, b"cursor\0%d" % step)
    return commit


def fails(text, call):
    try:
        call()
    except (ec.Error, TypeError) as error:
        assert text in str(error), f"{text!r} is not in {error}"
        return
    raise AssertionError(f"no error that says {text!r}")


def whole_text(sizes):
    """Of a function whose text is another at each call, as numbers are while others train."""
    left = iter(sizes)

    def say(_handle, _what, out, capacity):
        text = b"{" + b"1" * next(left) + b"}"
        if capacity:
            ctypes.memmove(out, text[: capacity - 1] + b"\0", min(capacity, len(text) + 1))
        return len(text)

    text = ec._text(say, None, "stats")
    assert text[:1] + text[-1:] == b"{}", f"{len(text)} bytes that end in {text[-1:]}"


whole_text((8, 9, 10))
whole_text((5000, 12000, 20000, 20001))
with tempfile.TemporaryDirectory() as scratch:
    with ec.Cache(options(scratch + "/straight")) as straight:
        assert train(straight, 20) == 4
        expected = straight.digest()
        assert straight.stats()["tables"][0]["rows"] > 40
        straight.export_delta(scratch + "/delta", weights_only=True)
        assert os.path.getsize(scratch + "/delta") > 500
    stopped = ec.Cache(options(scratch + "/stopped"))
    train(stopped, 10)
    fails("in use", lambda: ec.Cache(options(scratch + "/stopped")))
    stopped.close()
    with ec.Cache(options(scratch + "/stopped"), commit=2) as resumed:
        assert resumed.last_step == 10 and resumed.last_commit == 2 and resumed.blob == b"cursor\0" + b"10"
        train(resumed, 20)
        assert resumed.digest() == expected
        ids = array.array("Q", [1, 2])
        fails("did you mean ads?", lambda: resumed.prefetch("adds", ids, 30))
        fails("ids: expected 64-bit integers, found 'f'", lambda: resumed.prefetch("ads", array.array("f", [1.0]), 30))
        fails("ids: expected 64-bit integers, found 'i'", lambda: resumed.prefetch("ads", array.array("i", [1]), 30))
        fails("found dict", lambda: resumed.prefetch("ads", {}, 30))
        fails("ids: expected 64-bit integers", lambda: resumed.prefetch("ads", [1.5], 30))
        fails("ids: expected 64-bit integers", lambda: resumed.prefetch("ads", [1 << 64], 30))
        fails("step is -1", lambda: resumed.prefetch("ads", ids, -1))
        fails("step is -2", lambda: resumed.commit(-2))
        fails("blob: expected bytes, found str", lambda: resumed.commit(30, "text"))
        ticket = resumed.prefetch("ads", ids, 30)
        ticket.wait()
        fails("expected 2 x 3", lambda: resumed.gather(ticket, array.array("f", [0.0])))
        fails("expected [2, 3] = 6", lambda: resumed.update(ticket, array.array("f", [0.0])))
        ticket.release()
        fails("was released", ticket.release)
        resumed.commit(20)  # of what has learned
        resumed.prefetch("ads", ids, 21).release()
        resumed.prefetch("ads", ids, 21).release()
    fails("was closed", lambda: resumed.digest())
    fails("at least one is needed", lambda: ec.Cache("tables: []"))

    # What is dropped gives back what it held: tickets their rows, caches their directory.
    dropped = ec.Cache(options(scratch + "/dropped"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step in range(1, 20):  # 20 rows each; 40 fit
            ticket = dropped.prefetch("ads", range(20 * step, 20 * step + 20), step)
        del ticket
        gc.collect()
    assert len(said) == 19 and all(w.category is ResourceWarning and "'ads'" in str(w.message) for w in said), said
    assert dropped.stats()["tables"][0]["pinned_rows"] == 0
    ticket = dropped.prefetch("ads", [1, 2], 30)
    dropped.commit  # an open ticket keeps its cache
    del dropped
    gc.collect()
    fails("in use", lambda: ec.Cache(options(scratch + "/dropped")))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        del ticket
        gc.collect()
    reopened = ec.Cache(options(scratch + "/dropped"))
    held = reopened.prefetch("ads", [1], 1)
    reopened.close()  # whatever is open
    fails("the cache was closed", held.wait)
    del reopened, held

    # Ids that come and go, commits behind, deltas, serving.
    text = options(scratch + "/trainer").replace("host_rows: 40,", "host_rows: 40, eviction: {ttl_steps: 3},")
    with ec.Cache(text) as trainer, ec.Cache(options(scratch + "/copy")) as copy:
        for step in range(1, 4):
            ids = array.array("q", [-step, 1000 + step, 7])
            trainer.announce("ads", ids)
            with trainer.prefetch("ads", ids, step) as ticket:
                trainer.update(ticket, trainer.gather(ticket))
        first = trainer.start_commit(3, b"3")
        trainer.wait_commit(first)
        trainer.confirm_commit(first)
        trainer.export_delta(scratch + "/all")
        copy.import_delta(scratch + "/all")
        with ec.Reader(scratch + "/trainer", host_rows=100, read_threads=2) as reader:
            assert (reader.commit, reader.step, reader.width("ads")) == (first, 3, 3)
            ids = array.array("q", [-1, -2, 7, 12345])
            found = bytearray(4)
            before = reader.lookup("ads", ids, found=found)
            assert found == b"\1\1\1\0"
            with trainer.prefetch("ads", ids, 4, training=False) as ticket:
                assert trainer.gather(ticket) == before  # that without a row too
            with trainer.prefetch("ads", [7], 5) as ticket:
                trainer.update(ticket, array.array("f", [1, 2, 3]))
            assert trainer.evict(5) == 4  # of steps 1 and 2
            trainer.export_delta(scratch + "/since", since=first)
            copy.import_delta(scratch + "/since")
            assert copy.stats()["tables"][0]["rows"] == trainer.stats()["tables"][0]["rows"] == 3
            reader.apply_delta(scratch + "/since")
            assert reader.step == 5 and reader.lookup("ads", ids, found=found) != before
            assert found == b"\0\0\1\0" and reader.stats()["delta_rows"] > 0
            trainer.commit(6)
            assert reader.move_to() and not reader.move_to() and reader.step == 6
            reader.lookup("ads", ids, found=found)
            assert found == b"\0\0\1\0" and reader.stats()["delta_rows"] == 0
            assert len(reader.lookup("ads", [])) == 0
            fails("did you mean ads?", lambda: reader.lookup("adds", ids))
            fails("expected 4 x 3", lambda: reader.lookup("ads", ids, array.array("f", [0])))
        fails("reader was closed", lambda: reader.step)
    with ec.Cache(options(scratch + "/gap")) as gap:
        fails("starts after step 3", lambda: gap.import_delta(scratch + "/since"))
    fails("not a directory of an embedding cache", lambda: ec.Reader(scratch))

    def tried(name, make_ids, zeros, ones, copied):
        """Training with arrays of a library gives what training with plain ones does."""
        with ec.Cache(options(scratch + "/" + name)) as cache, ec.Cache(options(scratch + "/plain-" + name)) as plain:
            for step in range(1, 5):
                numbers = [step * 3 + i * i for i in range(10)]
                ids, out = make_ids(numbers), zeros(10, 3)
                with cache.prefetch("ads", ids, step) as ticket:
                    assert cache.gather(ticket, out) is out
                    cache.update(ticket, ones(10, 3))
                with plain.prefetch("ads", array.array("Q", numbers), step) as ticket:
                    assert list(plain.gather(ticket)) == copied(out)
                    plain.update(ticket, array.array("f", [1.0] * 30))
            assert cache.digest() == plain.digest()

    with ec.Cache(options(scratch + "/bags")) as bags, ec.Cache(options(scratch + "/expanded")) as expanded:
        offsets, weights = [0, 2, 2, 5], array.array("f", [1, -2, 0.5, 3, 1])
        for step, pooling in enumerate(("sum", "mean", "max"), 1):
            scale = weights if pooling == "sum" else None
            with bags.prefetch("ads", [1, 2, 3, 1, 4], step) as ticket, expanded.prefetch("ads", [1, 2, 3, 1, 4], step) as plain:
                rows = expanded.gather(plain)
                rows = [list(rows[3 * p:3 * p + 3]) for p in range(5)]
                pooled = bags.gather(ticket, offsets=offsets, pooling=pooling, weights=scale)
                learned = array.array("f", bytes(4 * 15))
                for b, (begin, end) in enumerate(zip(offsets, offsets[1:])):
                    for k in range(3):
                        column = [rows[p][k] * (scale[p] if scale else 1) for p in range(begin, end)]
                        value = (max(column) if pooling == "max" else sum(column) / (len(column) if pooling == "mean" else 1)) if column else 0
                        assert abs(pooled[3 * b + k] - value) < 1e-6
                        for p in range(begin, end):
                            share = scale[p] if scale else 1 / len(column) if pooling == "mean" else column.index(value) == p - begin if pooling == "max" else 1
                            learned[3 * p + k] = share * (b + k)
                bags.update(ticket, array.array("f", [b + k for b in range(3) for k in range(3)]), offsets=offsets, pooling=pooling, weights=scale)
                expanded.update(plain, learned)
            assert bags.digest() == expanded.digest()
        with bags.prefetch("ads", [1, 2], 9, training=False) as ticket:
            fails("sum, mean, max, found 'min'", lambda: bags.gather(ticket, offsets=[0, 2], pooling="min"))
            fails("offsets: expected one for each bag", lambda: bags.gather(ticket, offsets=[]))
            fails("1 for 2 positions", lambda: bags.gather(ticket, offsets=[0, 2], weights=array.array("f", [1])))
            fails("offsets from 0 to 1", lambda: bags.gather(ticket, offsets=[0, 1]))
            fails("an offset of 7", lambda: bags.gather(ticket, offsets=[0, 7]))

    libraries = []
    if importlib.util.find_spec("numpy"):
        import numpy
        libraries.append("NumPy")
        for dtype in (numpy.int64, numpy.uint64):
            tried(f"numpy-{dtype.__name__}", lambda n, t=dtype: numpy.array(n, dtype=t), lambda *s: numpy.zeros(s, numpy.float32),
                  lambda *s: numpy.ones(s, numpy.float32), lambda x: x.ravel().tolist())
        with ec.Cache(options(scratch + "/numpy")) as cache:
            fails("expected 64-bit integers", lambda: cache.prefetch("ads", numpy.arange(3, dtype=numpy.int32), 1))
            fails("contiguous", lambda: cache.prefetch("ads", numpy.arange(6)[::2], 1))
            frozen = numpy.arange(3)
            frozen.flags.writeable = False
            with cache.prefetch("ads", frozen, 1) as ticket:
                fails("expected float32", lambda: cache.gather(ticket, numpy.zeros((3, 3))))
                fails("contiguous", lambda: cache.gather(ticket, numpy.zeros((3, 3), numpy.float32).T))
    if importlib.util.find_spec("torch"):
        import torch
        libraries.append("PyTorch")
        tried("torch", lambda n: torch.tensor(n), lambda *s: torch.zeros(s), lambda *s: torch.ones(s), lambda x: x.flatten().tolist())
        with ec.Cache(options(scratch + "/torch")) as cache:
            fails("expected 64-bit integers, found int32", lambda: cache.prefetch("ads", torch.arange(3, dtype=torch.int32), 1))
            fails("expected contiguous memory", lambda: cache.prefetch("ads", torch.arange(6)[::2], 1))
            with cache.prefetch("ads", torch.arange(12)[4:8], 1) as ticket:
                fails("expected float32, found bfloat16", lambda: cache.gather(ticket, torch.zeros(4, 3, dtype=torch.bfloat16)))
                parameter = cache.gather(ticket, torch.empty(4, 3)).requires_grad_()
                (parameter * torch.arange(12.0).view(4, 3)).sum().backward()
                cache.update(ticket, parameter.grad)
            assert cache.stats()["tables"][0]["rows"] == 4
            with ec.Cache(options(scratch + "/torch-read")) as other:
                with other.prefetch("ads", [], 1) as ticket:
                    assert len(other.gather(ticket)) == 0
print("ok, with " + (" and ".join(libraries) if libraries else "the standard library alone"))
