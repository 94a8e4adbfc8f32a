"""The benchmarks' quadrature: against closed forms, an audit on a lattice, and what it refuses."""

import importlib
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import gibbs_dp as gdp

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def folder():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


@pytest.fixture(scope="module")
def quadrature(folder):
    return importlib.import_module("quadrature")


@pytest.fixture(scope="module")
def cases(folder):
    return importlib.import_module("multimodal_cases")


def half_squares(points, data):
    return np.sum((points[:, None] - data) ** 2, axis=2) / 2


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("prior_scale", [None, 0.7])
def test_a_gaussian_posterior_has_its_closed_form(quadrature, dim, prior_scale):
    rng = np.random.default_rng(0)
    n, gamma = 6, 0.8
    train, ghosts = rng.normal(size=(4, n, dim)), rng.normal(size=(4, 9, dim))
    precision = n * gamma + (0.0 if prior_scale is None else prior_scale**-2)
    grid = quadrature.lattice((-5.0,) * dim, (5.0,) * dim, 60)

    def log_prior(points):
        return -np.sum(points**2, axis=1) / (2 * prior_scale**2)

    found = quadrature.exact(
        half_squares, None if prior_scale is None else log_prior, grid, train, ghosts, gamma
    )
    # Replacing an example moves the mean by gamma (z' - z) / precision.
    moved = np.sum((train[:, :, None] - ghosts[:, None]) ** 2, axis=3)
    kl = gamma**2 * moved.mean(axis=(1, 2)) / (2 * precision)
    np.testing.assert_allclose(found.on_average_kl, kl, rtol=1e-8)
    mean = gamma * train.sum(axis=1) / precision
    for risk, data in ((found.empirical_risk, train), (found.population_risk, ghosts)):
        squares = np.sum((mean[:, None] - data) ** 2, axis=2).mean(axis=1) + dim / precision
        np.testing.assert_allclose(risk, squares / 2, rtol=1e-8)


@pytest.mark.parametrize(
    ("high", "num", "message"),
    [(0.2, 60, "lies on the rim; widen it"), (5.0, 6, "every other stripe is off a half by")],
)
def test_a_lattice_that_does_not_do_is_refused(quadrature, high, num, message):
    data = np.full((1, 6, 1), 0.3)
    grid = quadrature.lattice((-5.0,), (high,), num)
    with pytest.raises(ValueError, match=message):
        quadrature.exact(half_squares, None, grid, data, data, 1.0)


def test_three_coordinates_are_too_many(quadrature):
    with pytest.raises(ValueError, match="3 coordinates; a lattice is for one or two"):
        quadrature.lattice((0.0,) * 3, (1.0,) * 3, 4)


def test_losses_are_those_of_the_posteriors(cases):
    rng = np.random.default_rng(1)
    for make in cases.CASES.values():
        case = make()
        shape = case.posterior.prior.supports[0].shape
        theta = rng.uniform(case.low, case.high)
        data = rng.normal(size=(5, 1) if len(shape) == 2 else 5)
        found = case.posterior.losses(jnp.asarray(theta.reshape(shape)), jnp.asarray(data))
        np.testing.assert_allclose(found, case.loss(theta[None], data)[0], rtol=1e-4)


@pytest.mark.trust
@pytest.mark.parametrize(
    ("name", "gamma", "num"),
    [("15 and 25, normal", 1.0, 600), ("0 and 12, flat", 0.3, 600)],
)
def test_an_audit_on_the_same_lattice_agrees(cases, name, gamma, num):
    """The same datasets and ghosts: no statistical error, single against double precision."""
    case, count = cases.CASES[name](), 16
    grid = gdp.Grid(low=case.low, high=case.high, num_points=num)
    report = gdp.audit(
        case.posterior,
        case.population,
        case.n,
        [gamma],
        num_datasets=count,
        learn=[*gdp.DEFAULT, gdp.OnAverageKL(num_ghosts=cases.GHOSTS), gdp.MutualInformation(0)],
        sampler=grid,
        progress=False,
    )
    exact = cases.exact_of(case, count, gamma)
    row = report.rows[0]
    assert row["on_average_kl"] == pytest.approx(exact.on_average_kl.mean(), rel=1e-3)
    assert row["empirical_risk"] == pytest.approx(exact.empirical_risk.mean(), rel=1e-3)
