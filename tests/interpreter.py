"""Which Python a test runs in: the one that started it, else the one that MSTRAIN_PYTHON names, else that of the virtual
environment .venv of the checkout, which scripts/deps.sh --ci makes; the first that has what the test needs."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def find(*modules):
    """The first interpreter that can import all modules, or None. "name>=64" asks for a version."""
    probe = ["import importlib, importlib.metadata"]
    for name, _, least in (module.partition(">=") for module in modules):
        probe.append(f"importlib.import_module({name!r})")
        if least:
            probe.append(f"assert int(importlib.metadata.version({name!r}).split('.')[0]) >= {least}")
    for candidate in (sys.executable, os.environ.get("MSTRAIN_PYTHON"), str(ROOT / ".venv/bin/python")):
        if candidate and pathlib.Path(candidate).exists():
            if subprocess.run([candidate, "-c", "\n".join(probe)], capture_output=True).returncode == 0:
                return candidate
    return None


def skip(why):
    """Ends the test as skipped; ctest shows the reason."""
    print(f"skipped: {why}")
    sys.exit(77)


def skip_without(*modules):
    skip(f"no Python with {', '.join(modules)}; scripts/deps.sh --ci makes one in .venv, MSTRAIN_PYTHON names another")


def need(*modules):
    """Goes on where this Python has all modules; else starts the program again in one that has, or skips the test."""
    python = find(*modules)
    if python is None:
        skip_without(*modules)
    if python != sys.executable:
        os.execv(python, [python, *sys.argv])
