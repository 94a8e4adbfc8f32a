"""The contract of samplers: from a target and a key to weighted draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from gibbs_dp._source import own_code
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.base import Schedule, Traits
from gibbs_dp.sampling.smc_particles import Segment
from gibbs_dp.sampling.target import MAX_DENSE_DIM, Target, Terms, Whitening, fit_whitening


class ChainDraws(NamedTuple):
    """Weighted draws of one dataset's posterior, and what is needed to judge them.

    A sampler of one's own makes them with :meth:`of`, from its draws alone.

    Attributes
    ----------
    u
        Draws in flat unconstrained coordinates, ``[chains, draws, dim]``.
    v
        The same draws whitened, ``[chains, draws, dim]``.
    weight
        Weights of the draws, ``[chains, draws]``, summing to the number of chains: to one within
        each chain, but for islands of SMC, which count by their normalizers.
    potential
        Potential energy relative to ``reference``, ``[chains, draws]``.
    log_normalizer
        Of ``exp(-potential)``, from a sampler that sums over the posterior or follows a path to
        it; None: unknown.
    log_normalizer_se
        Its standard error; None where it is exact or unknown.
    worst_ess
        Smallest share of particles that were effective after weighing on the way from gamma = 0;
        1 where there is no such way.
    accept_prob
        Mean acceptance probability per chain.
    virial
        ``v . grad U(v)`` at the last draw of each chain: ``dim`` on average for exact draws.
    is_stuck
        Per chain: no proposal was accepted in burn-in and draws together.
    whitening
        Coordinates of ``v``; None where they are flat ones.
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
    edge_weight
        Weight of the draws at the rim of a lattice; 0 elsewhere.
    inflation
        Estimated relative excess of the draws' variance, per chain; 0 for adjusted samplers.
    kl_inflation
        The same of on-average KL.
    island_log_normalizer
        Of every island of SMC by itself, as ``log_normalizer`` is of all: their exponentials are
        independent and unbiased. None: no islands.
    """

    u: Float[Array, "chains draws dim"]
    v: Float[Array, "chains draws dim"]
    weight: Float[Array, "chains draws"]
    potential: Float[Array, "chains draws"]
    log_normalizer: Float[Array, ""] | None
    log_normalizer_se: Float[Array, ""] | None
    worst_ess: Float[Array, ""]
    accept_prob: Float[Array, " chains"]
    virial: Float[Array, " chains"]
    is_stuck: Bool[Array, " chains"]
    whitening: Whitening | None
    reference: Terms
    mode: Float[Array, " dim"]
    mode_potential_gap: Float[Array, " starts"]
    is_curved: Bool[Array, ""]
    is_improper: Bool[Array, ""]
    edge_weight: Float[Array, ""]
    inflation: Float[Array, " chains"]
    kl_inflation: Float[Array, ""]
    island_log_normalizer: Float[Array, " chains"] | None = None

    @classmethod
    def of(
        cls,
        target: Target,
        u: Float[Array, "chains draws dim"],
        weight: Float[Array, "chains draws"] | None = None,
        accept_prob: Float[Array, " chains"] | None = None,
        log_normalizer: Float[Array, ""] | None = None,
    ) -> ChainDraws:
        """Pack draws of a sampler of one's own; everything else is computed from them.

        Parameters
        ----------
        target
            The posterior, its data and gamma.
        u
            Draws in flat coordinates.
        weight
            Weights of the draws, summing to one within each chain; equal by default. An audit
            weighs by them, `gibbs_dp.sample` does not.
        accept_prob
            Mean acceptance probability per chain; 1 by default.
        log_normalizer
            Of the posterior's density relative to that at the best draw, where it is known.

        Returns
        -------
        ChainDraws
            With the best draw as mode and whitened by the draws' own covariance.
        """
        num_chains, num_draws, dim = u.shape
        flat, dtype = u.reshape(-1, dim), u.dtype
        relative = target.relative_to(target.terms(flat[0]))
        energy = jax.vmap(relative)(flat)
        best = jnp.argmin(jnp.where(jnp.isnan(energy), jnp.inf, energy))
        mode, zeros, false = flat[best], jnp.zeros((num_chains,), dtype), jnp.zeros((), bool)
        scale = jnp.ones((dim,), dtype)
        like = Whitening(mode, jnp.diag(scale) if dim <= MAX_DENSE_DIM else scale)
        whitening = fit_whitening(flat, like)
        v = jax.vmap(jax.vmap(whitening.whiten))(u)
        pulled = whitening.pull_back(relative)
        return cls(
            u=u,
            v=v,
            weight=jnp.full(u.shape[:2], 1.0 / num_draws, dtype) if weight is None else weight,
            potential=(energy - energy[best]).reshape(u.shape[:2]),
            log_normalizer=log_normalizer,
            log_normalizer_se=None,
            worst_ess=jnp.ones((), dtype),
            accept_prob=zeros + 1.0 if accept_prob is None else accept_prob,
            virial=jax.vmap(lambda at: jax.jvp(pulled, (at,), (at,))[1])(v[:, -1]),
            is_stuck=jnp.all(u == u[:, :1], axis=(1, 2)),
            whitening=whitening,
            reference=target.terms(mode),
            mode=mode,
            mode_potential_gap=zeros[:1],
            is_curved=~false,
            is_improper=false,
            edge_weight=zeros[0],
            inflation=zeros,
            kl_inflation=zeros[0],
        )


def described(value: object) -> str:
    """Describe a sampler or kernel by its settings, and by its code where it is a user's own.

    >>> from gibbs_dp import HMC
    >>> described(HMC(num_leapfrog=3)).startswith("HMC(step_size=None, num_leapfrog=3")
    True
    """
    return " ".join(filter(None, (repr(value), own_code(type(value)))))


@runtime_checkable
class Sampler(Protocol):
    """The contract of samplers: what turns a posterior's target and a key into weighted draws.

    For a Markov kernel with an acceptance step, subclass `gibbs_dp.Kernel`, which takes less. A
    sampler of another kind subclasses this, as a frozen dataclass of its settings, and gives
    ``draw(key, target, starts, schedule, num_chains, num_samples, scale=None, is_joint=False)``,
    which returns `gibbs_dp.ChainDraws`, or ``find_path`` and ``draw_path`` where one run serves all
    gammas, as of `gibbs_dp.SMC`. What else is
    asked of it has a default, that of draws without a tuning. It is hashable, as what it is
    decides what is compiled.
    """

    @property
    def traits(self) -> Traits:
        """Abilities and needs; by default those of chains of the posterior's law."""
        return Traits()

    @property
    def identity(self) -> str:
        """Text that differs where draws may differ: stores are known by it."""
        return described(self)

    @property
    def least_accept(self) -> float:
        """Mean acceptance rate below which tuning looks for shorter steps; 0 by default."""
        return 0.0

    def check(self, posterior: GibbsPosterior) -> None:
        """Raise a ValueError where it cannot run on a posterior."""
        del posterior

    def shape(
        self, posterior: GibbsPosterior, num_chains: int, num_samples: int
    ) -> tuple[int, int]:
        """Chains, and draws of each, that it gives where these were asked for: as many."""
        del posterior
        return num_chains, num_samples

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Step size and inner steps to begin with; 1 and 1 by default."""
        del dim
        return 1.0, 1

    def eased(
        self, accept_rate: float, tuning: tuple[float, int]
    ) -> tuple[tuple[float, int], int] | None:
        """Tuning and burn-in that do where pilots accepted this much; None: no less than usual."""
        return None

    def lengthened(self, tuning: tuple[float, int]) -> tuple[float, int]:
        """Tuning where inner steps cost little beside all else; by default the same."""
        return tuning

    def points(self, posterior: GibbsPosterior) -> Float[Array, "points dim"] | None:
        """Return all points that it sums over, in flat coordinates; None for draws."""
        return None

    def finite_class(self, posterior: GibbsPosterior) -> Float[Array, "points dim"] | None:
        """Return the only parameters there are, in flat coordinates; None for a continuum."""
        return None


@runtime_checkable
class GammaSampler(Sampler, Protocol):
    """A sampler that turns a target, at one gamma, and a key into weighted draws."""

    def draw(
        self,
        key: PRNGKeyArray,
        target: Target,
        starts: Float[Array, "starts dim"],
        schedule: Schedule,
        num_chains: int,
        num_samples: int,
        scale: Float[Array, " dim"] | None = None,
        is_joint: bool = False,
    ) -> ChainDraws:
        """Draw from one dataset's posterior; traced, and vmapped over datasets.

        Parameters
        ----------
        key
            Random key of this dataset.
        target
            The posterior, its data and gamma.
        starts
            Where the mode searches begin. One start serves all chains; with ``num_chains`` starts
            every chain begins at its own mode, so that several modes are seen.
        schedule
            How long to run and how to move.
        num_chains, num_samples
            Chains, and draws kept per chain.
        scale
            Standard deviations to whiten with where the Laplace fit is of no use; a guess from the
            gradient where they are None or NaN.
        is_joint
            Let a sampler that can draw the chains' noise together: averages over chains vary less,
            but chains are no longer independent of each other.

        Returns
        -------
        ChainDraws
            The draws, and what is needed to judge them.
        """
        ...


@runtime_checkable
class PathSampler(Sampler, Protocol):
    """A sampler that draws at all gammas of a grid in one go, along a path frozen on pilots."""

    def find_path(
        self,
        key: PRNGKeyArray,
        posterior: GibbsPosterior,
        data: PyTree,
        gammas: Sequence[float],
        on_gamma: Callable[[], None] = lambda: None,
    ) -> Segment:
        """Find what is frozen: a segment for each gamma (leading axis), on pilot datasets."""
        ...

    def draw_path(
        self, key: PRNGKeyArray, posterior: GibbsPosterior, data: PyTree, segments: Segment
    ) -> ChainDraws:
        """Draw from one dataset's posteriors (leading axis: gammas); traced, and vmapped."""
        ...


def log_ratios(
    draws: ChainDraws,
    target: Target,
    proposals: Float[np.ndarray, "proposals dim"],
    scale: Float[Array, " dim"],
) -> tuple[Float[Array, "chains draws"], Float[Array, " proposals"]]:
    """Log of the unnormalized density over a Gaussian's, at the draws and at the Gaussian's own."""
    whitening = draws.whitening
    assert whitening is not None
    pulled = whitening.pull_back(target.around(draws.mode, draws.reference, whitening))
    points = scale * jnp.asarray(proposals, scale.dtype)

    def log_ratio(value: Float[Array, ""], v: Float[Array, " dim"]) -> Float[Array, ""]:
        log_proposal = jnp.sum(jax.scipy.stats.norm.logpdf(v, scale=scale))
        return whitening.log_volume - log_proposal - value

    at_draws = jax.vmap(jax.vmap(log_ratio))(draws.potential, draws.v)
    return at_draws, jax.vmap(log_ratio)(jax.vmap(pulled)(points), points)
