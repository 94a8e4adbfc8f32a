"""All chains of one dataset: mode, whitening, burn-in and draws. Everything above vmaps this."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.evolve import Schedule, evolve
from gibbs_dp.sampling.kernels.base import Kernel, Potential
from gibbs_dp.sampling.kernels.unadjusted import Unadjusted
from gibbs_dp.sampling.langevin_walk import precondition, walk_langevin
from gibbs_dp.sampling.locate import Location, locate
from gibbs_dp.sampling.shells import spread_radii
from gibbs_dp.sampling.target import Target, Terms
from gibbs_dp.sampling.whitening import Whitening, fit_whitening


class ChainDraws(NamedTuple):
    """Draws of one dataset's posterior, and what is needed to judge them.

    Attributes
    ----------
    u
        Draws in flat unconstrained coordinates, ``[chains, draws, dim]``.
    v
        The same draws whitened, ``[chains, draws, dim]``.
    weight
        Weights of the draws, ``[chains, draws]``, summing to one within each chain.
    potential
        Potential energy relative to ``reference``, ``[chains, draws]``.
    accept_prob
        Mean acceptance probability per chain.
    virial
        ``v . grad U(v)`` at the last draw of each chain: ``dim`` on average for exact draws.
    is_stuck
        Per chain: no proposal was accepted in burn-in and draws together.
    whitening
        Coordinates of ``v``; None for a grid.
    reference
        Energy terms that the potential is relative to: those at the mode.
    mode
        Where the mode search ended.
    mode_potential_gap
        Potential of the best start's mode minus each start's, at most 0: modes that differ.
    is_curved
        Whether the Laplace fit has a positive definite Hessian.
    is_improper
        Whether a ray along which the potential does not rise was found.
    inflation
        Estimated relative excess of the draws' variance, per chain; 0 for exact kernels.
    kl_inflation
        The same of on-average KL.
    """

    u: Float[Array, "chains draws dim"]
    v: Float[Array, "chains draws dim"]
    weight: Float[Array, "chains draws"]
    potential: Float[Array, "chains draws"]
    accept_prob: Float[Array, " chains"]
    virial: Float[Array, " chains"]
    is_stuck: Bool[Array, " chains"]
    whitening: Whitening | None
    reference: Terms
    mode: Float[Array, " dim"]
    mode_potential_gap: Float[Array, " starts"]
    is_curved: Bool[Array, ""]
    is_improper: Bool[Array, ""]
    inflation: Float[Array, " chains"]
    kl_inflation: Float[Array, ""]


class _Moved(NamedTuple):
    """Draws of any kernel, in the coordinates ``whitening`` that they are judged in."""

    v: Float[Array, "chains draws dim"]
    potential: Float[Array, "chains draws"]
    whitening: Whitening
    accept_prob: Float[Array, " chains"]
    is_stuck: Bool[Array, " chains"]
    inflation: Float[Array, " chains"]
    kl_inflation: Float[Array, ""]


def run_chains(
    key: PRNGKeyArray,
    posterior: GibbsPosterior,
    data: PyTree,
    gamma: Float[Array, ""],
    starts: Float[Array, "starts dim"],
    kernel: Kernel | Unadjusted,
    schedule: Schedule,
    num_chains: int,
    num_samples: int,
    scale: Float[Array, " dim"] | None = None,
    is_joint: bool = False,
) -> ChainDraws:
    """Sample one dataset's posterior with ``num_chains`` chains.

    Parameters
    ----------
    key
        Random key of this dataset.
    posterior, data, gamma
        The target.
    starts
        Where the mode searches begin. One start serves all chains; with ``num_chains`` starts
        every chain begins at its own mode, so that several modes are seen.
    kernel, schedule
        How to move.
    num_chains, num_samples
        Chains, and draws kept per chain.
    scale
        Standard deviations to whiten with where the Laplace fit is of no use; a guess from the
        gradient where they are None or NaN.
    is_joint
        Let kernels that can draw the chains' noise together: averages over chains vary less,
        but chains are no longer independent of each other. HMC is one.
    """
    target = Target(posterior, data, gamma)
    dim = posterior.dim
    start_key, walk_key = jax.random.split(key)
    found = locate(target, starts)
    if scale is not None:
        found = found._replace(whitening=_with_scale(found, scale))
    laplace, reference = found.whitening, found.reference
    noise = jax.random.normal(start_key, (num_chains, dim), starts.dtype)
    if is_joint:
        radius_key, turn_key = jax.random.split(jax.random.fold_in(start_key, 1))
        uniform = jax.random.uniform(radius_key, (num_chains,), starts.dtype)
        noise = spread_radii(noise, uniform, jax.random.uniform(turn_key, (), starts.dtype))
    positions = found.centers - laplace.center + jax.vmap(laplace.color)(noise)
    potential = target.around(laplace.center, reference)
    if isinstance(kernel, Unadjusted):
        run = _unadjusted(
            walk_key, target, potential, positions, found, kernel, schedule, num_samples
        )
    else:
        run = _adjusted(
            walk_key, potential, positions, laplace, kernel, schedule, num_samples, is_joint
        )
    last, pulled = run.v[:, -1], run.whitening.pull_back(potential)
    return ChainDraws(
        u=jax.vmap(jax.vmap(run.whitening.color))(run.v),
        v=run.v,
        weight=jnp.full((num_chains, num_samples), 1.0 / num_samples, starts.dtype),
        potential=run.potential,
        accept_prob=run.accept_prob,
        virial=jax.vmap(lambda v: jax.jvp(pulled, (v,), (v,))[1])(last),
        is_stuck=run.is_stuck,
        whitening=run.whitening,
        reference=reference,
        mode=laplace.center,
        mode_potential_gap=found.gaps,
        is_curved=found.is_curved,
        is_improper=found.is_improper,
        inflation=run.inflation,
        kl_inflation=run.kl_inflation,
    )


def log_ratios(
    draws: ChainDraws,
    target: Target,
    proposals: Float[np.ndarray, "proposals dim"],
    scale: Float[Array, " dim"],
) -> tuple[Float[Array, "chains draws"], Float[Array, " proposals"]]:
    """Log of the unnormalized density over a Gaussian's, at the draws and at the Gaussian's own.

    Parameters
    ----------
    draws
        Of chains.
    target
        Their posterior.
    proposals
        Standard normal points: scaled, draws of the Gaussian in whitened coordinates.
    scale
        Its standard deviations.
    """
    whitening = draws.whitening
    assert whitening is not None
    pulled = whitening.pull_back(target.around(draws.mode, draws.reference))
    points = scale * jnp.asarray(proposals, scale.dtype)

    def log_ratio(value: Float[Array, ""], v: Float[Array, " dim"]) -> Float[Array, ""]:
        log_proposal = jnp.sum(jax.scipy.stats.norm.logpdf(v, scale=scale))
        return whitening.log_volume - log_proposal - value

    at_draws = jax.vmap(jax.vmap(log_ratio))(draws.potential, draws.v)
    return at_draws, jax.vmap(log_ratio)(jax.vmap(pulled)(points), points)


def _with_scale(found: Location, scale: Float[Array, " dim"]) -> Whitening:
    center, fitted = found.whitening
    given = scale if fitted.ndim == 1 else jnp.diag(scale)
    is_used = ~found.is_curved & jnp.all(jnp.isfinite(scale))
    return Whitening(center, jnp.where(is_used, given, fitted))


def _adjusted(
    key: PRNGKeyArray,
    potential: Potential,
    positions: Float[Array, "chains dim"],
    laplace: Whitening,
    kernel: Kernel,
    schedule: Schedule,
    num_samples: int,
    is_joint: bool,
) -> _Moved:
    run = evolve(key, potential, positions, laplace, kernel, schedule, num_samples, is_joint)
    none = jnp.zeros((positions.shape[0],), positions.dtype)
    return _Moved(run.v, run.potential, run.whitening, run.accept_prob, run.is_stuck, none, none[0])


def _unadjusted(
    key: PRNGKeyArray,
    target: Target,
    potential: Potential,
    positions: Float[Array, "chains dim"],
    found: Location,
    kernel: Unadjusted,
    schedule: Schedule,
    num_samples: int,
) -> _Moved:
    """Move in the kernel's own coordinates, judge in the Laplace fit's (or in the draws')."""
    laplace, (num_chains, dim) = found.whitening, positions.shape
    coordinates = precondition(kernel, found)
    run = walk_langevin(
        key,
        target,
        potential,
        positions,
        laplace.center,
        coordinates,
        kernel,
        schedule,
        num_samples,
    )
    fitted = fit_whitening(run.u.reshape(-1, dim), laplace)
    judge = jax.tree.map(lambda a, b: jnp.where(found.is_curved, a, b), laplace, fitted)
    v = jax.vmap(jax.vmap(judge.whiten))(run.u)
    energy = jax.vmap(jax.vmap(potential))(run.u)
    accept, is_stuck = jnp.ones((num_chains,), v.dtype), jnp.zeros((num_chains,), bool)
    return _Moved(v, energy, judge, accept, is_stuck, run.inflation, run.kl_inflation)
