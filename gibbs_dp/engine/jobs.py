"""What is asked for and what is to be run: blocks of posteriors, and sheets of them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray

from gibbs_dp._version import __version__
from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.engine.sizes import datasets_at_once, power_of_two
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.populations import Population
from gibbs_dp.model.populations.own import population_name
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.laplace import MAX_ITERATIONS
from gibbs_dp.sampling.sampler import Sampler
from gibbs_dp.sampling.schedule import Counts

# Steps of every mode search: of pilots, which start anywhere, and of others, which start where
# pilots have been. Where they do not suffice the search takes up to as many as it ever does.
NEWTON_FROM_ANYWHERE, NEWTON_FROM_NEAR = 16, 8


class Job(NamedTuple):
    """One block of posteriors at one gamma.

    Attributes
    ----------
    tag
        The caller's name for it.
    roots
        Random keys of the data and of the chains.
    first, size
        Number of the first posterior, and how many.
    plan, inputs
        What to run.
    period
        After how many posteriors the datasets begin again, sampled with new chains; 0: never.
    """

    tag: Any
    roots: Key[Array, 2]
    first: int
    size: int
    plan: Plan
    inputs: Inputs
    period: int = 0

    @property
    def numbers(self) -> Int[np.ndarray, "2 block"]:
        """Numbers of the datasets, and of the chains."""
        chains = np.arange(self.first, self.first + self.size, dtype=np.int32)
        return np.stack([chains % self.period if self.period else chains, chains])

    @property
    def datasets(self) -> tuple[Any, ...]:
        """What jobs on the same datasets have in common."""
        roots = np.asarray(jax.random.key_data(self.roots)).tobytes()
        return roots, self.first, self.size, self.period


class Sheet(NamedTuple):
    """Jobs that one call of a program does: the same datasets, a gamma each.

    Attributes
    ----------
    jobs
        What they are.
    plan
        Of the program.
    width
        Gammas that the program is for: at least as many as there are jobs.
    path
        Of a sampler that goes along a path: inputs at all of its gammas, increasing.
    """

    jobs: tuple[Job, ...]
    plan: Plan
    width: int = 1
    path: tuple[Inputs, ...] = ()

    @property
    def name(self) -> tuple[Any, ...]:
        """What a program is compiled for."""
        return self.plan, self.width, self.jobs[0].size


def each_alone(jobs: Iterable[Job]) -> Iterator[Sheet]:
    """One call for each job."""
    return (Sheet((job,), job.plan) for job in jobs)


def arranged(jobs: Iterable[Job]) -> list[Sheet]:
    """Put jobs on the same datasets, and of the same static counts, together.

    A program is for a power of two of gammas, so that few are compiled while gammas finish.
    """
    groups = _on_same_datasets((job, with_counts(job.plan, job.inputs)) for job in jobs)
    return [Sheet(found, plan, power_of_two(len(found))) for plan, found in groups]


def along(path: Sequence[Inputs], jobs: Iterable[Job]) -> list[Sheet]:
    """Put jobs on the same datasets together, with the whole path to each of their gammas.

    At gammas that no job asks for, particles pass.
    """
    sheets = []
    for plan, found in _on_same_datasets((job, job.plan) for job in jobs):
        asked = {float(job.inputs.gamma): job.inputs for job in found}
        whole = tuple(asked.get(float(inputs.gamma), inputs) for inputs in path)
        sheets.append(Sheet(found, plan, len(path), whole))
    return sheets


def _on_same_datasets(jobs: Iterable[tuple[Job, Plan]]) -> list[tuple[Plan, tuple[Job, ...]]]:
    """Group jobs by their datasets and plans, in order."""
    together: dict[Any, list[Job]] = {}
    for job, plan in jobs:
        together.setdefault((job.datasets, plan), []).append(job)
    return [(plan, tuple(found)) for (_, plan), found in together.items()]


def with_counts(plan: Plan, inputs: Inputs) -> Plan:
    """Fix a plan's counts at what the inputs say."""
    (_, num_inner), num_burn_in, num_rounds = inputs.schedule.on_host
    is_far = bool(inputs.is_dispersed) or bool(np.any(inputs.spread))
    newton = NEWTON_FROM_ANYWHERE if is_far else NEWTON_FROM_NEAR
    counts = Counts(num_inner, num_burn_in, num_rounds, newton)
    return plan._replace(counts=counts, num_pairs=int(inputs.num_pairs))


def searching_longer(sheet: Sheet) -> Sheet | None:
    """Return the sheet with the longest search for modes; None where it has that already."""
    counts = sheet.plan.counts
    if counts is None or counts.num_newton >= MAX_ITERATIONS:
        return None
    longest = counts._replace(num_newton=MAX_ITERATIONS)
    return sheet._replace(plan=sheet.plan._replace(counts=longest))


# What a sweep is asked for, whatever is learnt from it.

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
    domain: Domain | None = None

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
