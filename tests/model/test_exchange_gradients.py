"""How far gradients of two examples lie apart: a search never exceeds, and nearly reaches, it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import gibbs_dp as gdp
from gibbs_dp.model.losses.base import largest_gap

SLOPES = {
    "logistic": lambda p, y: 1 / (1 + np.exp(-p)) - y,
    "squared": lambda p, y: 2 * (p - y),
    "huber": lambda p, y: np.clip(p - y, -1.0, 1.0),
    "gaussian_nll": lambda p, y: p - y,
}


def largest_found(name, x_bound, y_bound, radius, seed):
    """Largest difference of gradients over two examples and theta in the plane, by search."""
    ends = (0.0, 1.0) if name == "logistic" else (-y_bound, y_bound)
    rng = np.random.default_rng(seed)

    def gap(point, labels):
        theta, *x = (
            radius * _in_disc(point[:2]),
            *(x_bound * _in_disc(p) for p in point[2:].reshape(2, 2)),
        )
        gradients = [SLOPES[name](v @ theta, y) * v for v, y in zip(x, labels, strict=True)]
        return -np.linalg.norm(gradients[0] - gradients[1])

    best = 0.0
    for labels in [(a, b) for a in ends for b in ends]:
        for _ in range(6):
            found = minimize(
                gap,
                rng.normal(size=6),
                args=(labels,),
                method="Nelder-Mead",
                options={"maxiter": 2000, "xatol": 1e-7, "fatol": 1e-10},
            )
            best = max(best, -found.fun)
    return best


def _in_disc(v):
    return v / max(1.0, np.linalg.norm(v))


@pytest.mark.trust(but=["bounds0-logistic", "bounds0-huber"])
@pytest.mark.parametrize("name", sorted(SLOPES))
@pytest.mark.parametrize(
    "bounds", [(1.0, 0.2, 2.0), (2.0, 1.0, 1.0), (0.5, 4.0, 1.0), (1.0, 0.0, 5.0)]
)
def test_a_search_reaches_the_constant_and_no_more(name, bounds):
    x_bound, y_bound, radius = bounds
    domain = gdp.Domain(x_bound, (-y_bound, y_bound), theta_bound=radius)
    claimed = getattr(gdp.losses, name).constants(domain).exchange_lipschitz
    found = largest_found(name, *bounds, seed=1)
    assert found <= claimed * (1 + 1e-9)
    assert found >= claimed * (1 - 2e-3)


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.floats(0.0, 2.0), min_size=2, max_size=6),
    p=st.floats(0.01, 20.0),
    seed=st.integers(0, 2**31),
)
def test_no_pair_of_points_of_any_rising_slope_exceeds_the_gap(steps, p, seed):
    """Steps are the hardest slopes: no smoothness is used."""
    edges = np.linspace(-p, p, len(steps))

    def slope(x):
        return np.sum(np.where(x[..., None] >= edges, steps, 0.0), axis=-1)

    rng = np.random.default_rng(seed)
    a, b = np.pi * rng.random((2, 20_000))
    long, short = slope(p * np.cos(a)), slope(p * np.cos(b))
    length = np.sqrt(long**2 + short**2 - 2 * long * short * np.cos(a + b))
    assert length.max() <= largest_gap(slope, p) * (1 + 1e-9)


@pytest.mark.parametrize("p", [1e-3, 0.5, 5.0, 1e3, 1e6])
def test_the_logistic_gap_is_its_closed_form(p):
    """Printed as 1.02911, 1.26984, 1.61728 at P = 0.5, 2, 5 by an independent search."""
    angles = np.linspace(0.0, np.pi / 2, 2_000_001)
    closed = 2 * np.max(np.sin(angles) / (1 + np.exp(-p * np.cos(angles))))
    claimed = gdp.losses.logistic.constants(gdp.Domain(1.0, theta_bound=p)).exchange_lipschitz
    assert closed <= claimed <= closed * (1 + 1e-3)


def test_range_on_a_line_is_the_supremum():
    """One parameter: pairs of examples by grid, theta continuous at its ends and vertex."""
    for p, y in [(2.0, 0.2), (2.0, 0.36), (2.0, 1.0), (1.0, 0.0), (0.5, 3.0)]:
        domain = gdp.Domain(1.0, (-y, y), theta_bound=p, num_parameters=1)
        claimed = gdp.losses.squared.constants(domain).exchange_range
        u, v = np.meshgrid(np.linspace(-1, 1, 801), np.linspace(-1, 1, 801))
        best = 0.0
        for s, t in [(y, y), (y, -y)]:
            a, b = u**2 - v**2, u * s - v * t
            vertex = np.clip(np.divide(b, a, out=np.zeros_like(b), where=a != 0), -p, p)
            values = np.stack([a * x**2 - 2 * b * x for x in (-p, p, vertex)])
            best = max(best, np.ptp(values, axis=0).max())
        assert claimed * (1 - 1e-4) <= best <= claimed * (1 + 1e-9)


def test_the_accountant_counts_parameters():
    """Sharper for one parameter."""
    domain = gdp.Domain(x_bound=1.0, y_range=(-0.2, 0.2))
    ranges = []
    for dim in (1, 2):
        prior = gdp.Flat(gdp.supports.l2_ball(dim, 2.0))
        found = gdp.privacy.account(
            gdp.GibbsPosterior(gdp.losses.squared, prior),
            gamma=1.0,
            n=10,
            adjacency="replace-one",
            domain=domain,
        )
        ranges.append(found.constants.loss_range)
    assert ranges == pytest.approx([4.88951600, 2 * 2.2**2])
