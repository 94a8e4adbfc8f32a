"""What shells offer after TAB; bash is asked itself."""

import contextlib
import shutil
import subprocess
import sys

import pytest

from gibbs_dp.cli import COMMANDS
from gibbs_dp.cli.main import main
from gibbs_dp.problems.registry import PROBLEMS

pytest.importorskip("shtab")

# Calls the function of the completion as bash does, and prints what it offers.
ASK = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"
COMP_POINT=${#COMP_LINE} COMPREPLY=()
function=$(complete -p gibbs-dp | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" gibbs-dp "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "gibbs-dp"
    with path.open("w") as file, contextlib.redirect_stdout(file):
        assert main(["completion", "bash"]) == 0
    return path


@pytest.fixture
def offered(script, tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (tmp_path / "patients.csv").touch()
    (tmp_path / "results").mkdir()

    def ask(*words):
        command = ["bash", "--norc", "-c", ASK, "bash", script, "gibbs-dp", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=10)
        assert done.returncode == 0, done.stderr
        assert "command not found" not in done.stderr
        return set(done.stdout.split())

    return ask


def test_commands_problems_and_words(offered):
    assert offered("") == set(COMMANDS)
    assert offered("audit", "") == set(PROBLEMS)
    assert offered("sample", "--json", "l") == {"linear-regression", "logistic-regression"}
    assert offered("ledger", "") == {"show", "create"}
    assert offered("holdout", "cl") == {"classifier", "climb"}
    assert "zsh" in offered("completion", "")


def test_options_are_those_of_the_problem(offered):
    of_mean, of_table = offered("audit", "gaussian-mean", "--"), offered("audit", "--")
    assert {"--data-scale", "--gammas", "--sampler"} <= of_mean
    assert not {"--target", "--theta-bound"} & of_mean
    assert {"--data", "--target", "--with", "--gammas"} <= of_table
    assert "--theta-bound" in offered("audit", "linear-regression", "--")


def test_choices_and_files(offered):
    kernels = {"adaptive-hmc", "hmc", "mala", "sgld", "smc", "ula", "underdamped-langevin"}
    assert offered("audit", "--sampler", "") == kernels
    assert offered("audit", "digits", "--n", "50", "--sampler", "u") == {
        "ula",
        "underdamped-langevin",
    }
    assert offered("release", "--adjacency", "") == {"replace-one", "add-remove"}
    assert offered("audit", "--sigma", "") == {"empirical"}  # or a number
    assert offered("audit", "--data", "p") == {"patients.csv"}
    assert offered("explore", "p") == offered("explore", "--out", "p") == {"patients.csv"}
    assert offered("sample", "gaussian-mean", "--out", "") == {"results"}


@pytest.mark.trust
def test_other_shells(run):
    zsh = run("completion", "zsh").out
    assert zsh.startswith("#compdef gibbs-dp\n")
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n"], input=zsh, text=True, check=True, timeout=10)
    assert run("completion", "tcsh").status == 0
    assert "name a shell, bash, zsh, tcsh, not 'fish'" in run("completion", "fish").error
    assert "name a shell" in run("completion").error


def test_without_shtab_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install shtab, or" in run("completion", "bash").error
