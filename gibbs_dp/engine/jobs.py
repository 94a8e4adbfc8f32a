"""What is to be run: blocks of posteriors, and sheets of them that are run at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Int, Key

from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.engine.sizes import power_of_two
from gibbs_dp.sampling.laplace import MAX_ITERATIONS
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
    """

    jobs: tuple[Job, ...]
    plan: Plan
    width: int = 1

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
    together: dict[Any, list[Job]] = {}
    for job in jobs:
        plan = with_counts(job.plan, job.inputs)
        key = (id(job.roots), job.first, job.size, job.period, plan)
        together.setdefault(key, []).append(job)
    return [
        Sheet(tuple(found), key[-1], power_of_two(len(found))) for key, found in together.items()
    ]


def with_counts(plan: Plan, inputs: Inputs) -> Plan:
    """Fix a plan's counts at what the inputs say."""
    (_, num_inner), num_burn_in, num_rounds = inputs.schedule.on_host
    newton = NEWTON_FROM_ANYWHERE if bool(inputs.is_dispersed) else NEWTON_FROM_NEAR
    counts = Counts(num_inner, num_burn_in, num_rounds, newton)
    return plan._replace(counts=counts, num_pairs=int(inputs.num_pairs))


def searching_longer(sheet: Sheet) -> Sheet | None:
    """Return the sheet with the longest search for modes; None where it has that already."""
    counts = sheet.plan.counts
    if counts is None or counts.num_newton >= MAX_ITERATIONS:
        return None
    longest = counts._replace(num_newton=MAX_ITERATIONS)
    return sheet._replace(plan=sheet.plan._replace(counts=longest))
