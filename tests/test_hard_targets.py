"""The table of hard targets: what a run is called, and the page that is written of all runs."""

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import gibbs_dp as gdp

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def hard(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("hard_targets")


def draws(values, *warnings):
    return SimpleNamespace(theta=values, warnings=[f"some [{w}]" for w in warnings])


NORMAL = np.random.default_rng(0).standard_normal((4, 1000, 1))
APART = NORMAL / 10 + np.array([-2.0, -0.7, 0.7, 2.0])[:, None, None] / 1.5
RUNS = {
    "right": (NORMAL, (), True, "right"),
    "right, but warned of": (NORMAL, ("r-hat",), True, "right"),
    "beside": (NORMAL + 0.2, (), True, "silently wrong"),
    "beside, and warned of": (NORMAL + 0.2, ("r-hat",), True, "flagged"),
    "too narrow": (0.85 * NORMAL, (), True, "silently wrong"),
    "too wide": (1.2 * NORMAL, ("r-hat",), True, "flagged"),
    "chains apart, which says little": (APART, ("r-hat",), True, "flagged"),
    "standing still": (0.0 * NORMAL, (), True, "silently wrong"),
    "no number": (np.nan * NORMAL, (), True, "silently wrong"),
    "drawn from what is no law": (NORMAL, (), False, "silently wrong"),
    "refused": (None, (), False, "refused"),
    "refused without a reason": (None, (), True, "wrongly refused"),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_called_what_it_is(hard, monkeypatch, name):
    values, warnings, is_proper, verdict = RUNS[name]

    def sample(*given):
        if values is None:
            raise gdp.ImproperPosteriorError("posterior: improper; use another.")
        return draws(values, *warnings)

    monkeypatch.setattr(hard.gdp, "sample", sample)
    truth = {"first": hard.Moments(0.0, 1.0)} if is_proper else None
    target = hard.Target(None, None, lambda theta: {"first": theta[..., 0]}, truth)
    found = hard.judge(target, 0, None)
    assert found["verdict"] == verdict
    if warnings:
        assert found["why"] == list(warnings)


def test_the_page_is_that_of_the_results(hard):
    rows = json.loads((FOLDER / "results" / "hard_targets.json").read_text())["rows"]
    assert hard.PAGE.read_text() == hard.page(rows)
    assert set(hard.CASES) <= {row["target"] for row in rows}
    assert len(hard.CASES) >= 40
    assert all(sum(row[verdict] for verdict in hard.VERDICTS) == 10 for row in rows)


def test_true_moments_are_those_of_scipy(hard):
    """Closed forms against exact draws and quadrature: 5 standard errors of a million draws."""
    found = hard.CASES["Student t, 5 degrees of freedom"]().truth["log size"]
    wanted = stats.t(5).expect(lambda x: np.log1p(x**2))
    assert abs(found.mean - wanted) < 1e-4
    found = hard.CASES["wall, d = 1"]().truth["first"]
    law = stats.truncexpon(50, scale=1 / 50)
    np.testing.assert_allclose(found, (law.mean(), law.std()), rtol=1e-6)
    found = hard.CASES["centre 3 sd beyond a half line"]().truth["first"]
    law = stats.truncnorm(3, np.inf, loc=-3)
    np.testing.assert_allclose(found, (law.mean(), law.std()), rtol=1e-5)
    found = hard.CASES["modes at 0, 12, 0.6, d = 5"]().truth["first"]
    np.testing.assert_allclose(found, (4.8, np.sqrt(1 + 144 * 0.24)), atol=5 * 6 / 1000)
