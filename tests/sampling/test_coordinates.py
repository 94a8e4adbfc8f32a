"""Names of the numbers of a parameter, whatever tree it is."""

from typing import NamedTuple

import jax
import numpy as np
import pytest

import gibbs_dp as gdp
from gibbs_dp.sampling.diagnostics import named_leaves


def as_class(*names):
    """Make a class whose attributes are parts of a tree, as libraries of networks have them."""

    class Part:
        def __init__(self, *values):
            for name, value in zip(names, values, strict=True):
                setattr(self, name, value)

        def __call__(self, x):
            raise AssertionError("a prior of this shape is no function of its other parts")

    jax.tree_util.register_pytree_with_keys(
        Part,
        lambda p: ([(jax.tree_util.GetAttrKey(n), getattr(p, n)) for n in names], None),
        lambda _, values: Part(*values),
    )
    return Part


Layer, Network = as_class("weight", "bias"), as_class("layers")
Variable, Pair = as_class("value"), as_class("value", "weight")


class Point(NamedTuple):
    x: float
    value: float


NAMES = {
    "array": (1.0, ["theta"]),
    "dict": ({"a": [1.0, 2.0]}, ["a.0", "a.1"]),
    "named tuple": (Point(1.0, 2.0), ["x", "value"]),
    "classes": (
        Network([Layer(1.0, 2.0), Layer(3.0, 4.0)]),
        ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"],
    ),
    "variables": (
        {"out": {"kernel": Variable(1.0), "bias": Variable(2.0)}},
        ["out.bias", "out.kernel"],
    ),
    "values beside others": ({"out": Pair(1.0, 2.0)}, ["out.value", "out.weight"]),
}


@pytest.mark.parametrize("case", NAMES)
def test_leaves_are_named_by_the_way_to_them(case):
    tree, names = NAMES[case]
    assert [name for name, _ in named_leaves(tree)] == names


@pytest.mark.trust
def test_draws_of_a_class_show_its_names_and_come_back_as_one():
    def loss(theta, z):
        return 0.5 * (theta.layers[0].weight @ z[:2] + theta.layers[0].bias - z[2]) ** 2

    params = Network([Layer(np.zeros(2, np.float32), np.float32(0.0))])
    posterior = gdp.GibbsPosterior(loss, gdp.priors.normal_like(params, 0.5))
    draws = gdp.sample(posterior, np.ones((3, 3), np.float32), num_samples=50)
    assert isinstance(draws.theta, Network)
    names = ["layers.0.weight[0]", "layers.0.weight[1]", "layers.0.bias"]
    assert list(draws.to_dataframe().index) == names


def test_parameters_in_place_of_a_prior_are_refused_as_such():
    params = Network([Layer(np.zeros(2, np.float32), np.float32(0.0))])
    with pytest.raises(ValueError, match="every leaf must be a NumPyro distribution"):
        gdp.GibbsPosterior(lambda theta, z: 0.0, params)


def test_counters_among_parameters_are_named_with_their_type():
    params = {"weight": np.zeros(2), "count": np.uint32(3)}
    with pytest.raises(ValueError, match=r"\['count'\] is of uint32, no array of floating-point"):
        gdp.priors.normal_like(params)
