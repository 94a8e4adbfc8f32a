"""Two test processes that import ArviZ on a new day."""

import datetime
import subprocess
import sys

import pytest
from arviz_note import leave_note

IMPORT = "import pathlib; pathlib.Path.replace = None; import arviz"  # it can write no note


def test_arviz_finds_the_note_and_writes_none(tmp_path, monkeypatch):
    pytest.importorskip("arviz")
    folder = pytest.importorskip("platformdirs").user_cache_dir
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    leave_note()
    note = tmp_path / folder("arviz", "arviz") / "daily_warning"
    assert note.read_text() == datetime.date.today().isoformat()
    assert [path.name for path in note.parent.iterdir()] == ["daily_warning"]
    warned = (sys.executable, "-W", "error::FutureWarning:arviz", "-c", IMPORT)
    assert subprocess.run(warned, capture_output=True, text=True).stderr == ""
