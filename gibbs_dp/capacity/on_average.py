"""How much of a Gibbs posterior's on-average KL a restricted adversary sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from gibbs_dp.capacity.adversaries import Adversary, Polynomial, RandomFeatures, TwoLayerReLU
from gibbs_dp.capacity.critics import check_trainable
from gibbs_dp.capacity.pairs import PairPlan, PairSummary, pairs_program
from gibbs_dp.capacity.training import Training
from gibbs_dp.estimators import average
from gibbs_dp.model.check import as_key, positive_count
from gibbs_dp.model.populations import HasSample, as_population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.diagnostics import pool
from gibbs_dp.sampling.evolve import make_schedule
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.kernels import HMC, Kernel

DEFAULT_ADVERSARIES = (Polynomial(1), Polynomial(2), RandomFeatures(32), TwoLayerReLU(16))
NUM_ADAPT_ROUNDS = 6
BLOCK_SIZE = 16
LOW_ACCEPT = 0.4
# Above this, in nats, few draws carry the critics' means and their bounds fall behind.
_LOOSE_ABOVE = 1.0
# Drift of the chains: significant, and more than a tenth of a posterior standard deviation.
_DRIFT_Z, _DRIFT_SIZE = 5.0, 0.1


@dataclass(frozen=True)
class OnAverageCapacity:
    """On-average capacity-bounded KL over gamma, class by class.

    Parameters
    ----------
    gammas, n
        Inverse temperatures and dataset size.
    adversaries
        The classes.
    critics
        Per gamma, dataset and class: what the trained critic attains on fresh draws, nats.
    full
        Per gamma and dataset: unbiased for the on-average KL, from the same draws, nats.
    kept
        Datasets whose chains worked.
    warnings
        Where the numbers cannot be trusted.
    """

    gammas: tuple[float, ...]
    n: int
    adversaries: tuple[Adversary, ...]
    critics: Float[np.ndarray, "gammas datasets classes"]
    full: Float[np.ndarray, "gammas datasets"]
    kept: Bool[np.ndarray, "gammas datasets"]
    warnings: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One dict per gamma and class; every ``_se`` is over datasets.

        ``share`` is the class's part of the on-average KL, its error from paired datasets.

        Examples
        --------
        >>> found = OnAverageCapacity((1.0,), 5, (Polynomial(1),), np.array([[[0.1], [0.2]]]),
        ...                           np.array([[0.2, 0.4]]), np.ones((1, 2), bool), ())
        >>> round(found.rows()[0]["share"], 9), round(found.rows()[0]["share_se"], 9)
        (0.5, 0.0)
        """
        rows = []
        for g, gamma in enumerate(self.gammas):
            kept = self.kept[g]
            full = average(self.full[g], kept)
            for k, adversary in enumerate(self.adversaries):
                seen = average(self.critics[g, :, k], kept)
                share = seen.value / full.value if full.value > 0 else math.nan
                rest = average(self.critics[g, :, k] - share * self.full[g], kept)
                rows.append(
                    {
                        "gamma": gamma,
                        "n": self.n,
                        "num_datasets": full.num_datasets,
                        "failed_datasets": int(kept.size - kept.sum()),
                        "adversary": label(adversary),
                        "capacity_kl": seen.value,
                        "capacity_kl_se": seen.se,
                        "on_average_kl": full.value,
                        "on_average_kl_se": full.se,
                        "share": share,
                        "share_se": rest.se / abs(full.value) if full.value else math.nan,
                    }
                )
        return rows


def label(adversary: Adversary) -> str:
    """Short name of a class.

    Examples
    --------
    >>> label(Polynomial(1)), label(TwoLayerReLU(16))
    ('linear', 'two-layer ReLU, width 16')
    """
    if isinstance(adversary, Polynomial):
        return "linear" if adversary.degree == 1 else f"polynomial, degree {adversary.degree}"
    if isinstance(adversary, RandomFeatures):
        return f"kernel, {adversary.num_features} random features"
    if isinstance(adversary, TwoLayerReLU):
        return f"two-layer ReLU, width {adversary.width}"
    return type(adversary).__name__


def _nothing(_: str) -> None:
    """Say nothing."""


def on_average_capacity_kl(
    posterior: GibbsPosterior,
    population: HasSample | Callable[[PRNGKeyArray, int], Any],
    n: int,
    gammas: Sequence[float],
    adversaries: Sequence[Adversary] = DEFAULT_ADVERSARIES,
    *,
    num_datasets: int = 128,
    num_chains: int = 64,
    num_warmup: int = 32,
    num_samples: int = 64,
    num_steps: int = 200,
    key: int | PRNGKeyArray = 0,
    kernel: Kernel | Grid | None = None,
    say: Callable[[str], None] = _nothing,
) -> OnAverageCapacity:
    """On-average capacity-bounded KL of a Gibbs posterior, ``E KL^H(A(Z) || A(Z^(1)))``.

    For many datasets and each with one example replaced by a fresh one, posteriors are sampled, a
    critic of each class is trained on one half of the chains, and judged on the other. Replace-one;
    the output is one draw of theta. In expectation each number is a **lower** bound of its class's,
    and so of the on-average KL (Definition 2 of Wang, Lei & Fienberg 2016), which is estimated from
    the same draws. No number here is a guarantee.

    Parameters
    ----------
    posterior
        Loss and prior.
    population
        ``(key, n) -> examples``, or an object of ``gibbs_dp.populations``, of independent examples.
    n
        Examples per dataset.
    gammas
        Inverse temperatures, positive.
    adversaries
        Classes that can be trained: `Polynomial`, `RandomFeatures`, `TwoLayerReLU`.
    num_datasets
        Pairs of datasets per gamma, the units of every standard error; the same for every gamma.
    num_chains, num_samples
        Chains per posterior (even, at least 4) and draws kept per chain; critics want
        some thousands of draws in all.
    num_warmup
        Burn-in steps after adaptation.
    num_steps
        Training steps of a critic.
    key
        Integer seed or JAX key.
    kernel
        ``gibbs_dp.HMC()`` by default, or ``gibbs_dp.MALA()``.
    say
        Told, a line a time, what is going on.

    Raises
    ------
    ValueError
        If an argument makes no sense.
    """
    n, num_datasets = positive_count("n", n), positive_count("num_datasets", num_datasets, least=2)
    chains = positive_count("num_chains", num_chains, least=4)
    if chains % 2:
        raise ValueError(
            f"num_chains: must be even, got {chains}; half train critics and half judge them."
        )
    grid = [float(g) for g in gammas]
    if not grid or not all(math.isfinite(g) and g > 0 for g in grid):
        raise ValueError(f"gammas: must be positive and finite, got {grid}; give at least one.")
    if isinstance(kernel, Grid):
        raise ValueError("kernel: critics are trained on draws; pass HMC() or MALA(), not a Grid.")
    source = as_population(population)
    if source.is_dependent:
        raise ValueError(
            "population: its examples are dependent; give one of independent examples."
        )
    if not adversaries:
        raise ValueError("adversaries: give at least one class.")
    plan = PairPlan(
        n,
        chains,
        positive_count("num_samples", num_samples, least=4),
        tuple(check_trainable(adversary) for adversary in adversaries),
        Training(positive_count("num_steps", num_steps)),
    )
    kernel = HMC() if kernel is None else kernel
    burn_in = positive_count("num_warmup", num_warmup, least=0)
    schedule = make_schedule(kernel.default_tuning(posterior.dim), burn_in, NUM_ADAPT_ROUNDS)
    roots = jax.random.split(as_key(key), 2)
    parts, warnings = [], []
    program = pairs_program(jax.default_backend())
    for gamma in grid:
        say(f"gamma={gamma:g}: sampling {num_datasets} pairs of posteriors, training critics")
        blocks = [
            jax.tree.map(
                np.asarray,
                program(
                    posterior,
                    kernel,
                    plan,
                    source,
                    roots,
                    jnp.arange(first, first + BLOCK_SIZE),
                    jnp.asarray(gamma, jnp.zeros(()).dtype),
                    schedule,
                ),
            )
            for first in range(0, num_datasets, BLOCK_SIZE)
        ]
        joined = jax.tree.map(lambda *a: np.concatenate(a)[:num_datasets], *blocks)
        parts.append(joined)
        warnings += _warnings(gamma, joined, plan)
    return OnAverageCapacity(
        tuple(grid),
        n,
        plan.adversaries,
        np.stack([part.critics for part in parts]).astype(np.float64),
        np.stack([part.full for part in parts]).astype(np.float64),
        np.stack([part.is_finite & ~part.is_stuck for part in parts]),
        tuple(warnings),
    )


def _warnings(gamma: float, part: PairSummary, plan: PairPlan) -> list[str]:
    kept = part.is_finite & ~part.is_stuck
    found = []
    if not kept.all():
        found.append(
            f"gamma={gamma:g}: the chains of {int((~kept).sum())} of {kept.size} pairs failed; the "
            "rest is a biased selection."
        )
    accept = float(np.mean(part.accept_prob))
    if accept < LOW_ACCEPT:
        found.append(f"gamma={gamma:g}: only {accept:.0%} of proposals were accepted.")
    full = float(np.mean(part.full[kept])) if kept.any() else 0.0
    if full > _LOOSE_ABOVE:
        found.append(
            f"gamma={gamma:g}: at an on-average KL of {full:.2g} nats trained critics fall well "
            "short of their class; raise num_samples, or read them as loose lower bounds."
        )
    pooled = pool(part.spread, plan.num_chains, plan.num_samples)
    if pooled.drift_z > _DRIFT_Z and pooled.drift_size > _DRIFT_SIZE:
        found.append(f"gamma={gamma:g}: the chains still drift; raise num_warmup.")
    return found
