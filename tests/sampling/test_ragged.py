"""Datasets of different length in one call, against the conjugate posterior of each."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import gibbs_dp as gdp
from gibbs_dp._jaxlib.compile import program
from gibbs_dp.sampling.sample import STATIC, _sample_batch_of

RNG = np.random.default_rng(0)
LENGTHS = (3, 11, 6)
DATASETS = [RNG.normal(1.0, size=(n, 2)) for n in LENGTHS]
POSTERIOR = gdp.GibbsPosterior(gdp.losses.half_squared_distance, dist.Normal(0.0, jnp.ones(2)))


def draw(datasets):
    data, mask = gdp.populations.pad(datasets)
    data = jnp.where(mask[..., None], data, 1e6)  # whatever stands in the padding
    return gdp.sample(POSTERIOR, data, mask=mask, is_batch=True, num_samples=1000)


def programs():
    """How many were compiled to sample with."""
    return program(_sample_batch_of, STATIC, "cpu", True).jitted._cache_size()


@pytest.mark.trust
def test_each_dataset_has_its_own_posterior_and_lengths_compile_nothing():
    draws = draw(DATASETS)
    compiled = programs()
    again = draw(DATASETS[::-1])
    assert programs() == compiled
    for found, order in ((draws, DATASETS), (again, DATASETS[::-1])):
        for theta, z in zip(found.theta, order, strict=True):
            precision = len(z) + 1  # N(0, 1) prior, gamma = 1
            flat = theta.reshape(-1, 2)
            # 4 standard errors, as if a tenth of 4000 draws were independent: far below 1e-4.
            error = 4 / np.sqrt(precision * 400)
            np.testing.assert_allclose(flat.mean(axis=0), z.sum(axis=0) / precision, atol=error)
            np.testing.assert_allclose(flat.var(axis=0) * precision, 1.0, atol=4 * (2 / 400) ** 0.5)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((2, 3)), r"mask: shape \(2, 3\) for examples of shape \(4,\)"),
        ([1, 2, 0, 1], "values must be 0 and 1"),
        (np.zeros(4), "no example left"),
    ],
)
def test_masks_that_do_not_fit_are_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        gdp.sample(POSTERIOR, np.zeros((4, 2)), mask=np.asarray(mask))


def test_structured_losses_have_no_examples_to_mask():
    whole = gdp.GibbsPosterior(
        total_loss=lambda theta, z: jnp.sum((z.mean(axis=0) - theta) ** 2), prior=dist.Normal()
    )
    with pytest.raises(ValueError, match="not a sum over examples"):
        gdp.sample(whole, np.zeros((4, 1)), mask=np.ones(4))


def test_only_lengths_may_differ():
    with pytest.raises(ValueError, match="differ by more than their length"):
        gdp.populations.pad([np.zeros((3, 2)), np.zeros((3, 1))])
    with pytest.raises(ValueError, match="the list is empty"):
        gdp.populations.pad([])
