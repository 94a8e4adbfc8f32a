"""Exact posteriors: on finitely many points, and of one coordinate on nodes that a dataset has."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from numpy.typing import ArrayLike

from gibbs_dp.model.charts import BoxChart, chart_of
from gibbs_dp.model.check import positive_count
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.base import Potential, Schedule, Traits
from gibbs_dp.sampling.laplace import locate
from gibbs_dp.sampling.sampler import ChainDraws, Sampler
from gibbs_dp.sampling.target import Target, Terms, Whitening

# Effective points, one over the sum of squared weights, from which a sum stands for a continuum.
LEAST_POINTS = 5.0


@dataclass(frozen=True, eq=False)
class Grid(Sampler):
    """Weights ``exp(-gamma L) prior`` on given points instead of a Markov chain.

    On a finite class of candidates (private median, private selection: the exponential mechanism)
    the posterior is exact. On a lattice it is exact for the discretized prior, which is the
    continuous one as far as the lattice is wide and fine enough; the audit warns where it is not.
    There is no burn-in, no R-hat and no sampling error: the only noise left is between datasets.

    Parameters
    ----------
    candidates
        The hypothesis class: points of the prior's support, ``[candidates, *shape of theta]``.
        The prior's density at the candidates, normalized, is the prior on them.
    low, high
        Instead of candidates: a lattice of cell midpoints between these corners (numbers, or one
        per coordinate), inside the prior's support.
    num_points
        Lattice points per coordinate; at most 2 coordinates.

    Raises
    ------
    ValueError
        Unless exactly one of ``candidates`` and ``low, high`` is given, and they make sense.

    Examples
    --------
    >>> Grid(low=-1.0, high=1.0, num_points=4).points_of_shape((1,)).ravel().tolist()
    [-0.75, -0.25, 0.25, 0.75]
    """

    candidates: ArrayLike | Sequence[Any] | None = None
    low: ArrayLike | float | Sequence[float] | None = None
    high: ArrayLike | float | Sequence[float] | None = None
    num_points: int = 512

    def __post_init__(self) -> None:
        if (self.candidates is None) == (self.low is None or self.high is None):
            raise ValueError("Grid: give either `candidates`, or both `low` and `high`.")
        if self.candidates is not None:
            values = np.asarray(self.candidates)
            if values.ndim == 0 or values.shape[0] < 2 or not np.isfinite(values).all():
                raise ValueError("Grid(candidates): give at least two finite points.")
            return
        low, high = np.asarray(self.low, float), np.asarray(self.high, float)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError(f"Grid(low, high): needs finite low < high, got {low} and {high}.")
        if self.num_points < 2:
            raise ValueError(f"Grid(num_points): must be at least 2, got {self.num_points}.")

    @property
    def traits(self) -> Traits:
        """Exact; for a lattice, as far as that stands for the continuum."""
        return Traits(is_exact=True, is_discretized=self.is_lattice)

    @property
    def identity(self) -> str:
        """Digest of the points."""
        found = hashlib.sha256(str(self.num_points).encode())
        for points in (self.candidates, self.low, self.high):
            if points is not None:
                array = np.asarray(points, float)
                found.update(str(array.shape).encode() + array.tobytes())
        return f"Grid {found.hexdigest()[:16]}"

    @property
    def is_lattice(self) -> bool:
        """True if the points stand for a continuum."""
        return self.candidates is None

    def points_of_shape(self, shape: tuple[int, ...]) -> Float[np.ndarray, points * shape]:
        """Points for a parameter of this shape.

        Raises
        ------
        ValueError
            If candidates have another shape, or a lattice would need more than 2 dimensions.
        """
        if self.candidates is not None:
            values = np.asarray(self.candidates, float)
            if values.shape[1:] != shape:
                raise ValueError(
                    f"Grid(candidates): points of shape {values.shape[1:]} for a parameter of "
                    f"shape {shape}."
                )
            return values
        size = int(np.prod(shape))
        if size > 2:
            raise ValueError(
                f"Grid: a lattice in {size} dimensions is too large; sample with gibbs_dp.HMC."
            )
        low = np.broadcast_to(np.asarray(self.low, float), shape).ravel()
        high = np.broadcast_to(np.asarray(self.high, float), shape).ravel()
        fractions = (np.arange(self.num_points) + 0.5) / self.num_points
        axes = [a + (b - a) * fractions for a, b in zip(low, high, strict=True)]
        return np.array(list(itertools.product(*axes))).reshape(-1, *shape)

    def points(self, posterior: GibbsPosterior) -> Float[Array, "points dim"]:
        """Points in the posterior's flat coordinates."""
        values = jnp.asarray(self.points_of_shape(posterior.prior.supports[0].shape))
        rebuild = posterior.prior.treedef.unflatten
        return jax.vmap(lambda x: posterior.unconstrain(rebuild([x])))(values)

    def check(self, posterior: GibbsPosterior) -> None:
        """Refuse a posterior that the points do not fit.

        Raises
        ------
        ValueError
            If theta is not a single array, or a point lies outside the prior's support.
        """
        supports = posterior.prior.supports
        if len(supports) != 1:
            raise ValueError("Grid: theta must be a single array, not a tree; sample with HMC.")
        values = jnp.asarray(self.points_of_shape(supports[0].shape))
        outside = int(jnp.sum(~jax.vmap(supports[0].contains)(values)))
        if outside:
            raise ValueError(
                f"Grid: {outside} of {values.shape[0]} points lie outside the prior's support; "
                "move them inside."
            )
        if not bool(jnp.all(jnp.isfinite(self.points(posterior)))):
            raise ValueError(
                "Grid: candidates lie on the edge of the prior's support; widen the support, the "
                "candidates themselves are what bounds a finite class."
            )

    def shape(
        self, posterior: GibbsPosterior, num_chains: int, num_samples: int
    ) -> tuple[int, int]:
        """One chain whose draws are the points."""
        del num_chains, num_samples
        return 1, len(self.points_of_shape(posterior.prior.supports[0].shape))

    def finite_class(self, posterior: GibbsPosterior) -> Float[Array, "points dim"] | None:
        """Return the candidates; None for a lattice."""
        return None if self.is_lattice else self.points(posterior)

    def _edge(self, posterior: GibbsPosterior) -> Bool[np.ndarray, " points"]:
        """Mark the points on the rim of the lattice where the prior does not end there, too."""
        support = posterior.prior.supports[0]
        size = int(np.prod(support.shape))
        if not self.is_lattice:
            return np.zeros(self.points_of_shape(support.shape).shape[0], bool)
        index = np.indices((self.num_points,) * size).reshape(size, -1)
        low, high = (
            np.broadcast_to(np.asarray(end, float), support.shape).reshape(size, 1)
            for end in (self.low, self.high)
        )
        least, most = support.bounds()
        is_below = (index == 0) & (low > least)
        return (is_below | ((index == self.num_points - 1) & (high < most))).any(axis=0)

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
        """Weigh all points by the posterior of one dataset: one exact, weighted chain."""
        del key, starts, schedule, num_chains, num_samples, scale, is_joint
        posterior, u = target.posterior, self.points(target.posterior)
        reference = target.terms(u[u.shape[0] // 2])

        def energy(point: Float[Array, " dim"]) -> Float[Array, ""]:
            # Density with respect to theta, not u: the points are laid out in theta.
            losses = target.terms(point).losses
            prior = posterior.prior.log_prob(posterior.constrain(point))
            return target.gamma * jnp.sum(losses - reference.losses) - prior

        potential = jax.vmap(energy)(u)
        weight = jax.nn.softmax(-potential)
        one, false = jnp.ones((1,), u.dtype), jnp.zeros((), bool)
        best = u[jnp.argmax(weight)]
        return ChainDraws(
            u=u[None],
            v=u[None],
            weight=weight[None],
            potential=potential[None],
            log_normalizer=jax.scipy.special.logsumexp(-potential),
            log_normalizer_se=None,
            worst_ess=one[0],
            accept_prob=one,
            virial=jnp.nan * one,  # sums have no gradient to check
            is_stuck=false[None],
            whitening=None,
            reference=Terms(reference.losses, jnp.zeros((), u.dtype)),
            mode=best,
            mode_potential_gap=0.0 * one,
            is_curved=~false,
            is_improper=false,
            edge_weight=jnp.sum(jnp.where(self._edge(posterior), weight, 0.0)),
            inflation=0.0 * one,
            kl_inflation=0.0 * one[0],
        )


def lattice_on_interval(posterior: GibbsPosterior, num_points: int) -> Grid | None:
    """Return a lattice for a single number on a bounded interval; None for other parameters."""
    supports = posterior.prior.supports
    if len(supports) != 1 or int(np.prod(supports[0].shape)) != 1:
        return None
    chart: Any = chart_of(supports[0].constraint)
    if not isinstance(chart, BoxChart):
        return None
    low, high = (float(np.ravel(end)[0]) for end in (chart.low, chart.high))
    return Grid(low=low, high=high, num_points=num_points)


# Nodes lie at ``center + INNER width sinh(t)``, t evenly spaced: dense in the middle, and out to
# REACH widths.
INNER, REACH = 0.5, 40.0
# Sums over few nodes say where the posterior is, and how wide, before it is summed: two where the
# Laplace fit is a fair one, and more where it is flat, and thousands of times too wide.
NUM_PASSES, MOST_PASSES, NODES_OF_A_PASS = 2, 8, 32


@dataclass(frozen=True)
class Line(Sampler):
    """Weights on a line of nodes instead of a Markov chain, for posteriors of one coordinate.

    Every dataset has nodes of its own, around its posterior's mode and as far apart as it is wide:
    a change of variables, after which the rule of equal steps converges geometrically for smooth
    densities (Takahasi & Mori 1974). There is no burn-in, no R-hat and no sampling error. Nodes are
    shifted at random, so that kinks and jumps of a loss cost precision and leave means alone; an
    audit compares two shifts on its pilots, and refuses a line that is too coarse.

    ``gibbs_dp.audit`` takes it by itself where theta has one coordinate.

    Parameters
    ----------
    num_nodes
        Nodes of a dataset, at least 16. 64 do for losses of many examples; a loss of the whole
        dataset that has a kink, such as a distance, wants 256.

    Raises
    ------
    ValueError
        If there are fewer nodes, or theta has more than one coordinate.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> problem = gdp.problems.build_problem("linear-regression")
    >>> report = gdp.audit(problem.posterior, problem.population, n=100, gammas=[1.0],
    ...                    sampler=gdp.Line(), num_datasets=256, progress=False,
    ...                    learn=[gdp.OnAverageKL()])
    >>> report["estimator"].tolist()
    ['exact sum']
    """

    num_nodes: int = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_nodes", positive_count("num_nodes", self.num_nodes, 16))

    @property
    def traits(self) -> Traits:
        """Exact, as far as the nodes stand for the continuum, around the mode that was found."""
        return Traits(is_exact=True, is_discretized=True, is_local=True)

    def check(self, posterior: GibbsPosterior) -> None:
        """Refuse a posterior of several coordinates."""
        if posterior.dim != 1:
            raise ValueError(
                f"Line: is for one coordinate, and theta has {posterior.dim}; sample with "
                "gibbs_dp.HMC."
            )

    def shape(
        self, posterior: GibbsPosterior, num_chains: int, num_samples: int
    ) -> tuple[int, int]:
        """One chain whose draws are the nodes."""
        del posterior, num_chains, num_samples
        return 1, self.num_nodes

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
        """Weigh nodes by the posterior of one dataset: one exact, weighted chain."""
        del num_chains, num_samples, scale, is_joint
        found = locate(target, starts, schedule.num_newton)
        laplace = found.whitening
        potential = target.around(laplace.center, found.reference, laplace)
        center, width = laplace.center[0], jnp.ravel(laplace.scale)[0]
        shifts = jax.random.uniform(key, (MOST_PASSES + 1,), starts.dtype)
        center, width = nodes_around(potential, center, width, shifts[1:])
        u, volume = _nodes(center, width, self.num_nodes, shifts[0])
        energy = _energies(potential, u)
        weight = jax.nn.softmax(volume - energy)
        log_normalizer = jax.scipy.special.logsumexp(volume - energy)
        # Nodes without weight, where losses may overflow: no sum must meet zero times infinity.
        best, is_idle = jnp.argmax(weight), weight == 0
        u, energy = (jnp.where(is_idle, a[best], a) for a in (u, energy))
        one, false = jnp.ones((1,), u.dtype), jnp.zeros((), bool)
        return ChainDraws(
            u=u[None, :, None],
            v=(u[None, :, None] - center) / width,
            weight=weight[None],
            potential=energy[None],
            log_normalizer=log_normalizer,
            log_normalizer_se=None,
            worst_ess=one[0],
            accept_prob=one,
            virial=jnp.nan * one,  # sums have no gradient to check
            is_stuck=false[None],
            whitening=Whitening(center[None], width[None]),
            reference=found.reference,
            mode=laplace.center,
            mode_potential_gap=found.gaps,
            is_curved=found.is_curved,
            is_improper=found.is_improper,
            edge_weight=weight[0] + weight[-1],
            inflation=0.0 * one,
            kl_inflation=0.0 * one[0],
        )


def _nodes(
    center: Float[Array, ""], width: Float[Array, ""], count: int, shift: Float[Array, ""]
) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """Nodes, and the logarithms of what each stands for; ``shift``, in [0, 1), is in their gaps."""
    far = float(np.arcsinh(REACH / INNER))
    step = 2.0 * far / count
    t = step * (jnp.arange(count) + shift) - far
    u = center + INNER * width * jnp.sinh(t)
    return u, jnp.log(width * jnp.cosh(t) * (INNER * step))


def _energies(potential: Potential, u: Float[Array, " nodes"]) -> Float[Array, " nodes"]:
    energy = jax.vmap(lambda x: potential(x[None]))(u)
    return jnp.where(jnp.isnan(energy), jnp.inf, energy)


def nodes_around(
    potential: Potential,
    center: Float[Array, ""],
    width: Float[Array, ""],
    shifts: Float[Array, " passes"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Where nodes are to lie, and how wide: mean and deviation, as sums over few have them."""

    def is_unsettled(state: tuple[Any, ...]) -> Bool[Array, ""]:
        i, _, _, is_between = state
        return (i < NUM_PASSES) | (is_between & (i < MOST_PASSES))

    def move(state: tuple[Any, ...]) -> tuple[Any, ...]:
        i, center, width, _ = state
        u, volume = _nodes(center, width, NODES_OF_A_PASS, shifts[i])
        weight = jax.nn.softmax(volume - _energies(potential, u))
        mean = jnp.sum(weight * u)
        sd = jnp.sqrt(jnp.sum(weight * (u - mean) ** 2))
        gap = jnp.exp(volume[jnp.argmax(weight)])
        # Two nodes beside the posterior are half a gap wide; in its midst a gap is a sixth of it.
        return i + 1, mean, jnp.maximum(sd, 0.5 * gap), sd < 2.0 * gap

    begin = (jnp.zeros((), jnp.int32), center, width, jnp.ones((), bool))
    _, center, width, _ = jax.lax.while_loop(is_unsettled, move, begin)
    return center, width
