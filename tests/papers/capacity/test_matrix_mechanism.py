"""The matrix mechanism: its releases, its strategies, and Theorem 5 against the exact value."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity import MatrixMechanism
from gibbs_dp.papers.capacity.closed_forms import laplace_unrestricted_renyi_lower
from gibbs_dp.papers.capacity.matrix_mechanism import (
    gaussian_regime,
    hierarchical_strategy,
    identity_strategy,
    optimized_strategy,
)

SIZE = 4
# Every count, and the total, which matters more.
QUERIES = np.vstack([np.eye(SIZE), 5 * np.ones((1, SIZE))])
PREFIX = np.tril(np.ones((16, 16)))
CASES = {
    "identity": (QUERIES, identity_strategy(SIZE)),
    "hierarchical": (QUERIES, hierarchical_strategy(SIZE)),
    "optimized": (PREFIX, optimized_strategy(PREFIX)),
}


def mechanism(name, eps=1.0):
    return MatrixMechanism(*CASES[name], eps)


@pytest.mark.parametrize("name", CASES)
def test_pure_dp(name):
    m = mechanism(name, 0.7)
    assert m.pure_dp("add-remove") == pytest.approx(0.7)
    # Two counts that share measurements cost less than 2 eps when one example moves between them.
    assert m.pure_dp("replace-one") <= 1.4 + 1e-12
    assert mechanism("identity", 0.7).pure_dp("replace-one") == pytest.approx(1.4)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("alpha", [2.0, 4.0])
def test_exact_values_bounds_and_what_is_printed(name, alpha):
    m = mechanism(name, 0.5)
    # Replacing moves one count to another: too many pairs for the larger case.
    for adjacency in ("add-remove", "replace-one")[: 1 if name == "optimized" else 2]:
        seen = m.linear_renyi(alpha, adjacency)
        released = m.linear_renyi(alpha, adjacency, "release")
        valid = m.linear_renyi_valid(alpha, adjacency)
        assert 0 < released.value <= seen.value * (1 + 1e-6)
        assert seen.value <= valid.value * (1 + 1e-6)
        assert seen.is_guarantee
        assert valid.is_guarantee
    assert not m.linear_renyi_printed(alpha).is_guarantee
    if alpha == 2.0:  # linear algebra: the noise's covariance and the answers' shift
        b = m.sensitivity / m.eps
        covariance = 2 * b**2 * m.reconstruction @ m.reconstruction.T
        by_hand = max(math.log1p(w @ np.linalg.pinv(covariance) @ w) for w in m.workload.T)
        found = m.linear_renyi(2.0, "add-remove", "release").value
        assert found == pytest.approx(by_hand, rel=1e-9)


def test_theorem_five_fails_for_one_row_and_is_vacuous_for_many():
    one = MatrixMechanism(np.ones((1, 1)), np.ones((1, 1)), 0.2)
    exact = one.linear_renyi(3.0, "add-remove").value
    assert one.linear_renyi_printed(3.0).value < exact == pytest.approx(0.0281, abs=5e-5)
    many = mechanism("hierarchical", 0.5)
    printed = many.linear_renyi_printed(3.0).value
    assert printed > many.pure_dp("add-remove") > many.linear_renyi(3.0, "add-remove").value
    # 2^(s (alpha-1)) eps^alpha: at small eps it fails for any number of rows.
    small = mechanism("identity", 1e-5)
    assert small.linear_renyi_printed(3.0).value < small.linear_renyi(3.0, "add-remove").value


def test_strategies():
    assert CASES["hierarchical"][1].shape == (7, 4)
    assert hierarchical_strategy(5).shape == (9, 5)
    assert mechanism("hierarchical").sensitivity == 3.0
    tree = hierarchical_strategy(16)
    others = [MatrixMechanism(PREFIX, a, 1.0).total_variance() for a in (np.eye(16), tree)]
    best = CASES["optimized"][1]
    error = mechanism("optimized").total_variance()
    assert others[0] == pytest.approx(2 * PREFIX.sum())
    assert error < 0.8 * min(others)
    # At the optimum no small change of the measured weights helps.
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = np.maximum(best + 0.01 * rng.normal(size=best.shape) * (best > 0), 0)
        other /= other.sum(axis=0)
        assert MatrixMechanism(PREFIX, other, 1.0).total_variance() > error * 0.9999
    # For single counts nothing beats measuring them.
    counts = MatrixMechanism(np.eye(3), optimized_strategy(np.eye(3)), 1.0)
    assert counts.total_variance() == pytest.approx(6.0, rel=1e-6)


def test_no_noise_and_bad_input():
    bare = mechanism("identity", math.inf)
    assert bare.linear_renyi(3.0, "add-remove").value == math.inf
    assert bare.linear_renyi_valid(3.0, "add-remove").value == math.inf
    with pytest.raises(ValueError, match="does not determine the workload"):
        MatrixMechanism(np.eye(2), np.ones((1, 2)), 1.0)
    with pytest.raises(ValueError, match="one column per count"):
        MatrixMechanism(np.eye(2), np.eye(3), 1.0)
    with pytest.raises(ValueError, match="eps must be positive"):
        mechanism("identity", 0.0)
    with pytest.raises(ValueError, match="form must be"):
        mechanism("identity").linear_renyi(2.0, "add-remove", "both")
    with pytest.raises(ValueError, match="workload must be a finite matrix"):
        optimized_strategy(np.full((1, 1), np.nan))


def test_released_answers_have_the_right_law():
    # Noise nobody can seed: means within 5 standard errors of 5 queries, false alarms 3e-6.
    m = mechanism("hierarchical", 0.7)
    counts = np.arange(float(m.workload.shape[1]))
    draws = np.stack([m.release(counts) for _ in range(2000)])
    z = (draws.mean(axis=0) - m.workload @ counts) / (draws.std(axis=0, ddof=1) / math.sqrt(2000))
    assert np.abs(z).max() < 5
    assert draws.var(axis=0, ddof=1).sum() == pytest.approx(m.total_variance(), rel=0.25)
    assert not np.array_equal(draws[0], draws[1])


def test_measurements_have_the_noise_of_the_mechanism():
    """A square strategy gives back what was measured: ``A x + |A|_1 Lap(1/eps)``."""
    size, eps = 16, 0.7
    strategy = np.eye(size) + np.eye(size, k=-1)  # columns of L1 norm 2
    m = MatrixMechanism(np.eye(size), strategy, eps)
    counts = np.arange(float(size))
    draws = np.stack([m.release(counts) for _ in range(5000)])
    sizes = np.abs((draws - counts) @ strategy.T) * eps / 2.0
    # Exponentials of mean 1. Noise nobody can seed: 4.5 standard errors, false alarms 7e-6.
    assert abs(sizes.mean() - 1) < 4.5 / math.sqrt(sizes.size)


def test_nothing_is_released_without_noise():
    m = mechanism("hierarchical", math.inf)
    with pytest.raises(ValueError, match="eps must be finite"):
        m.release(np.zeros(m.workload.shape[1]))


# The printed bounds fail where the theory says, and nowhere are they taken for guarantees.


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
    gaussian = capacity.regime_map(gaussian_regime, list(np.geomspace(0.2, 50.0, 9)), alphas)
    for row in (*laplace, *gaussian):
        assert row.exact <= row.valid * (1 + 1e-9)
        assert row.valid <= row.unrestricted
        assert (row.verdict == "fails") == (row.printed < row.exact * (1 - 1e-5))
        assert row.verdict != "fails" or row.alpha > 2
    for rows in (laplace, gaussian):  # it fails under much noise
        assert all(r.verdict == "fails" for r in rows if r.privacy < 0.1 and r.alpha > 2)


def test_rows_of_several_dimensions():
    row = capacity.laplace_regime(0.05, 5.0, [0.5, 0.5])
    assert row.verdict == "fails"
    assert row.printed == pytest.approx(
        math.log1p(2 ** (2 * 4) * (0.05**5 * 2 * 0.5**5)) / 4, rel=1e-9
    )
    gaussian = gaussian_regime(10.0, 4.0, [0.5, 0.5])
    by_hand = math.log1p(2 ** (2 * 3) * (math.pi / 2) ** 1.5 * 2 * 0.05**4) / 3
    assert gaussian.printed == pytest.approx(by_hand, rel=1e-9)
    assert gaussian.verdict == "fails"
    assert capacity.printed_laplace(1.0, 2.0, [0.0, 0.0]) == 0.0


def test_unrestricted_lower_bound():
    for eps, alpha in ((0.1, 1.5), (1.0, 3.0), (5.0, 40.0)):
        low = laplace_unrestricted_renyi_lower(eps, alpha, [1.0, 0.5])
        assert low <= capacity.laplace_unrestricted_renyi(eps, alpha, [1.0, 0.5])


@pytest.mark.parametrize("name", [n for n in dir(capacity) if n.startswith("printed_")])
def test_printed_bounds_say_so(name):
    assert "As printed" in getattr(capacity, name).__doc__
    assert "no guarantee" in getattr(capacity, name).__doc__
