"""One object for equal posteriors, so that releases compile once; another for any other."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp.privacy.releases.arguments import without_checks

BALL = gdp.supports.l2_ball(2, 1.0)


class Weighted:
    """A loss with an array, which has no hash."""

    __hash__ = None

    def __init__(self):
        self.weights = np.ones(2)

    def __eq__(self, other):
        return isinstance(other, Weighted)

    def __call__(self, theta, z):
        return jnp.sum(self.weights * (theta - z) ** 2)


def distance(theta, z):
    return jnp.sum((theta["b"] - z) ** 2) + theta["a"] ** 2


SAME = {
    "ball": lambda: (gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0))),
    "box": lambda: (gdp.losses.logistic, gdp.Flat(gdp.supports.box(-1.0, 1.0, 2))),
    "huber": lambda: (gdp.losses.Huber(0.5), gdp.Flat(gdp.supports.l2_ball(2, 1.0))),
    "normal": lambda: (gdp.losses.logistic, dist.Normal(jnp.zeros(2), 2.0).to_event(1)),
    "dict": lambda: (distance, {"a": dist.Normal(0.0, 1.0), "b": gdp.Flat(BALL)}),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_posteriors_are_one(name):
    one, other = (gdp.GibbsPosterior(*SAME[name]()) for _ in range(2))
    assert one is not other
    assert without_checks(one) is without_checks(other)


OTHERS = {
    "loss": (gdp.losses.squared, gdp.Flat(gdp.supports.l2_ball(2, 1.0))),
    "radius": (gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 2.0))),
    "dimension": (gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(3, 1.0))),
    "rows": (gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball((1, 2), 1.0))),
    "law": (gdp.losses.logistic, dist.Uniform(-1.0, 1.0).expand([2]).to_event(1)),
    "scale": (gdp.losses.logistic, dist.Normal(jnp.zeros(2), 1.0).to_event(1)),
    "center": (gdp.losses.logistic, dist.Normal(jnp.ones(2), 2.0).to_event(1)),
    "low": (gdp.losses.logistic, gdp.Flat(gdp.supports.box(-1.5, 1.0, 2))),
}


def test_other_posteriors_are_others():
    found = [gdp.GibbsPosterior(*parts) for parts in OTHERS.values()]
    found += [gdp.GibbsPosterior(*make()) for make in SAME.values()]
    assert len({id(without_checks(posterior)) for posterior in found}) == len(found)


def test_what_has_no_value_is_itself():
    """Losses without a hash, and priors that are functions of their parts."""
    conditional = {"s": dist.HalfNormal(1.0), "t": lambda e: dist.Normal(0.0, e["s"])}
    for loss, prior in ((Weighted(), gdp.Flat(BALL)), (distance, conditional)):
        one, other = gdp.GibbsPosterior(loss, prior), gdp.GibbsPosterior(loss, prior)
        assert without_checks(one) is without_checks(one)
        assert without_checks(one) is not without_checks(other)
