"""What goes into a block program and what comes out of it."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int

from gibbs_dp.sampling.diagnostics import Spread
from gibbs_dp.sampling.evolve import Schedule


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
    num_proposals
        Points of the proposal that normalizers are bridged from; 0: no normalizers, no draws kept.
    """

    n: int
    num_ghosts: int
    group_size: int
    num_chains: int
    num_samples: int
    num_proposals: int


class Inputs(NamedTuple):
    """Traced inputs of a block program: changing them compiles nothing.

    Attributes
    ----------
    gamma
        Inverse temperature.
    schedule
        Burn-in, adaptation and kernel tuning.
    num_pairs
        Replaced posteriors sampled per dataset for the two-sided estimator; 0: none.
    start
        Where mode searches begin, in flat coordinates.
    is_dispersed
        Begin them at overdispersed random points instead.
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
    """

    gamma: Float[Array, ""]
    schedule: Schedule
    num_pairs: Int[Array, ""]
    start: Float[Array, " dim"]
    is_dispersed: Bool[Array, ""]
    reference: Float[Array, " dim"]
    optimum: Float[Array, " dim"]
    proposal_scale: Float[Array, " dim"]
    scale: Float[Array, " dim"]
    anchor: Float[Array, " dim"]


class Summary(NamedTuple):
    """What leaves the device for each dataset (leading axis: datasets)."""

    generalization: Float[Array, "*b"]  # less the control variate
    control: Float[Array, "*b"]  # gap of the reference's losses, of mean zero
    empirical_risk: Float[Array, "*b"]
    population_risk: Float[Array, "*b"]
    excess_risk: Float[Array, "*b"]
    kl_direct: Float[Array, "*b"]
    kl_tail: Float[Array, "*b"]  # of the jackknife's correction: see DirectKL
    kl_two_sided: Float[Array, "*b"]
    pair_control: Float[Array, "*b"]  # of the two-sided estimate, of mean zero
    pair_spread: Float[Array, "*b 3"]  # of its pairs: see PairSummary
    kl_ghost: Float[Array, "*b"]  # gamma times the generalization error, of a whole group
    kl_control: Float[Array, "*b"]  # and gamma times its control variate
    accept_prob: Float[Array, "*b"]
    virial: Float[Array, "*b"]  # mean of v . grad U(v), over dim: 1 for exact draws
    inflation: Float[Array, "*b"]  # estimated excess variance of unadjusted chains
    kl_inflation: Float[Array, "*b"]  # and of their on-average KL
    mean_u: Float[Array, "*b dim"]
    var_u: Float[Array, "*b dim"]
    effective_points: Float[Array, "*b"]  # of a chain, or of a grid: one over the sum of squares
    edge_weight: Float[Array, "*b"]  # of the rim of a lattice
    square_v: Float[Array, "*b dim"]  # mean square of the whitened draws
    spread: Spread
    is_curved: Bool[Array, "*b"]
    is_improper: Bool[Array, "*b"]
    is_stuck: Bool[Array, "*b"]
    is_finite: Bool[Array, "*b"]  # the draws
