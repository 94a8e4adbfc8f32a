"""What only a process of its own can show: Ctrl-C and the cache."""

import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

import gibbs_dp as gdp
from gibbs_dp.cli.session import cache_folder

ROOT = Path(gdp.__file__).parents[1]
# What `gibbs-dp` names: the installed script imports it, calls it, and exits with what it returns.
MODULE, FUNCTION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][
    "gibbs-dp"
].split(":")
SCRIPT = f"from {MODULE} import {FUNCTION}; sys.exit({FUNCTION}())"
# A job started in the background of a shell ignores Ctrl-C, and its children inherit that.
LISTEN = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
PROGRAM = (sys.executable, "-c", LISTEN + SCRIPT)
# Ctrl-C at the import of one module.
STRIKE = """
import os, signal, sys

class Strike:
    def find_spec(name, *_):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Strike)
signal.signal(signal.SIGINT, signal.{handler})
"""


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


@pytest.mark.trust
def test_ctrl_c_saves_finished_blocks_whole_and_says_so(environment, tmp_path):
    out = tmp_path / "out"
    words = ("audit", "gaussian-mean", "--gammas", "1", "--num-datasets", "1000000", "--out", out)
    command = [*PROGRAM, *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        late = threading.Timer(90, process.kill)
        late.start()
        seen, read = "", "?"
        while "sampling " not in seen and read:
            read = process.stderr.read(1)
            seen += read
        late.cancel()
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        try:
            _, rest = process.communicate(timeout=60)
        finally:
            process.kill()
    last = rest.replace("\r", "\n").splitlines()[-1]
    assert process.returncode == 130
    assert last.startswith("gibbs-dp: interrupted: saved finished datasets to ")
    assert "Traceback" not in rest
    assert [p.name for p in out.iterdir()] == ["audit.nc"]
    report = gdp.load_report(out / "audit.nc")
    assert report["num_datasets"][0] >= 2
    assert report.warnings[0].startswith("interrupted")
    assert "sampling" in seen
    # Compiled programs were kept in the user's cache.
    assert any(cache_folder().iterdir())


def struck(name, handler, *words):
    program = STRIKE.format(name=name, handler=handler) + SCRIPT
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


# The first, the command, compiled modules that bear no exception, and one that is imported late.
@pytest.mark.trust(
    but=[
        "jaxlib._jax-nothing was saved",
        "gibbs_dp.cli.audit-nothing was saved",
        "gibbs_dp-nothing was saved",
        "gibbs_dp.problems.location-nothing more was saved",
    ]
)
@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("gibbs_dp", "nothing was saved"),
        ("gibbs_dp.cli.audit", "nothing was saved"),
        ("jaxlib._jax", "nothing was saved"),
        ("numpyro.infer", "nothing was saved"),
        ("gibbs_dp.problems.location", "nothing more was saved"),
    ],
)
def test_ctrl_c_during_imports_is_one_line(environment, name, saved):
    done = struck(name, "default_int_handler", "audit", "gaussian-mean")
    assert done.returncode == 130
    assert done.stderr == f"gibbs-dp: interrupted: {saved}.\n"
    assert not done.stdout


def test_a_job_that_ignores_ctrl_c_goes_on(environment):
    done = struck("gibbs_dp", "SIG_IGN", "--version")
    assert done.returncode == 0
    assert done.stdout == f"gibbs-dp {gdp.__version__}\n"
