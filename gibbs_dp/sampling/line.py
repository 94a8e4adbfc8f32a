"""Exact posteriors of one coordinate: sums over nodes that every dataset has for itself."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.model.check import positive_count
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.kernels.base import Potential, Schedule, Traits
from gibbs_dp.sampling.laplace import locate
from gibbs_dp.sampling.sampler import ChainDraws, Sampler
from gibbs_dp.sampling.target import Target, Whitening

# Nodes lie at ``center + INNER width sinh(t)``, t evenly spaced: dense in the middle, and out to
# REACH widths.
INNER, REACH = 0.5, 40.0
# Sums over few nodes say where the posterior is, and how wide, before it is summed.
NUM_PASSES, NODES_OF_A_PASS = 2, 32


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
        *shifts, last = jax.random.uniform(key, (NUM_PASSES + 1,), starts.dtype)
        for shift in shifts:
            center, width = _moved(potential, center, width, shift)
        u, volume = _nodes(center, width, self.num_nodes, last)
        energy = _energies(potential, u)
        weight = jax.nn.softmax(volume - energy)
        one, false = jnp.ones((1,), u.dtype), jnp.zeros((), bool)
        return ChainDraws(
            u=u[None, :, None],
            v=(u[None, :, None] - center) / width,
            weight=weight[None],
            potential=energy[None],
            log_normalizer=jax.scipy.special.logsumexp(volume - energy),
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


def _moved(
    potential: Potential,
    center: Float[Array, ""],
    width: Float[Array, ""],
    shift: Float[Array, ""],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Mean and standard deviation, as a sum over few nodes has them.

    A posterior that lies between two nodes is at most about as wide as their gap.
    """
    u, volume = _nodes(center, width, NODES_OF_A_PASS, shift)
    weight = jax.nn.softmax(volume - _energies(potential, u))
    mean = jnp.sum(weight * u)
    sd = jnp.sqrt(jnp.sum(weight * (u - mean) ** 2))
    gap = u[NODES_OF_A_PASS // 2] - u[NODES_OF_A_PASS // 2 - 1]
    return mean, jnp.maximum(sd, 0.5 * gap)
