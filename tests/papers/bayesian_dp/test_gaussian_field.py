"""Noisy sums of Gaussian rows: what an adversary learns, by quadrature and by conditional laws."""

import numpy as np
import pytest

from gibbs_dp.papers.bayesian_dp import GaussianField, GaussianFieldMechanism
from gibbs_dp.papers.bayesian_dp.row_law import adversaries

ATTRACTIVE = np.array(
    [[2.0, -0.7, 0.0, -0.2], [-0.7, 1.5, -0.5, 0.0], [0.0, -0.5, 1.2, -0.3], [-0.2, 0.0, -0.3, 1.0]]
)
MIXED = ATTRACTIVE * np.outer([1, -1, 1, 1], [1, 1, 1, 1])
MIXED = np.triu(MIXED) + np.triu(MIXED, 1).T
MIXED[1, 1] = 1.5


def law_given(covariance, a, row, known, values):
    """Mean (all means 0) and variance of ``a.x`` given some rows, from the covariance."""
    seen = [row, *sorted(known)]
    gain = a @ covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    variance = a @ covariance @ a - gain @ covariance[seen] @ a
    return float(gain @ values), max(float(variance), 0.0)


def log_density(y, mean, variance, scale):
    """Of a Gaussian plus Laplace noise, by the trapezoid rule."""
    if variance < 1e-12:
        return -np.abs(y - mean) / scale
    s = np.linspace(-9, 9, 4001) * np.sqrt(variance)
    weights = np.exp(-(s**2) / (2 * variance))
    return np.log(np.exp(-np.abs(y[:, None] - mean - s) / scale) @ weights)


@pytest.mark.parametrize("precision", [ATTRACTIVE, MIXED])
@pytest.mark.parametrize("a", [np.ones(4), np.array([1.0, 0.0, 2.0, 0.5]), np.array([1, -1, 1, 1])])
def test_the_leak_of_every_adversary_is_what_quadrature_finds(precision, a):
    field = GaussianField(precision)
    covariance = np.linalg.inv(precision)
    mechanism = GaussianFieldMechanism(field, 0.7, 1.5, a)
    worst, found = 0.0, {}
    y = np.linspace(-60, 60, 121)
    rng = np.random.default_rng(3)
    for row, known in adversaries(4):
        told = rng.normal(size=len(known))
        laws = [law_given(covariance, a, row, known, [x, *told]) for x in (-0.4, 1.1)]
        logs = [log_density(y, *law, mechanism.scale) for law in laws]
        leak = float(np.abs(logs[0] - logs[1]).max())
        expected = 1.5 * abs(field.response(a, row, known)) / mechanism.scale
        assert leak == pytest.approx(expected, abs=1e-6)
        found[row, known] = leak
        worst = max(worst, leak)
    assert worst == pytest.approx(0.7, abs=1e-6)  # the noise is just enough
    assert field.leakage(a, mechanism.scale, 1.5) == pytest.approx(0.7)
    told = field.worst_response(a)
    assert told.is_exact
    assert found[told.row, told.known] == pytest.approx(worst, abs=1e-6)


def test_attractive_fields_need_no_search():
    """One who knows nothing learns most; 200 rows on a ring, with a closed form by Fourier."""
    field = GaussianField(ATTRACTIVE)
    told = field.worst_response(np.ones(4))
    tried = field.every_adversary(np.ones(4))
    assert told.known == frozenset() == tried.known
    assert (told.row, told.value) == (tried.row, pytest.approx(tried.value))
    n, link = 200, 0.4
    ring = np.eye(n) - link * (np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1))
    variance = np.mean(1 / (1 - 2 * link * np.cos(2 * np.pi * np.arange(n) / n)))
    found = GaussianField(ring).worst_response(np.ones(n))
    assert found.value == pytest.approx(1 / (1 - 2 * link) / variance)


def test_signs_that_differ_make_what_is_known_matter_and_the_bound_hold():
    """Not the one who knows nothing: others' answers cancel until some are known."""
    field = GaussianField(MIXED)
    told = field.worst_response(np.ones(4))
    assert told.known
    assert told.value > max(abs(field.response(np.ones(4), i, [])) for i in range(4)) + 0.05
    rng = np.random.default_rng(7)
    for _ in range(5):
        table = rng.uniform(-0.3, 0.3, (13, 13))
        table = np.triu(table, 1) * (rng.uniform(size=(13, 13)) < 0.3)
        precision = table + table.T + np.diag(rng.uniform(1.5, 2.5, 13))
        a = rng.normal(size=13)
        bound = GaussianField(precision).worst_response(a)
        assert not bound.is_exact
        assert bound.known is None
        field = GaussianField(precision)
        values = []
        for _ in range(400):
            row = int(rng.integers(13))
            others = np.array([v for v in range(13) if v != row])
            known = others[rng.uniform(size=12) < rng.uniform()]
            values.append(abs(field.response(a, row, [int(v) for v in known])))
        assert max(values) <= bound.value
        assert max(values) > 0.4 * bound.value


def test_independent_rows_are_dp():
    field = GaussianField.from_covariance(np.diag([1.0, 4.0, 9.0]))
    mechanism = GaussianFieldMechanism(field, 0.5, 2.0)
    assert mechanism.scale == pytest.approx(4.0)
    assert field.worst_response([1.0, -3.0, 2.0]).value == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianField([[1.0, 2.0], [2.0, 1.0]]), "symmetric and positive definite"),
        (lambda: GaussianField([[1.0, 0.5], [0.2, 1.0]]), "symmetric and positive definite"),
        (lambda: GaussianField([1.0, 2.0]), "finite square matrix"),
        (lambda: GaussianField.from_covariance([[1.0, 1.0], [1.0, 1.0]]), "covariance must be"),
        (lambda: GaussianField(np.eye(13)).every_adversary(np.ones(13)), "13 rows have too many"),
        (lambda: GaussianField(ATTRACTIVE).response(np.ones(4), 0, [0]), "different rows"),
        (lambda: GaussianField(ATTRACTIVE).response(np.ones(3), 0, []), "weights must be 4"),
        (lambda: GaussianField(ATTRACTIVE).leakage(np.ones(4), 1.0, 0.0), "difference must"),
        (lambda: GaussianFieldMechanism(GaussianField(ATTRACTIVE), 1.0, 1.0, [0] * 4), "differ"),
        (
            lambda: GaussianField(
                np.eye(13) * 1.05 + np.triu(np.ones((13, 13)), 1) + np.tril(np.ones((13, 13)), -1)
            ).worst_response(np.ones(13)),
            "too strong for the bound",
        ),
    ],
)
def test_bad_fields(call, message):
    with pytest.raises(ValueError, match=message):
        call()
