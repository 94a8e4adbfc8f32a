"""What only a process of its own can show: Ctrl-C and the cache."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import gibbs_dp as gdp
from gibbs_dp.cli.session import cache_folder

# A job started in the background of a shell ignores Ctrl-C, and its children inherit that.
LISTEN = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from gibbs_dp.cli.main import main; sys.exit(main())"
)
PROGRAM = (sys.executable, "-c", LISTEN)


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    root = str(Path(gdp.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))


def test_ctrl_c_saves_finished_blocks_whole_and_says_so(environment, tmp_path):
    out = tmp_path / "out"
    words = ("audit", "gaussian-mean", "--gammas", "1", "--num-datasets", "1000000", "--out", out)
    command = [*PROGRAM, *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        late = threading.Timer(90, process.kill)
        late.start()
        seen, read = "", "?"
        while "sampling:   0%" not in seen and read:
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
