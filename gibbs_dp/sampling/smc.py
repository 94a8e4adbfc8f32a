"""SMC along gamma: particles on a path that was frozen before they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp._source import own_code
from gibbs_dp.model.check import positive_count
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.recentring import Recentring
from gibbs_dp.sampling.ensemble import recentring_of
from gibbs_dp.sampling.kernels.base import Kernel, Traits, Tuning, check_own
from gibbs_dp.sampling.kernels.hmc import HMC
from gibbs_dp.sampling.laplace import MAX_LAPLACE_DIM, locate
from gibbs_dp.sampling.noise import chain_keys
from gibbs_dp.sampling.sampler import ChainDraws, Sampler
from gibbs_dp.sampling.smc_particles import (
    MOST_MOVES,
    Landscape,
    MovedParticles,
    Particles,
    Point,
    Segment,
    begin_point,
    cess,
    move,
    reweigh,
)
from gibbs_dp.sampling.smc_path import find_path
from gibbs_dp.sampling.target import ImproperPosteriorError, Target, Whitening, fit_whitening

# The run along a frozen path: for every fixed kernel ``E Chat = C``.


class PathState(NamedTuple):
    """The state of a run between steps."""

    particles: Particles  # equally weighted, of the law at ``point``
    point: Point  # where on the path
    worst_ess: Float[Array, ""]  # smallest share of particles that were effective after weighing
    last: MovedParticles  # the last step's moves
    number: Any  # of the step


def run_path(
    key: PRNGKeyArray,
    landscape: Landscape,
    segments: Segment,
    kernel: Kernel,
    num_islands: int,
    num_each: int,
) -> ChainDraws:
    """Draws of one dataset's posteriors at every gamma of a grid, in one go."""
    begin_key, walk_key, resample_key = jax.random.split(key, 3)
    particles = landscape.begin(begin_key, num_islands, num_each)
    u, dtype = particles.u, particles.u.dtype
    streams = chain_keys(walk_key, num_islands * num_each)
    streams = streams.reshape(num_islands, num_each, *streams.shape[1:])
    none = jnp.zeros(u.shape[:2], dtype)
    walk = PathState(
        particles,
        begin_point(landscape.is_proper, dtype),
        jnp.ones((), dtype),
        MovedParticles(u, u, none, none, jnp.ones(u.shape[:2], bool)),
        jnp.zeros((), jnp.int32),
    )
    num_inner = kernel.default_tuning(u.shape[-1])[1]

    def one_step(i: Array, carry: tuple[PathState, Segment]) -> tuple[PathState, Segment]:
        walk, segment = carry
        to = jax.tree.map(lambda a: a[i], segment.points)
        at, before = walk.point, walk.particles
        resampling = jax.random.fold_in(resample_key, walk.number)
        weighed = reweigh(resampling, before, landscape, at, to)
        found = weighed.particles
        whitening = Whitening(found.best, segment.scale[i])
        moved = move(
            streams,
            walk.number * (MOST_MOVES + 1),
            segment.num_moves[i],
            found.u,
            landscape.potential(to, found.reference, whitening),
            landscape.coordinates(segment.share[i]),
            whitening,
            kernel,
            Tuning(segment.step_size[i], num_inner),
        )
        energies = landscape.energies(moved.u, found.reference, whitening)
        new = PathState(
            found._replace(u=moved.u, energies=energies),
            to,
            jnp.minimum(walk.worst_ess, cess(weighed.log_weight)),
            moved,
            walk.number + 1,
        )
        return new, segment

    def to_gamma(walk: PathState, segment: Segment) -> tuple[PathState, ChainDraws]:
        walk, _ = jax.lax.fori_loop(0, segment.num_steps, one_step, (walk, segment))
        like = Whitening(walk.particles.best, segment.scale[segment.num_steps - 1])
        flat = walk.particles.u.reshape(-1, walk.particles.u.shape[-1])
        return walk, _as_draws(walk, landscape, fit_whitening(flat, like))

    _, draws = jax.lax.scan(to_gamma, walk, segments)
    return draws


def _as_draws(walk: PathState, landscape: Landscape, whitening: Whitening) -> ChainDraws:
    """Pack the particles of a law that is one of the grid's."""
    particles, moved = walk.particles, walk.last
    num_islands, num_each = particles.u.shape[:2]
    false, zeros = jnp.zeros((), bool), jnp.zeros((num_islands,), particles.u.dtype)
    own = whitening._replace(center=particles.best)
    potential = landscape.potential(walk.point, particles.reference, own)
    pulled = whitening.pull_back(potential)
    v = jax.vmap(jax.vmap(whitening.whiten))(particles.u)
    normalizer, normalizer_se = pooled(particles.log_normalizer)
    return ChainDraws(
        u=particles.u,
        v=v,
        weight=_weights(particles.log_normalizer, num_each),
        potential=moved.potential,
        log_normalizer=normalizer,
        log_normalizer_se=normalizer_se,
        worst_ess=walk.worst_ess,
        accept_prob=jnp.mean(moved.accept_prob, axis=1),
        virial=jax.vmap(lambda v: jax.jvp(pulled, (v,), (v,))[1])(v[:, 0]),
        is_stuck=~jnp.any(moved.has_moved, axis=1),
        whitening=whitening,
        reference=particles.reference,
        mode=particles.best,
        mode_potential_gap=zeros[:1],
        is_curved=~false,
        is_improper=false,
        edge_weight=zeros[0],
        inflation=zeros,
        kl_inflation=zeros[0],
        island_log_normalizer=particles.log_normalizer,
    )


def _weights(
    log_normalizer: Float[Array, " islands"], num_each: int
) -> Float[Array, "islands each"]:
    """Weights of islands by their normalizers: alike, they would bias means by 1 / num_each."""
    share = jax.nn.softmax(log_normalizer)
    share = jnp.where(jnp.isnan(share), 1.0 / share.size, share)
    return jnp.repeat(share[:, None] * share.size / num_each, num_each, axis=1)


def pooled(log_normalizer: Float[Array, " islands"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Log of the islands' mean normalizer, and its standard error."""
    count = log_normalizer.shape[0]
    largest = jnp.max(log_normalizer)
    share = jnp.exp(log_normalizer - jnp.where(jnp.isfinite(largest), largest, 0.0))
    whole = jnp.log(jnp.mean(share))
    without = jnp.log((jnp.sum(share) - share) / (count - 1))
    value = count * whole - (count - 1) * jnp.mean(without)
    se = jnp.sqrt((count - 1) * jnp.mean((without - jnp.mean(without)) ** 2))
    return value + largest, se


# The sampler, as users ask for it.

# Where paths begin if the prior cannot be drawn from: a wide normal over the modes found.

# Searches of every pilot begin at overdispersed points, times these.
SPREADS = (1.0, 1.0, 4.0, 4.0, 16.0, 16.0, 64.0, 64.0)
# Nats below the best mode at which an end of a search holds nothing worth reaching.
LEAST_MASS = 50.0
# Standard deviations of the normal over those of modes and ends together.
WIDER = 3.0


def _ends_of(
    posterior: GibbsPosterior, keys: Array, data: PyTree, gamma: Array
) -> tuple[Array, Array, Array, Array, Array]:
    def one(pair: tuple[PRNGKeyArray, PyTree]) -> tuple[Array, ...]:
        key, data = pair
        starts = jax.vmap(posterior.initial)(jax.random.split(key, len(SPREADS)))
        spreads = jnp.asarray(SPREADS, starts.dtype)
        found = locate(Target(posterior, data, gamma), starts * spreads[:, None])
        scale = found.whitening.scale
        variance = scale**2 if scale.ndim == 1 else jnp.sum(scale**2, axis=1)
        return found.centers, found.gaps, variance, found.is_curved, found.is_improper

    return jax.lax.map(one, (keys, data))


_ends = on_default_backend(_ends_of, "posterior")


def wide_origin(
    key: PRNGKeyArray, posterior: GibbsPosterior, data: PyTree, gamma: float
) -> Whitening:
    """Return the normal that paths begin at; a standard one, unused, where the prior has draws."""
    dim, dtype = posterior.dim, jnp.result_type(float)
    if posterior.prior.has_draws:
        return Whitening(jnp.zeros(dim, dtype), jnp.ones(dim, dtype))
    keys = jax.random.split(key, jax.tree.leaves(data)[0].shape[0])
    found = _ends(posterior, keys, data, jnp.asarray(gamma, dtype))
    ends, gaps, variance, is_curved, is_improper = (np.asarray(a) for a in found)
    usable = ~is_improper & (is_curved | (dim > MAX_LAPLACE_DIM))
    if usable.mean() < 0.5:
        raise ImproperPosteriorError(
            f"posterior: the prior is flat, and at gamma={gamma:g} there is no mode with curvature "
            f"that SMC could begin around (on {1 - usable.mean():.0%} of the datasets looked at); "
            "give a proper prior, or a larger gamma."
        )
    is_mode = np.isfinite(gaps) & (gaps >= -LEAST_MASS) & usable[:, None]
    modes = ends[is_mode].astype(float)
    width = WIDER * np.sqrt(modes.var(axis=0) + variance[usable].mean(axis=0))
    return Whitening(jnp.asarray(modes.mean(axis=0), dtype), jnp.asarray(width, dtype))


# Numbers that pilots of one call may need: losses of all particles.
PILOT_NUMBERS = 2**22


@dataclass(frozen=True)
class SMC(Sampler):
    """Sequential Monte Carlo along gamma (Del Moral, Doucet & Jasra 2006): for several modes.

    Particles are drawn from the prior, weighed for a slightly larger gamma, resampled and moved,
    again and again up to the largest gamma: a mode that has its share of the mass at small gammas
    keeps it. One run serves all gammas of an audit, and gives their normalizers: without bias
    for any kernel that does not look at other particles, as temperatures, coordinates and step
    sizes are frozen before, on pilot datasets (`gibbs_dp.sample`: on particles of their own) that
    enter no estimate. (HMC's "split" integrator turns around the best particle: it does look.)

    What it finds: modes that hold more than about ``1 / num_particles`` of the mass where the path
    meets them. Their masses are noisier than counts among so many particles, the more so the more
    steps the path has. A mode that is seen by no particle is lost, without a sign.

    Where the prior is flat and unbounded there is nothing to draw from, and paths begin at a wide
    normal over the modes that searches from dispersed starts found: modes far from it are lost.

    Parameters
    ----------
    num_particles
        Particles of a dataset, in all islands together. 256 are for audits, where datasets are
        many; of one posterior they are worth a hundred draws, and `gibbs_dp.sample`, where it
        comes to SMC by itself, takes 1,024 and 2,048.
    num_islands
        Groups of particles that never meet: errors come from how they differ.
    kernel
        What moves particles: ``gibbs_dp.HMC(...)``, ``gibbs_dp.MALA()`` or a kernel of one's own.
        None: HMC with the plain leapfrog integrator, as there is no one mode to follow a Gaussian
        around. Its step size is the longest; pilots shorten it.
    least_ess
        Share of the particles that are to be effective after weighing, on average over pilots, in
        (0, 1): how far apart temperatures are.
    recentre
        Whether particles move in coordinates in which parts of a hierarchical prior are centred by
        how much the data tell of them, as in `gibbs_dp.AdaptiveHMC`, at every temperature.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> import jax.numpy as jnp, numpyro.distributions as dist, gibbs_dp as gdp
    >>> def loss(theta, z):                                        # modes near -2 and 2
    ...     return (jnp.abs(theta) - z) ** 2 / 2
    >>> posterior = gdp.GibbsPosterior(loss, dist.Normal(0.0, 3.0))
    >>> draws = gdp.sample(posterior, jnp.full(20, 2.0), sampler=gdp.SMC())
    >>> 0.3 < float((draws.theta > 0).mean()) < 0.7
    True
    """

    num_particles: int = 256
    num_islands: int = 8
    kernel: Kernel | None = None
    least_ess: float = 0.5
    recentre: bool = True

    def __post_init__(self) -> None:
        for name, least in (("num_particles", 16), ("num_islands", 2)):
            value = positive_count(f"SMC({name})", getattr(self, name), least)
            object.__setattr__(self, name, value)
        if self.num_particles % self.num_islands or self.num_particles < 4 * self.num_islands:
            raise ValueError(
                f"SMC(num_particles): {self.num_particles} particles do not make "
                f"{self.num_islands} islands of one size, at least 4 each; give a multiple."
            )
        if self.kernel is not None:
            if not isinstance(self.kernel, Kernel):
                raise ValueError(
                    f"SMC(kernel): {self.kernel!r} is no kernel with an acceptance step; give "
                    "gibbs_dp.HMC() or gibbs_dp.MALA()."
                )
            check_own(self.kernel)
        least_ess: Any = self.least_ess
        if not isinstance(least_ess, (int, float)) or not 0 < least_ess < 1:
            raise ValueError(f"SMC(least_ess): must be a number in (0, 1), got {least_ess!r}.")

    @property
    def mover(self) -> Kernel:
        """The kernel, or what stands in for None."""
        return HMC(integrator="leapfrog") if self.kernel is None else self.kernel

    @property
    def num_each(self) -> int:
        """Particles of an island."""
        return self.num_particles // self.num_islands

    def recentring(self, posterior: GibbsPosterior) -> Recentring | None:
        """Coordinates that particles move in; None: flat ones."""
        return recentring_of(posterior) if self.recentre else None

    @property
    def traits(self) -> Traits:
        """All gammas at once, with normalizers."""
        return Traits(is_path=True)

    @property
    def identity(self) -> str:
        """The settings, and the code of a kernel of one's own."""
        return " ".join(filter(None, (repr(self), own_code(type(self.mover)))))

    @property
    def least_accept(self) -> float:
        """Below it particles hardly move."""
        return 0.25

    def shape(
        self, posterior: GibbsPosterior, num_chains: int, num_samples: int
    ) -> tuple[int, int]:
        """Islands are the chains, their particles the draws."""
        del posterior, num_chains, num_samples
        return self.num_islands, self.num_each

    def default_tuning(self, dim: int) -> tuple[float, int]:
        """Those of the kernel; what is used is found on pilots."""
        return self.mover.default_tuning(dim)

    def find_path(
        self,
        key: PRNGKeyArray,
        posterior: GibbsPosterior,
        data: PyTree,
        gammas: Sequence[float],
        on_gamma: Callable[[], None] = lambda: None,
    ) -> Segment:
        """Find a path that serves all pilot datasets (leading axis of ``data``).

        Raises
        ------
        ValueError
            If a gamma is out of reach.
        ImproperPosteriorError
            If there is nothing to begin with: a flat prior, and no mode with curvature at the
            smallest gamma.
        """
        origin_key, path_key = jax.random.split(key)
        origin = wide_origin(origin_key, posterior, data, gammas[0])
        rows = jax.tree.leaves(data)[0].shape[1]
        at_once = max(1, PILOT_NUMBERS // (self.num_particles * (rows + posterior.dim)))
        return find_path(
            path_key,
            posterior,
            data,
            gammas,
            origin,
            self.mover,
            self.recentring(posterior),
            self.num_islands,
            self.num_each,
            self.least_ess,
            at_once,
            on_gamma,
        )

    def draw_path(
        self, key: PRNGKeyArray, posterior: GibbsPosterior, data: PyTree, segments: Segment
    ) -> ChainDraws:
        """Draws at the gammas of all segments (leading axis), of one dataset; traced."""
        origin: Any = jax.tree.map(lambda a: a[0], segments.origin)
        landscape = Landscape(posterior, data, origin, self.recentring(posterior))
        return run_path(key, landscape, segments, self.mover, self.num_islands, self.num_each)
