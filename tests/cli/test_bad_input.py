"""Bad input: one line that names it and says what to do, status 2, nothing on stdout."""

import numpy as np
import pandas as pd
import pytest

USER_PROBLEMS = """
import jax, jax.numpy as jnp, numpyro.distributions as dist
import gibbs_dp as gdp
from gibbs_dp.problems import Problem

def line(key, n):
    x = jax.random.normal(key, (n, 3))
    return x, x.sum(axis=1)

def problem(loss, prior, n=20):
    return Problem("mine", gdp.GibbsPosterior(loss, prior), line, n=n)

normal = dist.Normal(jnp.zeros(3), 1.0)
def vector_loss() -> Problem:
    return problem(lambda theta, z: (z[1] - z[0] * theta) ** 2, normal)
def shape_mismatch() -> Problem:
    return problem(gdp.losses.squared, dist.Normal(jnp.zeros(2), 1.0))
def improper() -> Problem:
    return problem(gdp.losses.squared, gdp.Flat(gdp.supports.real(3)), n=2)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current directory with tables and problems of the user's own."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    good = pd.DataFrame(
        {"age": rng.normal(size=20), "city": list("abcd") * 5, "ill": ["no", "yes"] * 10}
    )
    good.to_csv("good.csv", index=False)
    good.assign(ill="no").to_csv("one_class.csv", index=False)
    good.assign(age=[np.nan, *good["age"][1:]]).to_csv("missing.csv", index=False)
    good.iloc[:0].to_csv("no_rows.csv", index=False)
    good.assign(age=[f"${k % 7}.99" for k in range(20)]).to_csv("dollars.csv", index=False)
    good.assign(age=["?", *map(str, range(30, 49))]).to_csv("question.csv", index=False)
    good.assign(age=[f"{k % 7},250.00" for k in range(20)]).to_csv("thousands.csv", index=False)
    (tmp_path / "empty.csv").touch()
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    (tmp_path / "file").touch()
    (tmp_path / "user_problems.py").write_text(USER_PROBLEMS)
    return tmp_path


ILL = ("audit", "--target", "ill", "--data")
MINE = ("audit", "--with", "user_problems.py")

CASES = {
    "dollars": ((*ILL, "dollars.csv"), "(--units '$')"),
    "dollars sampled": (("sample", "--target", "ill", "--data", "dollars.csv"), "(--units '$')"),
    "question mark": ((*ILL, "question.csv"), "name it with na_values (--na-values)"),
    "thousands": ((*ILL, "thousands.csv"), "(--thousands ,)"),
    "no mark of thousands": ((*ILL, "good.csv", "--thousands", "x"), "thousands: 'x' cannot stand"),
    "no numbers": ((*ILL, "good.csv", "--numbers", "city"), "'city' holds texts that are none"),
    "nothing named": (("audit",), "no problem is named"),
    "unknown problem": (("audit", "nope"), "no problem 'nope'"),
    "unknown command": (("frob",), "no command 'frob'"),
    "unknown option": (("audit", "private-mean", "--bogus", "1"), "--bogus"),
    "foreign option": (("audit", "private-mean", "--dim", "3"), "--dim: private-mean has no"),
    "two problems": (("audit", "private-mean", "gaussian-mean"), "unexpected after"),
    "text for a number": (
        ("audit", "gaussian-mean", "--dim", "x"),
        "--dim: 'x' is not a whole",
    ),
    "zero dimension": (("audit", "gaussian-mean", "--dim", "0"), "dim: must be at least 1"),
    "negative scale": (("audit", "gaussian-mean", "--data-scale", "-1"), "data_scale: must be"),
    "negative prior": (("audit", "gaussian-mean", "--prior-scale", "-1"), "prior_scale: must be"),
    "negative bound": (("audit", "private-mean", "--theta-bound", "-1"), "theta_bound: must be"),
    "negative gamma": (("audit", "gaussian-mean", "--gammas", "-1"), "gammas: -1 is not"),
    "NaN gamma": (("audit", "--gammas", "nan", "gaussian-mean"), "gammas: nan is not"),
    "zero datasets": (("audit", "gaussian-mean", "--num-datasets", "0"), "num_datasets: must be"),
    "zero examples": (("audit", "gaussian-mean", "--n", "0"), "n: must be"),
    "zero step": (("audit", "gaussian-mean", "--step-size", "0"), "HMC(step_size) must be"),
    "leapfrog of MALA": (
        ("audit", "gaussian-mean", "--sampler", "mala", "--num-leapfrog", "3"),
        "--num-leapfrog: mala has no such setting; use --sampler hmc.",
    ),
    "batch of HMC": (
        ("audit", "gaussian-mean", "--batch-size", "3"),
        "--batch-size: hmc has no such setting; use --sampler sgld.",
    ),
    "batch of nothing": (
        ("audit", "gaussian-mean", "--sampler", "sgld", "--batch-size", "0"),
        "SGLD(batch_size) must be at least 1, got 0",
    ),
    "folder under a file": (("audit", "gaussian-mean", "--out", "file/x"), "--out: cannot write"),
    "folder is a file": (("audit", "gaussian-mean", "--out", "file"), "--out: cannot write"),
    "figure2 folder": (("figure2", "--out", "file/x"), "--out: cannot write"),
    "figure2 datasets": (("figure2", "--num-datasets", "0"), "num_datasets: must be"),
    "no target": (("audit", "--data", "good.csv"), "target: table needs it"),
    "no file": ((*ILL, "absent.csv"), "there is no file 'absent.csv'"),
    "empty file": ((*ILL, "empty.csv"), "the file 'empty.csv' is empty"),
    "no rows": ((*ILL, "no_rows.csv"), "the table has no rows"),
    "a folder": ((*ILL, "."), "'.' is a folder; give the path of one file in it"),
    "not text": ((*ILL, "binary.csv"), "cannot be read as a CSV table"),
    "one class": ((*ILL, "one_class.csv"), "every row of 'ill' is no"),
    "missing values": ((*ILL, "missing.csv"), "missing values in age (1)"),
    "unknown target": (
        ("audit", "--data", "good.csv", "--target", "sick"),
        "no column 'sick'; the table has age, city, ill",
    ),
    "unknown feature": ((*ILL, "good.csv", "--features", "age", "town"), "no column 'town'"),
    "target as feature": ((*ILL, "good.csv", "--features", "ill"), "'ill' is the target"),
    "text target": ((*ILL, "good.csv", "--loss", "squared"), "'ill' holds text"),
    "unknown loss": ((*ILL, "good.csv", "--loss", "cubic"), "--loss: invalid choice"),
    "unknown column of weights": ((*ILL, "good.csv", "--weights", "w"), "no column 'w'"),
    "weights and split": ((*ILL, "good.csv", "--weights", "age", "--split"), "at least 0"),
    "groups without split": ((*ILL, "good.csv", "--group", "city"), "use split mode"),
    "one example of a group": (
        (*ILL, "good.csv", "--group", "city", "--split", "--n", "5"),
        "group_size: the population's examples are dependent",
    ),
    "a file as a problem": (("audit", "absent.csv", "--target", "ill"), "no file 'absent.csv'"),
    "two files": (
        ("audit", "good.csv", "--data", "good.csv"),
        "it is given twice, as 'good.csv' too",
    ),
    "n above the table": ((*ILL, "good.csv", "--split", "--n", "20"), "the table has 20"),
    "n above the table, sample": (
        ("sample", "--target", "ill", "--data", "good.csv", "--split", "--n", "21"),
        "the table has 20",
    ),
    "vector loss": ((*MINE, "vector-loss"), "must return a scalar"),
    "prior shape": ((*MINE, "shape-mismatch"), "cannot be evaluated with theta"),
    "improper": ((*MINE, "improper", "--gammas", "1"), "posterior: improper"),
    "improper sample": (("sample", *MINE[1:], "improper"), "posterior: improper"),
    "none of that name": ((*MINE, "absent"), "no problem 'absent'"),
    "negative gamma, sample": (("sample", "gaussian-mean", "--gamma", "-1"), "gamma: -1 is not"),
}


# These are sampled before they are refused.
SLOW = ("improper", "improper sample")


@pytest.mark.trust(but=[case for case in CASES if case not in SLOW])
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_status_2(case, folder, run):
    words, message = CASES[case]
    ran = run(*words)
    assert ran.status == 2
    assert message in ran.error
    assert ran.out == ""


def test_debug_shows_where(run):
    ran = run("audit", "gaussian-mean", "--dim", "0", "--debug")
    assert ran.status == 2
    assert "Traceback" in ran.err


def test_the_unexpected_is_one_line_and_status_1(run, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("gibbs_dp.cli.audit.make_problem", fail)
    ran = run("audit", "gaussian-mean")
    assert ran.status == 1
    assert ran.error == "unexpected ZeroDivisionError: oops (--debug shows where)"
