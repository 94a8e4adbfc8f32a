"""Everything an audit depends on, validated in one place."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from gibbs_dp._jaxlib.compile import program
from gibbs_dp._version import __version__
from gibbs_dp.audit.key_use import check_key_is_used
from gibbs_dp.audit.plan import Plan
from gibbs_dp.audit.sizes import datasets_at_once
from gibbs_dp.model.check import check_loss, positive_count
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.populations import Population, Table
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.grid import Grid
from gibbs_dp.sampling.kernels import Kernel, Unadjusted
from gibbs_dp.sampling.locate import MAX_LAPLACE_DIM

NUM_PROPOSALS = 256
# Over all gammas: from there on a program that is compiled for twice as long, a second or two more,
# is worth it.
MANY_DATASETS = 65_536
# Datasets compared for mutual information by default, and the fewest that say anything.
DEFAULT_INFORMATION, MIN_INFORMATION = 1024, 32
Estimator = Literal["auto", "one-sided", "two-sided", "ghost"]


@dataclass(frozen=True)
class Settings:
    """A validated audit: what to sample, how much of it, and how."""

    posterior: GibbsPosterior
    population: Population
    n: int
    gammas: tuple[float, ...]
    num_datasets: int
    num_ghosts: int
    key: PRNGKeyArray
    kernel: Kernel | Unadjusted | Grid
    num_chains: int
    num_warmup: int | None
    num_samples: int
    group_size: int
    rel_error: float | None
    max_datasets: int
    domain: Domain | None
    estimator: Estimator
    block_size: int
    num_information: int
    sigma: float | Literal["empirical"] | None

    @property
    def plan(self) -> Plan:
        """Shape of the block program; normalizers are for information estimates only."""
        return Plan(
            self.n,
            self.num_ghosts,
            self.group_size,
            self.num_chains,
            self.num_samples,
            NUM_PROPOSALS if self.num_information else 0,
        )

    @property
    def num_draws(self) -> int:
        """Draws kept of a dataset's posterior."""
        return self.num_chains * self.num_samples

    @property
    def is_exact(self) -> bool:
        """Whether posteriors are summed over a grid rather than sampled."""
        return isinstance(self.kernel, Grid)

    @property
    def is_unadjusted(self) -> bool:
        """Whether the chains have no acceptance step, and so a bias."""
        return isinstance(self.kernel, Unadjusted)

    @property
    def is_brief(self) -> bool:
        """Whether compiling in full would cost more than it saves in running.

        A quadratic loss computes little that the quick program is slow at.
        """
        return self.posterior.is_quadratic and len(self.gammas) * self.num_datasets < MANY_DATASETS

    @property
    def num_at_once(self) -> int:
        """Datasets of a block that a CPU works on at once: what its caches hold, a divisor."""
        s = self
        return datasets_at_once(
            s.posterior, s.n, s.num_ghosts, s.num_chains, s.num_samples, s.block_size
        )

    def describe(self) -> dict[str, Any]:
        """Plain numbers and strings, for the saved report."""
        loss = self.posterior.loss or self.posterior.total_loss
        return {
            "loss": getattr(loss, "__name__", None) or type(loss).__name__,
            "structured": self.posterior.structured,
            "population": type(self.population).__name__,
            "n": self.n,
            "num_datasets": self.num_datasets,
            "num_ghosts": self.num_ghosts,
            "kernel": repr(self.kernel),
            "num_chains": self.num_chains,
            "num_warmup": "auto" if self.num_warmup is None else self.num_warmup,
            "num_samples": self.num_samples,
            "group_size": self.group_size,
            "rel_error": self.rel_error if self.rel_error is not None else "none",
            "estimator": self.estimator,
            "gammas": list(self.gammas),
            "max_datasets": self.max_datasets,
            "num_information": self.num_information,
            "sigma": "declared range" if self.sigma is None else self.sigma,
            "block_size": self.block_size,
            "domain": repr(self.domain),
            "supports": [repr(s) for s in self.posterior.prior.supports],
            "key": np.asarray(jax.random.key_data(self.key)).tolist(),
            "versions": versions(),
            "dtype": str(jnp.zeros(()).dtype),
        }


def versions() -> dict[str, str]:
    """Versions of what computed the numbers."""
    names = ("jax", "jaxlib", "numpyro", "numpy", "scipy")
    return {"gibbs_dp": __version__} | {n: importlib.metadata.version(n) for n in names}


def check_gammas(gammas: ArrayLike | float | Sequence[float]) -> tuple[float, ...]:
    """Sort and check a grid of inverse temperatures.

    Raises
    ------
    ValueError
        If it is empty, repeats a value, or holds one that is negative, NaN or infinite.
    """
    try:
        table = np.atleast_1d(np.asarray(gammas, dtype=float))
    except (TypeError, ValueError):
        table = np.zeros((0, 0))
    if table.ndim != 1:
        raise ValueError(f"gammas: give a list of numbers, got {gammas!r:.60}.")
    values = [float(g) for g in table]
    if not values:
        raise ValueError("gammas: the grid is empty; give at least one value.")
    for g in values:
        if not (math.isfinite(g) and g >= 0):
            raise ValueError(f"gammas: {g:g} is not a finite number >= 0.")
    if len(set(values)) < len(values):
        raise ValueError("gammas: a value is repeated; give each once.")
    return tuple(sorted(values))


def check_examples(
    posterior: GibbsPosterior, population: Population, n: int, num_ghosts: int, key: PRNGKeyArray
) -> PyTree:
    """Draw one dataset and check that population, loss and prior fit together.

    Returns the drawn training examples.

    Raises
    ------
    ValueError
        If examples are not finite or misshapen, labels do not suit the loss, or the loss is not
        one finite number per example.
    """
    if isinstance(population, Table):
        population.check_size(n, num_ghosts)
        if isinstance(posterior.loss, Loss):
            posterior.loss.check_data(population.data)
    try:
        # One small program: operation by operation, a dozen of them would be compiled.
        draw = program(_draw, ("n", "num_ghosts"), jax.default_backend(), is_quick=True)
        train, ghosts = draw(population, key, n, num_ghosts)
    except TypeError as error:
        raise ValueError(
            f"population: sampling failed ({error}); a callable takes (key, n) and returns "
            "examples with leading axis n."
        ) from error
    for name, examples, size in (("train", train, n), ("ghosts", ghosts, num_ghosts)):
        shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(examples)]
        if not shapes or any(not s or s[0] != size for s in shapes):
            raise ValueError(
                f"population: asked for {size} {name} examples, got arrays of shapes {shapes}; "
                "the leading axis must be the number of examples."
            )
        for leaf in jax.tree.leaves(examples):
            if not np.isfinite(np.asarray(leaf)).all():  # NumPy: nothing to compile
                raise ValueError("population: it produced NaN or infinite examples.")
    check_key_is_used(population, key, n, num_ghosts)
    check_loss(posterior, train, n)
    return train


def _draw(population: Population, key: PRNGKeyArray, n: int, num_ghosts: int) -> PyTree:
    return population.sample(key, n, num_ghosts)


def check_information(value: int | None, num_datasets: int, dim: int) -> int:
    """Return how many datasets to compare for mutual information; see ``audit``.

    Raises
    ------
    ValueError
        If it is out of range, or theta has too many coordinates.
    """
    if value is None:
        value = min(num_datasets, DEFAULT_INFORMATION)
        return value if value >= MIN_INFORMATION and dim <= MAX_LAPLACE_DIM else 0
    value = positive_count("num_information", value, least=0)
    if value == 0:
        return 0
    if value < MIN_INFORMATION or value > num_datasets:
        raise ValueError(
            f"num_information: must be 0 or between {MIN_INFORMATION} and num_datasets "
            f"({num_datasets}), got {value}."
        )
    if dim > MAX_LAPLACE_DIM:
        raise ValueError(
            f"num_information: normalizers are out of reach for {dim} coordinates (at most "
            f"{MAX_LAPLACE_DIM}); pass num_information=0."
        )
    return value


def check_sigma(sigma: float | str | None) -> float | Literal["empirical"] | None:
    """Return the subgaussian parameter; see ``audit``.

    Raises
    ------
    ValueError
        Unless it is positive, "empirical" or None.
    """
    if sigma is None:
        return None
    if sigma == "empirical":
        return "empirical"
    if isinstance(sigma, str) or not (math.isfinite(sigma) and sigma > 0):
        raise ValueError(f"sigma: must be a positive number or 'empirical', got {sigma!r}.")
    return float(sigma)
