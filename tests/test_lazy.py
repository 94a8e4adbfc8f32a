"""What is not used is not imported, and all that stubs promise is there."""

import importlib
import subprocess
import sys

import pytest

import gibbs_dp as gdp

LAZY = ("adaptive", "capacity", "exact", "information", "model", "privacy", "problems")
HEAVY = ("jax", "numpyro", "scipy", "pandas", "xarray", "matplotlib", "optax", "h5py")
HELP = """
import contextlib, io, sys
from gibbs_dp.cli.commands import COMMANDS
from gibbs_dp.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    for words in ["--version"], ["--help"], [], ["audit", "nothing"], ["sample", "--nonsense"]:
        main(words)
    for command in COMMANDS:
        main([command, "--help"])
"""


@pytest.mark.parametrize("code", ["import gibbs_dp", HELP], ids=["import", "help"])
def test_nothing_heavy_is_loaded(code):
    told = f"{code}\nimport sys; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("name", ["", *LAZY])
def test_every_promised_name_is_there(name):
    module = importlib.import_module(f"gibbs_dp.{name}".rstrip("."))
    assert len(module.__all__) == len(set(module.__all__)) > 2
    for promised in module.__all__:
        assert getattr(module, promised) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = module.nonsense


def test_a_star_and_a_submodule():
    assert gdp.privacy.pure_dp_epsilon.__module__ == "gibbs_dp.privacy.pure"
    names = {}
    exec("from gibbs_dp import *", names)
    assert set(gdp.__all__) <= set(names)
