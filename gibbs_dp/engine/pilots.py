"""Pilot datasets: they have keys of their own and never enter an estimate.

So nothing that is chosen on them depends on the data that are reported on.
"""

from __future__ import annotations

import jax

from gibbs_dp._jaxlib.devices import is_accelerator, platform
from gibbs_dp.engine.datasets import Stream, roots
from gibbs_dp.engine.jobs import Job
from gibbs_dp.engine.plan import Inputs, Plan
from gibbs_dp.engine.runner import concatenate
from gibbs_dp.engine.settings import Settings
from gibbs_dp.engine.sizes import NUM_PILOTS, NUM_PILOTS_HIGH_DIM, power_of_two
from gibbs_dp.engine.summary import Summary
from gibbs_dp.engine.together import Runs
from gibbs_dp.sampling.locate import MAX_LAPLACE_DIM


def num_pilots(settings: Settings) -> int:
    """How many datasets settings are tuned on."""
    return NUM_PILOTS if settings.posterior.dim <= MAX_LAPLACE_DIM else NUM_PILOTS_HIGH_DIM


def run_pilots(runner: Runs, plan: Plan, inputs: Inputs, total: int, begin: int = 0) -> Summary:
    """Run the pilot datasets, and over again from other starts, ``total`` in all.

    ``begin``: how many of these there were before, so that others follow.
    """
    s, count = runner.settings, num_pilots(runner.settings)
    keys = roots(s.key, Stream.PILOTS)
    # On a CPU the program of the main run serves; an accelerator has one for either anyway.
    size = power_of_two(total) if is_accelerator(platform()) else s.block_size
    blocks = range(begin, begin + total, size)
    jobs = [Job(first, keys, first, size, plan, inputs, period=count) for first in blocks]
    # The sweep searches for the best parameter beside the first of them.
    done = {job.tag: block.summary for job, block in runner.run(jobs, num_beside=1)}
    return concatenate([done[first] for first in blocks], total)


def run_pilots_twice(runner: Runs, plan: Plan, inputs: Inputs) -> tuple[Summary, Summary]:
    """Run the same pilot datasets from two sets of overdispersed starts."""
    count = num_pilots(runner.settings)
    both = run_pilots(runner, plan, inputs, 2 * count)
    return jax.tree.map(lambda a: a[:count], both), jax.tree.map(lambda a: a[count:], both)
