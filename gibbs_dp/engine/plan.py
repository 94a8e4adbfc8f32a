"""What goes into a block program."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int

from gibbs_dp.sampling.modes import Modes
from gibbs_dp.sampling.schedule import Counts, Schedule
from gibbs_dp.sampling.smc.path import Segment


class Plan(NamedTuple):
    """Static shape of a block program: what a new compilation depends on.

    Attributes
    ----------
    n
        Examples per dataset.
    num_ghosts
        Fresh examples per dataset.
    group_size
        Examples replaced at once.
    num_chains, num_samples
        Chains per dataset, draws kept per chain.
    counts, num_pairs
        What :class:`Inputs` say of loops, where the program has to know it; None: traced.
    """

    n: int
    num_ghosts: int
    group_size: int
    num_chains: int
    num_samples: int
    counts: Counts | None = None
    num_pairs: int | None = None


class Inputs(NamedTuple):
    """Traced inputs of a block program: changing them compiles nothing.

    Attributes
    ----------
    gamma
        Inverse temperature.
    schedule
        Burn-in, adaptation and kernel tuning.
    num_pairs
        Replaced posteriors sampled per dataset, for quantities of pairs; 0: none.
    start
        Where mode searches begin, in flat coordinates.
    is_dispersed
        Begin them at overdispersed random points instead.
    spread
        Standard deviations in flat coordinates; where they are not 0, searches begin as far from
        the start as :func:`gibbs_dp.engine.program.far_away` says.
    reference
        The control variate's parameter, free of every dataset it is used on.
    optimum
        The best parameter for the population (NaN: unknown).
    proposal_scale
        Standard deviations, in whitened coordinates, of the Gaussian that normalizers are bridged
        from.
    scale
        Standard deviations that whiten posteriors without a usable Laplace fit (NaN: unknown).
    anchor
        A parameter that total losses are taken relative to, one for the whole sweep.
    segment
        Of the path that ends at this gamma, for a sampler that follows one.
    """

    gamma: Float[Array, ""]
    schedule: Schedule
    num_pairs: Int[Array, ""] | int
    start: Float[Array, " dim"]
    is_dispersed: Bool[Array, ""]
    spread: Float[Array, " dim"]
    reference: Float[Array, " dim"]
    optimum: Float[Array, " dim"]
    proposal_scale: Float[Array, " dim"]
    scale: Float[Array, " dim"]
    anchor: Float[Array, " dim"]
    segment: Segment | None = None

    def fixed(self, plan: Plan) -> Inputs:
        """Put a plan's static counts in place of traced ones, where it has any."""
        counts, num_pairs = plan.counts, plan.num_pairs
        return self._replace(
            schedule=self.schedule if counts is None else self.schedule.fixed(counts),
            num_pairs=self.num_pairs if num_pairs is None else num_pairs,
        )


class Tuned(NamedTuple):
    """What the pilots decided for one gamma.

    Attributes
    ----------
    inputs
        Traced inputs for the main run, control variate included.
    estimator
        Of the leading quantity, the name of one.
    r_hat_starts
        R-hat between two runs from different overdispersed starts: above its limit, the posterior
        has several modes or the mode search fails.
    modes
        What a search for other modes found.
    """

    inputs: Inputs
    estimator: str
    r_hat_starts: float
    modes: Modes
