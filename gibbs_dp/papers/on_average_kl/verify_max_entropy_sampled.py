"""Moving the draws of a Gibbs posterior never lowers ``gamma E L + KL(law || prior)``.

An affine map changes the entropy by the logarithm of its determinant, whatever the law is, so that
the change of the objective needs neither a density of the draws nor a normalizer. That draws of
another law (another temperature, say) can be moved downhill is what gives the check its power.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PyTree

from gibbs_dp.model import GibbsPosterior
from gibbs_dp.papers.on_average_kl.verify import WANG
from gibbs_dp.papers.verify.check import Z_LIMIT, Check
from gibbs_dp.problems.logistic_regression import logistic_regression
from gibbs_dp.sampling.sample import sample

DIM, N, GAMMA = 3, 40, 1.0
NUM_CHAINS, NUM_SAMPLES, NUM_WARMUP = 64, 48, 64
NUM_MAPS, SIZES = 12, (0.05, 0.3)


class Change(NamedTuple):
    """Change of the objective by a map, in nats, with its standard error over chains."""

    value: float
    se: float


def changes(
    posterior: GibbsPosterior,
    data: PyTree,
    gamma: float,
    draws: Float[np.ndarray, "chains samples dim"],
    seed: int = 0,
) -> list[Change]:
    """Change of ``gamma E L + KL(law || prior)`` as draws are moved by random affine maps.

    Parameters
    ----------
    posterior
        Over a vector without constraints.
    data, gamma
        Examples and inverse temperature of the objective.
    draws
        Draws of independent chains, which need not be of this posterior.
    seed
        Of the maps: shifts, scales and shears, small and large, in units of the draws' spread.

    Returns
    -------
    list of Change
        One a map; of a Gibbs posterior's own draws none is negative but for errors.
    """
    rng = np.random.default_rng(seed)
    points = draws.astype(np.float64)
    flat = points.reshape(-1, points.shape[-1])
    center, spread = flat.mean(axis=0), flat.std(axis=0)
    density = jax.jit(jax.vmap(jax.vmap(lambda t: posterior.log_density(t, data, gamma))))
    before = np.asarray(density(draws), np.float64)
    found = []
    eye = np.eye(center.size)
    # Scales of all coordinates, both ways, beside maps of random directions.
    maps = [(sign * size * eye, 0 * center) for size in SIZES for sign in (-1.0, 1.0)]
    for index in range(NUM_MAPS):
        size = SIZES[index % len(SIZES)] / math.sqrt(center.size)
        maps.append((size * rng.normal(size=eye.shape), size * rng.normal(size=center.size)))
    for shear, shift in maps:
        move = eye + shear
        moved = center + spread * (((points - center) / spread) @ move.T + shift)
        after = np.asarray(density(moved.astype(draws.dtype)), np.float64)
        of_chain = (before - after).mean(axis=1) - np.linalg.slogdet(move)[1]
        se = of_chain.std(ddof=1) / math.sqrt(of_chain.size)
        found.append(Change(float(of_chain.mean()), float(se)))
    return found


def moved_checks() -> list[Check]:
    """Check the draws of a logistic regression; the change that is lowest for its error is kept."""
    problem = logistic_regression(dim=DIM)
    data, _ = problem.population.sample(jax.random.key(1), N, 1)
    draws = sample(
        problem.posterior,
        data,
        gamma=GAMMA,
        key=2,
        num_chains=NUM_CHAINS,
        num_samples=NUM_SAMPLES,
        num_warmup=NUM_WARMUP,
    )
    checks = []
    for change in changes(problem.posterior, data, GAMMA, np.asarray(draws.theta)):
        z = change.value / change.se
        checks.append(
            Check(
                "no move of the draws lowers gamma E L + KL(law || prior)",
                WANG,
                "logistic regression, sampled",
                "<=",
                0.0,
                change.value,
                -change.value,
                change.se,
                -z,
                Z_LIMIT,
                -z <= Z_LIMIT,
            )
        )
    return checks
