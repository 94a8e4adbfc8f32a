"""Try the newest and the oldest versions that the library allows, on every Python at hand.

The newest of everything on each Python named in ``pyproject.toml`` that is found, and the floors
named there on the oldest of them, each in an environment of its own that is thrown away. Nothing
keeps to ``constraints.txt``. A Python that is not there is named and is no error. Tests are run
once for each set of versions, of which several Pythons may get the same. ``--ends`` leaves out the
Pythons between the oldest and the newest one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SHOWN = ("jax", "jaxlib", "numpyro", "optax", "numpy", "scipy", "xarray", "h5py")
# Not ours to choose, and newer than what the oldest versions know.
WITH_OLDEST = ("pyparsing<3.3",)  # matplotlib 3.8 calls what 3.3 deprecates
STEPS = {
    "gibbs-dp --version": ("gibbs-dp", "--version"),
    "audit, sample, release": ("python", ".ci/smoke_calls.py"),
}
TESTS = {
    # In one process, which compiles every program once; .ci/run does other things beside it.
    "tests/model": ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/model"),
}
LIMIT = 900.0  # seconds for one step


class Case(NamedTuple):
    """One environment to try."""

    version: str
    python: str
    is_oldest: bool

    def __str__(self) -> str:
        return f"Python {self.version}, {'oldest' if self.is_oldest else 'newest'} versions"


def pythons() -> list[str]:
    """Versions of Python that the project says it runs on."""
    found = (re.search(r":: (3\.\d+)$", line) for line in PROJECT["classifiers"])
    return [match[1] for match in found if match]


def find(version: str) -> str | None:
    """Return a Python of this version that can make environments, from PATH or from pyenv."""
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    places = [shutil.which(f"python{version}"), *sorted(kept.glob(f"{version}.*/bin/python3"))]
    check = f"import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for place in filter(None, places):  # a pyenv shim is on PATH though nothing stands behind it
        if subprocess.run([place, "-c", check], capture_output=True).returncode == 0:
            return str(place)
    return None


def floors() -> list[str]:
    """Return the oldest versions that the project allows, as constraints for pip."""
    pins = []
    for requirement in PROJECT["dependencies"]:
        name, version = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", requirement).groups()
        pins.append(f"{name}=={version}")
        if name == "jax":
            pins.append(f"jaxlib=={version}")
    return [*pins, *WITH_OLDEST]


def call(command: list[str], where: str) -> str:
    """Run a command; its output, or an error that ends with it."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "XLA_FLAGS", "PYTHONHOME")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT
    )
    if done.returncode:
        raise RuntimeError(f"{where}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def smoke(case: Case, folder: Path, tested: set[str]) -> str:
    """Install into a new environment and run every step; return what was run on what.

    Versions on which tests pass join ``tested``, and those that are there are not tested again.
    """
    begin = time.monotonic()
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in (floors() if case.is_oldest else ())))
    call([case.python, "-m", "venv", str(folder / "venv")], "venv")
    programs = folder / "venv" / "bin"
    python = str(programs / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    call([*pip, "-c", str(constraints), "-e", ".[test]"], "pip")
    versions = f"from importlib.metadata import version; print(*map(version, {SHOWN}))"
    numbers = call([python, "-c", versions], "versions").split()
    ready = time.monotonic()
    listed = ", ".join(f"{name} {number}" for name, number in zip(SHOWN, numbers, strict=True))
    steps = STEPS if listed in tested else STEPS | TESTS
    last = [
        f"{name}: {call([str(programs / program), *words], name).strip().splitlines()[-1]}"
        for name, (program, *words) in steps.items()
    ]
    last += [f"{name}: as before, on the same versions" for name in TESTS if name not in steps]
    tested.add(listed)
    seconds = f"installed in {ready - begin:.0f} s, ran for {time.monotonic() - ready:.0f} s"
    return "\n    ".join([f"passed ({seconds})", listed, *last])


def main() -> int:
    # Environments are thrown away then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    here = {version: find(version) for version in pythons()}
    at_hand = [Case(version, python, False) for version, python in here.items() if python]
    if not at_hand:
        print(f"smoke: none of Python {', '.join(here)} is at hand; nothing was tested.")
        return 1
    tried = at_hand[:1] + at_hand[-1:][: len(at_hand) - 1] if "--ends" in sys.argv else at_hand
    cases = [at_hand[0]._replace(is_oldest=True), *tried]
    for version, python in here.items():
        if not python:
            print(f"smoke: Python {version}: not at hand, not tested", flush=True)
    failed, tested = 0, set()
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="gibbs-dp-smoke-") as folder:
            try:
                found = smoke(case, Path(folder), tested)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed += 1
                found = f"FAILED: {error}"
        print(f"smoke: {case}: {found}", flush=True)
    print(f"smoke: {len(cases) - failed} of {len(cases)} environments passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
