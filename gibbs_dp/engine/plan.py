"""What is to be run: how much, what goes into a block program, and blocks of posteriors."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from gibbs_dp._jaxlib.devices import is_accelerator, memory_of_a_program, platform
from gibbs_dp._version import __version__
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.populations import Population, Table
from gibbs_dp.model.populations.base import population_name
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.base import Schedule
from gibbs_dp.sampling.laplace import MAX_LAPLACE_DIM
from gibbs_dp.sampling.modes import Modes
from gibbs_dp.sampling.sampler import Sampler
from gibbs_dp.sampling.smc_particles import Segment

# How much of an audit is drawn and computed at once, by default.

NUM_GHOSTS, NUM_SWAPS, NUM_WHOLE_GHOSTS = (64, 256), 64, 16
# Datasets that settings are tuned on, each sampled twice: a CPU's block, and fewer where every
# posterior costs seconds, or has one mode by what is declared, so that none is looked for.
NUM_PILOTS, FEW_PILOTS = 32, 16
# Pairs of a dataset whose replaced posteriors are sampled for the two-sided estimate, at least and
# at most; pilots say how many are worth it.
LEAST_PAIRS, MOST_PAIRS = 2, 8
# Losses of all draws that stay in a core's cache, and the fewest datasets that are worth a loop
# where their losses are few enough for memory that is at hand. Memory that is touched for the first
# time is what a short audit waits for.
CACHED_NUMBERS, LEAST_AT_ONCE, LOOP_NUMBERS = 2**19, 8, 2**22
# What fits a laptop's memory beside everything else, should a loss keep all that it may.
KEPT_NUMBERS = 2**25
# Losses of all draws in a block of a CPU.
BLOCK_NUMBERS = 2**23
# Posteriors that keep a GPU busy, and numbers they need together (half a GB; a program that turns
# out to be larger than its device is halved): pilots fill a block, and wait for all of it. Datasets
# of a file of a store.
POSTERIORS_AT_ONCE, NUMBERS_AT_ONCE, STORED_HEIGHT = 2**13, 2**27, 1024
# Bytes that a posterior takes there at least, as compiled for an H100: fused or not, chains, their
# noise and what leaves the program.
BYTES_OF_A_POSTERIOR = 200_000
# Datasets at one gamma from where larger blocks are worth waiting for.
LONG_AUDIT = 4096


def default_ghosts(posterior: GibbsPosterior, population: Population, n: int) -> int:
    """Fresh examples per dataset: most of an estimate's variance is theirs until they are many.

    As many as examples, between 64 and 256. For structured losses 64, each of which is swapped into
    the dataset by itself; fewer where a ghost is a whole dataset, or where a table has no more rows
    to spare.
    """
    if population.is_dependent:
        return NUM_WHOLE_GHOSTS
    wanted, others = min(max(n, NUM_GHOSTS[0]), NUM_GHOSTS[1]), n
    if posterior.structured:
        wanted, others = NUM_SWAPS, 2 * n  # and a fresh dataset for the population risk
    if isinstance(population, Table) and population.is_conditional:
        return max(1, min(wanted, population.num_rows - others))
    return wanted


def default_block_size(
    posterior: GibbsPosterior,
    n: int,
    num_ghosts: int,
    num_chains: int,
    num_samples: int,
    num_datasets: int,
    is_stored: bool = False,
    num_gammas: int = 1,
) -> int:
    """Datasets per block: what a call to a CPU, or a file, is worth, or what fills a GPU.

    A short audit waits for its first blocks; of a long one, a call's overhead would be a fifth.
    A store keeps to one size, however many datasets are added to it. A GPU takes no more datasets
    than were asked for, and no more than its memory holds, at all gammas where a sampler goes along
    them: a program that turns out to be larger is compiled again.
    """
    numbers = _numbers(posterior, n, num_ghosts, num_chains, num_samples)
    if is_accelerator(platform()):
        width = power_of_two(num_gammas)
        wanted = STORED_HEIGHT if is_stored else power_of_two(num_datasets)
        each = numbers[1] + _hessian_numbers(posterior.dim, n)
        fitting = min(POSTERIORS_AT_ONCE, NUMBERS_AT_ONCE // each)
        if not is_stored:  # whose size is part of the store, on whatever device
            bytes_of_one = max(BYTES_OF_A_POSTERIOR, 4 * each)
            fitting = int(min(fitting, memory_of_a_program() // bytes_of_one))
        fitting //= width
        return min(wanted, whole_power_of_two(fitting))
    is_long = num_datasets >= LONG_AUDIT
    largest = 64 if is_stored else 128 if is_long else 32
    if posterior.dim > MAX_LAPLACE_DIM:
        largest = min(largest, FEW_PILOTS)  # pilots fill a block, and no more
    return min(largest, whole_power_of_two(BLOCK_NUMBERS // numbers[0]))


def power_of_two(count: int) -> int:
    """Smallest power of two that is not smaller."""
    return 1 << max(0, count - 1).bit_length()


def whole_power_of_two(count: int) -> int:
    """Largest power of two that is not larger, and at least 1."""
    return 1 << max(0, count.bit_length() - 1)


def datasets_at_once(
    posterior: GibbsPosterior,
    n: int,
    num_ghosts: int,
    num_chains: int,
    num_samples: int,
    block_size: int,
) -> int:
    """Datasets of a block that a CPU works on at once: what its caches hold, a divisor."""
    one, at_most = _numbers(posterior, n, num_ghosts, num_chains, num_samples)
    least = max(1, min(LEAST_AT_ONCE, LOOP_NUMBERS // one))
    most = min(max(least, CACHED_NUMBERS // one), max(1, KEPT_NUMBERS // at_most))
    fitting = [k for k in range(1, min(block_size, most) + 1) if block_size % k == 0]
    is_tight = min(least, most) < LEAST_AT_ONCE  # memory, not a loop's cost, decides
    return fitting[-1] if is_tight or fitting[-1] >= LEAST_AT_ONCE else block_size


def _hessian_numbers(dim: int, n: int) -> int:
    """Count what a step of a mode search keeps: slopes of examples, Hessian, factor, inverse."""
    return dim * (n + 3 * dim) if dim <= MAX_LAPLACE_DIM else 0


def _numbers(
    posterior: GibbsPosterior, n: int, num_ghosts: int, num_chains: int, num_samples: int
) -> tuple[int, int]:
    """Count the losses and coordinates of one dataset's draws: usually, and at most.

    A structured loss sees every ghost in a dataset of its own. Most need of these a statistic; one
    that sorts residuals keeps a number per draw, ghost and example.
    """
    draws = num_chains * num_samples
    if posterior.structured:
        usual = draws * (num_ghosts + posterior.dim) + num_ghosts * n
        return usual, draws * num_ghosts * n + usual
    usual = draws * (n + num_ghosts + posterior.dim)
    return usual, usual


# What goes into a block program.


class Plan(NamedTuple):
    """Static shape of a block program: what a new compilation depends on."""

    n: int  # examples per dataset
    num_ghosts: int  # fresh examples per dataset
    group_size: int  # examples replaced at once
    # Chains per dataset, draws kept per chain.
    num_chains: int
    num_samples: int
    # What :class:`Inputs` say, where there are no pairs; None: traced.
    num_pairs: int | None = None


class Inputs(NamedTuple):
    """Traced inputs of a block program: changing them compiles nothing."""

    gamma: Float[Array, ""]  # inverse temperature
    schedule: Schedule  # burn-in, adaptation and kernel tuning
    # Replaced posteriors sampled per dataset, for quantities of pairs; 0: none.
    num_pairs: Int[Array, ""] | int
    start: Float[Array, " dim"]  # where mode searches begin, in flat coordinates
    is_dispersed: Bool[Array, ""]  # begin them at overdispersed random points instead
    # Standard deviations in flat coordinates; where they are not 0, searches begin as far from the
    # start as :func:`gibbs_dp.engine.program.far_away` says.
    spread: Float[Array, " dim"]
    # The control variate's parameter, free of every dataset it is used on.
    reference: Float[Array, " dim"]
    optimum: Float[Array, " dim"]  # the best parameter for the population (NaN: unknown)
    # Standard deviations, in whitened coordinates, of the Gaussian that normalizers are bridged
    # from.
    proposal_scale: Float[Array, " dim"]
    # Standard deviations that whiten posteriors without a usable Laplace fit (NaN: unknown).
    scale: Float[Array, " dim"]
    # A parameter that total losses are taken relative to, one for the whole sweep.
    anchor: Float[Array, " dim"]
    # Of the path that ends at this gamma, for a sampler that follows one.
    segment: Segment | None = None

    def fixed(self, plan: Plan) -> Inputs:
        """Put a plan's static number of pairs in place of the traced one, where it has any."""
        return self if plan.num_pairs is None else self._replace(num_pairs=plan.num_pairs)


class Tuned(NamedTuple):
    """What the pilots decided for one gamma."""

    inputs: Inputs  # traced inputs for the main run, control variate included
    estimator: str  # of the leading quantity, the name of one
    # R-hat between two runs from different overdispersed starts: above its limit, the posterior has
    # several modes or the mode search fails.
    r_hat_starts: float
    modes: Modes  # what a search for other modes found


# What is asked for and what is to be run: blocks of posteriors, and calls for them.


class Job(NamedTuple):
    """Some posteriors at one gamma, of which a program takes a block."""

    tag: Any  # the caller's name for it
    roots: Key[Array, 2]  # random keys of the data and of the chains
    # Number of the first posterior, and how many a program takes.
    first: int
    size: int
    # What to run.
    plan: Plan
    inputs: Inputs
    # After how many posteriors the datasets begin again, sampled with new chains; 0: never.
    period: int = 0
    wanted: int | None = None  # how many are wanted of those that a program takes; None: all
    keeps: tuple[int, ...] = ()  # of how many of these datasets each quantity keeps something

    def numbers(self, count: int | None) -> Int[np.ndarray, "2 block"]:
        """Numbers of the datasets, and of the chains, of the first ``count``; -1 for the others."""
        chains = np.arange(self.first, self.first + self.size, dtype=np.int32)
        both = np.stack([chains % self.period if self.period else chains, chains])
        both[:, self.size if count is None else count :] = -1
        return both

    @property
    def datasets(self) -> tuple[Any, ...]:
        """What jobs on the same datasets have in common."""
        roots = np.asarray(jax.random.key_data(self.roots)).tobytes()
        return roots, self.first, self.size, self.wanted, self.period


class Sheet(NamedTuple):
    """Jobs that one call of a program does."""

    jobs: tuple[Job, ...]  # one, or along a path the same datasets at several gammas
    # Of a sampler that goes along a path: inputs at all of its gammas, increasing.
    path: tuple[Inputs, ...] = ()


def each_alone(jobs: Iterable[Job]) -> Iterator[Sheet]:
    """One call for each job."""
    return (Sheet((job,)) for job in jobs)


def along(path: Sequence[Inputs], jobs: Iterable[Job]) -> Iterator[Sheet]:
    """Put jobs on the same datasets together, with the whole path to each of their gammas."""
    together: dict[Any, list[Job]] = {}
    for job in jobs:
        together.setdefault((job.datasets, job.plan), []).append(job)
    for found in together.values():
        known = {float(job.inputs.gamma): job.inputs for job in found}
        whole = tuple(known.get(float(inputs.gamma), inputs) for inputs in path)
        yield Sheet(tuple(found), whole)


# What a sweep is asked for, whatever is learnt from it.

# Over all gammas: from there on a program that is compiled for twice as long, a second or two more,
# is worth it.
MANY_DATASETS = 65_536


@dataclass(frozen=True)
class AuditSpec:
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
    def has_independent_examples(self) -> bool:
        """Whether a dataset's examples are independent: no chain's, no rows without replacement."""
        return not (self.population.is_dependent or self.population.is_conditional)

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

    @property
    def job_size(self) -> int:
        """Datasets of a job where there are few: as few as are worth a call, for all cores."""
        if is_accelerator(platform()):
            return self.block_size
        return min(self.block_size, self.num_at_once * math.ceil(LEAST_AT_ONCE / self.num_at_once))

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
            "dtype": str(jnp.result_type(float)),
        }


def versions() -> dict[str, str]:
    """Versions of what computed the numbers."""
    names = ("jax", "jaxlib", "numpyro", "numpy", "scipy")
    return {"gibbs_dp": __version__} | {n: _version_of(n) for n in names}


@cache
def _version_of(name: str) -> str:
    return importlib.metadata.version(name)  # some milliseconds each
