#!/usr/bin/env python3
"""The Python module and with it the C wrapper: training, resuming, errors. Needs nothing but the standard library.
Usage: python_test.py <folder of the module> <library>"""
import array
import os
import sys
import tempfile

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
        fails("ids: expected", lambda: resumed.prefetch("ads", array.array("f", [1.0]), 30))
        ticket = resumed.prefetch("ads", ids, 30)
        ticket.wait()
        fails("expected 2 x 3", lambda: resumed.gather(ticket, array.array("f", [0.0])))
        fails("expected [2, 3] = 6", lambda: resumed.update(ticket, array.array("f", [0.0])))
        ticket.release()
        fails("was released", ticket.release)
    fails("was closed", lambda: resumed.digest())
    fails("at least one is needed", lambda: ec.Cache("tables: []"))
print("ok")
