"""A kernel of one's own that aims at few acceptances is tuned to them, and not warned of."""

from dataclasses import dataclass
from typing import NamedTuple

import flat
import jax
import numpy as np
import pytest
from problems import QUICK, gaussian_examples, gaussian_mean

import gibbs_dp as gdp
from gibbs_dp.sampling.as_sampler import as_sampler
from gibbs_dp.sampling.kernels.base import metropolis


class Place(NamedTuple):
    position: jax.Array
    potential: jax.Array


@dataclass(frozen=True)
class RandomWalk(gdp.Kernel):
    scale: float = 3.5
    target_accept: float = 0.3

    def default_tuning(self, dim):
        return self.scale / dim**0.5, 16

    def init(self, key, position, potential):
        return Place(position, potential(position))

    def step(self, key, state, potential, tuning):
        def one(i, carry):
            at, _ = carry
            walk, coin = jax.random.split(jax.random.fold_in(key, i))
            there = at.position + tuning.step_size * jax.random.normal(walk, at.position.shape)
            proposal = Place(there, potential(there))
            log_ratio = at.potential - proposal.potential
            return metropolis(jax.random.uniform(coin), at, proposal, log_ratio)

        return jax.lax.fori_loop(1, tuning.num_inner, one, one(0, (state, None)))


@pytest.mark.trust
def test_an_audit_follows_the_declared_target():
    report = flat.audit(
        gaussian_mean(2, 1.0),
        gaussian_examples(2),
        20,
        [1.0],
        num_datasets=128,
        kernel=RandomWalk(),
        **QUICK,
    )
    assert 0.25 < report["accept_rate"][0] < 0.4
    assert not [w for w in report.warnings if w.endswith("[low-acceptance]")]
    # Posterior precision 21: each coordinate of a mean moves by (z - z') / 21.
    truth = 2 * 2 * 21 / (2 * 21**2)
    assert abs(report["on_average_kl"][0] - truth) < 4 * report["on_average_kl_se"][0]


def test_samples_need_no_adaptation_at_the_declared_target():
    posterior, data = gaussian_mean(2, 1.0), np.zeros((20, 2), np.float32)
    draws = gdp.sample(posterior, data, sampler=RandomWalk(2.4), num_samples=200)
    assert not draws.settings["is_adapted"]
    assert 0.25 < draws.accept_rate.mean() < 0.45


@pytest.mark.parametrize(
    ("kernel", "least"),
    [
        (gdp.HMC(), 0.5),
        (gdp.MALA(), 0.5),
        (gdp.UnderdampedLangevin(), 0.5),
        (gdp.ULA(), 0.5),
        (RandomWalk(), 0.25),
    ],
)
def test_kernels_of_the_library_keep_their_limit(kernel, least):
    assert as_sampler(kernel).least_accept == pytest.approx(least, abs=1e-15)
