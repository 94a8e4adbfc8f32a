"""Composition, post-processing and mixing, against divergences of the composed mechanisms."""

import math

import numpy as np
import pytest
from finite_class import FiniteClass
from hypothesis import given, settings
from hypothesis import strategies as st

from gibbs_dp.papers import capacity
from gibbs_dp.papers.capacity import CapacityBound, Polynomial
from gibbs_dp.papers.capacity.adversaries import (
    AnyMap,
    PolynomialMap,
    QueryHull,
    RandomFeatures,
    SumClass,
)
from gibbs_dp.papers.capacity.bound import mixture, parallel, sequential
from gibbs_dp.papers.capacity.polynomial import alpha_from_renyi, gaussian_line, polynomial_kl
from gibbs_dp.papers.capacity.verify import span_kl, span_renyi

ALPHA = 3.0
seeds = st.integers(0, 10_000)


def laws(rng, count, outcomes=4):
    return rng.dirichlet(np.ones(outcomes), count)


def linear(x):
    return np.stack([np.ones_like(x), x])


def bound(value, divergence="kl", adversary=None, **more):
    return CapacityBound(value, divergence, adversary or Polynomial(1), **more)


def of_pair(divergence, p, q, x):
    """The restricted divergence of linear critics of outcomes at x."""
    if divergence == "kl":
        return bound(span_kl(x[None], p, q))
    renyi = span_renyi(linear(x), p, q, ALPHA)
    if divergence == "renyi":
        return bound(renyi, "renyi", alpha=ALPHA)
    return bound(alpha_from_renyi(renyi, ALPHA), "alpha", alpha=ALPHA)


def together(divergence, first, second, x):
    """The same for two independent outputs and sums of linear critics."""
    p, q = (np.outer(first[i], second[i]).ravel() for i in (0, 1))
    a, b = (grid.ravel() for grid in np.meshgrid(x, x, indexing="ij"))
    if divergence == "kl":
        return span_kl(np.stack([a, b]), p, q)
    renyi = span_renyi(np.stack([np.ones_like(a), a, b]), p, q, ALPHA)
    return renyi if divergence == "renyi" else alpha_from_renyi(renyi, ALPHA)


@pytest.mark.trust(but="kl")
@pytest.mark.parametrize("divergence", ["kl", "renyi", "alpha"])
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_two_releases(divergence, seed):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(size=4))
    p1, q1, p2, q2 = laws(rng, 4)
    one, two = of_pair(divergence, p1, q1, x), of_pair(divergence, p2, q2, x)
    total = sequential([one, two])
    found = together(divergence, (p1, q1), (p2, q2), x)
    assert found <= total.value * (1 + 1e-6) + 1e-9
    if divergence == "kl":  # with constants in both classes it is an equality
        assert found == pytest.approx(total.value, rel=1e-6)
    # Disjoint parts: a change in the first leaves the second's law alone.
    apart = together(divergence, (p1, q1), (q2, q2), x)
    assert apart <= parallel([one, two]).value * (1 + 1e-6) + 1e-9
    assert apart == pytest.approx(one.value, rel=1e-5, abs=1e-9)


@pytest.mark.trust(but=["kl", "renyi"])
@pytest.mark.parametrize("divergence", ["kl", "renyi", "alpha"])
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_mixtures(divergence, seed):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(size=4))
    p1, q1, p2, q2 = laws(rng, 4)
    pair = [of_pair(divergence, p1, q1, x), of_pair(divergence, p2, q2, x)]
    mixed = of_pair(divergence, 0.3 * p1 + 0.7 * p2, 0.3 * q1 + 0.7 * q2, x)
    found = mixture(pair, [0.3, 0.7])
    assert mixed.value <= found.value * (1 + 1e-6) + 1e-9
    assert found.adversary == Polynomial(1)


def test_post_processing_by_a_square():
    # Linear critics of x^2 are quadratic critics of x.
    p, q = capacity.laplace_line(1.0, 1.0), capacity.laplace_line(0.0, 1.0)
    quadratic = bound(polynomial_kl(p, q, 2), adversary=Polynomial(2))
    found = capacity.post_process(quadratic, PolynomialMap(2))
    assert found.adversary == Polynomial(1)
    x, mass = q.rule([1.0 + 0j], 0.0)
    moved = mass * np.exp(np.abs(x) - np.abs(x - 1))
    squared = span_kl((x[None] / 9) ** 2, moved / moved.sum(), mass / mass.sum())
    assert 0 < squared <= found.value
    # What is refused would have been wrong: the square shows more than a linear critic sees.
    centred = gaussian_line(0.0, 2.0), gaussian_line(0.0, 1.0)
    assert polynomial_kl(*centred, 1) == pytest.approx(0.0, abs=1e-12)
    assert polynomial_kl(*centred, 2) > 0.8


@pytest.mark.parametrize(
    ("adversary", "mapping", "reason"),
    [
        (Polynomial(1), PolynomialMap(2), "even a linear critic has that degree"),
        (Polynomial(3), AnyMap(), "nothing is known of it"),
        (capacity.TwoLayerReLU(4), PolynomialMap(2), "not a two-layer network"),
        (RandomFeatures(8), PolynomialMap(1), "random features of a mapped output"),
        (QueryHull(), PolynomialMap(1), "need not evaluate the query"),
        (SumClass(Polynomial(2), Polynomial(2)), PolynomialMap(2), "would mix them"),
        (SumClass(capacity.TwoLayerReLU(4), Polynomial(1)), PolynomialMap(1), "mix them"),
    ],
)
def test_invalid_post_processing_is_refused_with_the_reason(adversary, mapping, reason):
    with pytest.raises(ValueError, match=reason):
        capacity.post_process(bound(0.1, adversary=adversary), mapping)


def test_valid_post_processing_keeps_the_number():
    for adversary in (Polynomial(2), capacity.TwoLayerReLU(4), capacity.Unrestricted()):
        found = capacity.post_process(bound(0.1, adversary=adversary), PolynomialMap(1))
        assert (found.value, found.adversary, found.status) == (0.1, adversary, "bound")
    free = capacity.post_process(bound(0.1, adversary=capacity.Unrestricted()), AnyMap())
    assert free.adversary == capacity.Unrestricted()


def test_refused_compositions():
    net = bound(0.1, adversary=capacity.TwoLayerReLU(4))
    with pytest.raises(ValueError, match="is not convex; bound a larger class"):
        sequential([net, net])
    few = bound(0.1, adversary=FiniteClass())
    with pytest.raises(ValueError, match="is not convex nor translation invariant"):
        parallel([few, few])
    with pytest.raises(ValueError, match="agree in divergence"):
        sequential([bound(0.1), bound(0.1, "renyi", alpha=2.0)])
    with pytest.raises(ValueError, match="agree in alpha"):
        parallel([bound(0.1, "renyi", alpha=2.0), bound(0.1, "renyi", alpha=3.0)])
    with pytest.raises(ValueError, match="agree in adjacency"):
        parallel([bound(0.1), bound(0.1, adjacency="add-remove")])
    with pytest.raises(ValueError, match="of one class"):
        mixture([bound(0.1), bound(0.1, adversary=Polynomial(2))], [0.5, 0.5])
    with pytest.raises(ValueError, match="one per bound"):
        mixture([bound(0.1)], [0.5, 0.5])
    with pytest.raises(ValueError, match="at least one bound"):
        parallel([])


def test_labels_survive():
    sure, drawn = bound(0.1), bound(0.1, status="estimate")
    printed = bound(0.1, status="printed")
    assert sequential([sure, sure]).is_guarantee
    assert not sequential([sure, drawn]).is_guarantee
    assert parallel([drawn, printed]).status == "printed"
    assert mixture([sure, printed], [0.5, 0.5]).status == "printed"
    assert capacity.post_process(printed, PolynomialMap(1)).status == "printed"
    assert sequential([bound(math.inf), sure]).value == math.inf
    free = bound(0.1, adversary=capacity.Unrestricted())
    assert sequential([free, free]).adversary == capacity.Unrestricted()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((math.nan, "kl"), "value must be a number"),
        ((0.1, "renyi"), "alpha must be given"),
        ((0.1, "renyi", Polynomial(1), 1.0), "alpha must be above 1"),
        ((0.1, "kl", Polynomial(1), 2.0), "alpha has no meaning"),
    ],
)
def test_bounds_that_make_no_sense(arguments, reason):
    value, divergence, *rest = arguments
    with pytest.raises(ValueError, match=reason):
        CapacityBound(value, divergence, *(rest or [Polynomial(1)]))
