"""What a sweep is asked for, whatever is learnt from it."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from gibbs_dp._version import __version__
from gibbs_dp.engine.plan import Plan
from gibbs_dp.engine.sizes import datasets_at_once
from gibbs_dp.model.populations import Population
from gibbs_dp.model.populations.own import population_name
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.sampler import Sampler

# Over all gammas: from there on a program that is compiled for twice as long, a second or two more,
# is worth it.
MANY_DATASETS = 65_536


@dataclass(frozen=True)
class Asked:
    """What to sample, how much of it, and how; validated."""

    posterior: GibbsPosterior
    population: Population
    n: int
    gammas: tuple[float, ...]
    num_datasets: int
    num_ghosts: int
    key: PRNGKeyArray
    sampler: Sampler
    num_chains: int
    num_warmup: int | None
    num_samples: int
    group_size: int
    rel_error: float | None
    max_datasets: int
    block_size: int

    @property
    def plan(self) -> Plan:
        """Shape of the block program."""
        return Plan(self.n, self.num_ghosts, self.group_size, self.num_chains, self.num_samples)

    @property
    def num_draws(self) -> int:
        """Draws kept of a dataset's posterior."""
        return self.num_chains * self.num_samples

    @property
    def is_exact(self) -> bool:
        """Whether posteriors are summed over rather than sampled."""
        return self.sampler.traits.is_exact

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
            "population": population_name(self.population),
            "n": self.n,
            "num_datasets": self.num_datasets,
            "num_ghosts": self.num_ghosts,
            "kernel": repr(self.sampler),
            "num_chains": self.num_chains,
            "num_warmup": "auto" if self.num_warmup is None else self.num_warmup,
            "num_samples": self.num_samples,
            "group_size": self.group_size,
            "rel_error": self.rel_error if self.rel_error is not None else "none",
            "gammas": list(self.gammas),
            "max_datasets": self.max_datasets,
            "block_size": self.block_size,
            "supports": [repr(s) for s in self.posterior.prior.supports],
            "key": np.asarray(jax.random.key_data(self.key)).tolist(),
            "versions": versions(),
            "dtype": str(jnp.zeros(()).dtype),
        }


def versions() -> dict[str, str]:
    """Versions of what computed the numbers."""
    names = ("jax", "jaxlib", "numpyro", "numpy", "scipy")
    return {"gibbs_dp": __version__} | {n: importlib.metadata.version(n) for n in names}
