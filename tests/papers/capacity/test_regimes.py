"""The printed bounds fail where the theory says, and nowhere are they taken for guarantees."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from gibbs_dp.papers import capacity


def test_the_failure_in_print():
    row = capacity.laplace_regime(0.2, 3.0)
    assert row.printed == pytest.approx(0.0157, abs=5e-5)
    assert row.exact == pytest.approx(0.0281, abs=5e-5)
    assert row.verdict == "fails"
    assert row.exact < row.valid


def test_the_crossing_of_printed_and_unrestricted():
    gap = lambda a: capacity.printed_laplace(1.0, a) - capacity.laplace_unrestricted_renyi(1.0, a)  # noqa: E731
    assert brentq(gap, 2.0, 6.0) == pytest.approx(3.3147, abs=5e-5)


def test_a_grid_of_both_rows():
    alphas = [1.5, 2.0, 3.0, 6.0]
    laplace = capacity.regime_map(capacity.laplace_regime, list(np.geomspace(0.02, 5.0, 9)), alphas)
    gaussian = capacity.regime_map(
        capacity.gaussian_regime, list(np.geomspace(0.2, 50.0, 9)), alphas
    )
    for row in (*laplace, *gaussian):
        assert row.exact <= row.valid * (1 + 1e-9)
        assert row.valid <= row.unrestricted
        assert (row.verdict == "fails") == (row.printed < row.exact * (1 - 1e-5))
        assert row.verdict != "fails" or row.alpha > 2
    for rows in (laplace, gaussian):
        edges = capacity.failing_below(rows)
        assert edges[1.5] == edges[2.0] == 0.0
        assert 0.0 < edges[3.0] <= edges[6.0]
        # It fails everywhere below the edge, at all orders above 2.
        assert all(r.verdict == "fails" for r in rows if r.privacy < 0.1 and r.alpha > 2)


def test_rows_of_several_dimensions():
    row = capacity.laplace_regime(0.05, 5.0, [0.5, 0.5])
    assert row.verdict == "fails"
    assert row.printed == pytest.approx(
        math.log1p(2 ** (2 * 4) * (0.05**5 * 2 * 0.5**5)) / 4, rel=1e-9
    )
    gaussian = capacity.gaussian_regime(10.0, 4.0, [0.5, 0.5])
    by_hand = math.log1p(2 ** (2 * 3) * (math.pi / 2) ** 1.5 * 2 * 0.05**4) / 3
    assert gaussian.printed == pytest.approx(by_hand, rel=1e-9)
    assert gaussian.verdict == "fails"
    assert capacity.printed_laplace(1.0, 2.0, [0.0, 0.0]) == 0.0


def test_unrestricted_lower_bound():
    for eps, alpha in ((0.1, 1.5), (1.0, 3.0), (5.0, 40.0)):
        low = capacity.laplace_unrestricted_renyi_lower(eps, alpha, [1.0, 0.5])
        assert low <= capacity.laplace_unrestricted_renyi(eps, alpha, [1.0, 0.5])


@pytest.mark.parametrize("name", [n for n in dir(capacity) if n.startswith("printed_")])
def test_printed_bounds_say_so(name):
    assert "As printed" in getattr(capacity, name).__doc__
    assert "no guarantee" in getattr(capacity, name).__doc__
