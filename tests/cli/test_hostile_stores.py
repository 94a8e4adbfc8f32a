"""A store's request is a file: it may ask for no more than a command line could."""

import json

import pytest

ASKED = {"n": 5, "dim": 2, "gammas": [1.0], "seed": 0, "num_datasets": 4}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dask": "tcp://127.0.0.1:9"}, "'dask' is no option that was asked for"),
        ({"out": "/"}, "'out' is no option"),
        ({"kernel": "../../x"}, "'kernel' is no option"),
        ({"gammas": "1"}, "'gammas' is no option"),
        ({"n": 2.5}, "'n' is no option"),
        ({"seed": 10**30}, "'seed' is no option"),
        ({"\x1b[2J": 1}, r"'\\x1b[2J' is no option"),
    ],
)
def test_what_no_command_line_would_ask_for_is_refused(run, tmp_path, change, message):
    asked = {"problem": "gaussian-mean", "options": ASKED | change, "num_processes": 1}
    (tmp_path / "request.json").write_text(json.dumps(asked))
    ran = run("merge", tmp_path)
    assert ran.status == 2
    assert message.replace(r"\\", "\\") in ran.error


@pytest.mark.parametrize("name", ["", "os:system", 2.5, None, "\x1b[2J"])
def test_a_problem_that_is_none_is_refused(run, tmp_path, name):
    asked = {"problem": name, "options": ASKED, "num_processes": 1}
    (tmp_path / "request.json").write_text(json.dumps(asked))
    ran = run("merge", tmp_path)
    assert ran.status == 2
    assert "has a damaged request.json" in ran.error


def test_numbers_that_no_machine_counts_to_are_refused(run):
    large = "1" + "0" * 30
    for words in (("--num-datasets", large), ("--seed", large), ("--n", "3000000000")):
        ran = run("audit", "gaussian-mean", *words)
        assert ran.status == 2
        assert "not a whole number" in ran.error or "must be at most 2147483647" in ran.error
