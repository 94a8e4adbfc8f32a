import json
from typing import NamedTuple

import pytest

from gibbs_dp.cli.main import main


class Ran(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def rows(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self):
        """The one line of a refusal."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("gibbs-dp: error: ")
        return lines[0].removeprefix("gibbs-dp: error: ")


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs the program in this process, quietly and without touching the user's cache."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")

    def go(*words):
        status = main([*map(str, words), "--quiet"])
        return Ran(status, *capsys.readouterr())

    return go
