"""On-average KL of what is released of a draw: ``f(theta)`` in place of theta (Lemma 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gibbs_dp.estimators import average
from gibbs_dp.model.check import as_key, positive_count
from gibbs_dp.model.populations import HasSample, as_population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.papers.capacity.closed_forms import monomials
from gibbs_dp.papers.capacity.on_average import LOOSE_CRITICS
from gibbs_dp.sampling.kernels import Kernel
from gibbs_dp.sampling.sample import sample
from gibbs_dp.sampling.sampler import Sampler

NUM_STEPS = 12
# A coordinate of f(theta) that varies less than this is a constant.
LEAST_SPREAD = 1e-12
# Above this, in nats, few draws carry the weights.
LOOSE_ABOVE = 1.0


class PostProcessed(NamedTuple):
    """On-average KL before and after post-processing, nats, from the same draws.

    Attributes
    ----------
    kl, kl_se
        Of ``f(theta)``: in expectation at most its on-average KL, but for ``O(1 / draws)``.
    on_average_kl, on_average_kl_se
        Of theta itself, which Lemma 5 says is at least as large.
    num_datasets
        Pairs of datasets that both are means over.
    warnings
        Where the draws cannot be trusted.
    """

    kl: float
    kl_se: float
    on_average_kl: float
    on_average_kl_se: float
    num_datasets: int
    warnings: tuple[str, ...]


def post_processed_kl(
    posterior: GibbsPosterior,
    population: HasSample | Callable[[PRNGKeyArray, int], Any],
    n: int,
    gamma: float,
    f: Callable[[Any], Array],
    *,
    degree: int = 2,
    num_datasets: int = 128,
    num_chains: int = 8,
    num_warmup: int = 100,
    num_samples: int = 512,
    key: int | PRNGKeyArray = 0,
    sampler: Kernel | Sampler | None = None,
) -> PostProcessed:
    """On-average KL of ``f(theta)``, ``E KL(f(A(Z)) || f(A(Z^(1))))``, from below.

    What is released is often less than theta: some coordinates, a prediction, a decision. Its
    on-average KL is at most that of theta (Wang, Lei & Fienberg 2016, Lemma 5). Draws from ``p``
    are also draws from ``p'`` once they are weighted by ``exp(-gamma (loss(theta, z') - loss(theta,
    z_1)))``; a polynomial in ``f(theta)`` that tells the two apart is fitted on half of the chains
    and judged on the other half. Adjacency is replace-one. No number here is a guarantee: an
    attacker with a better critic than a polynomial sees more, up to ``on_average_kl``.

    Parameters
    ----------
    posterior
        Loss of one example, and prior.
    population
        ``(key, n) -> examples``, or an object of ``gibbs_dp.populations``, of independent examples.
    n
        Examples per dataset.
    gamma
        Inverse temperature, positive.
    f
        From one theta to an array; in JAX, of a few coordinates. One number for every outcome but
        one where ``f`` has finitely many.
    degree
        Of the polynomial: 1 is exact for Gaussians of equal covariance.
    num_datasets
        Pairs of datasets, the units of the standard errors.
    num_chains, num_samples, num_warmup
        As in ``gibbs_dp.sample``; chains even, at least 4.
    key
        Integer seed or JAX key.
    sampler
        As in ``gibbs_dp.sample``.

    Returns
    -------
    PostProcessed
        Both numbers, in nats.

    Raises
    ------
    ValueError
        If an argument makes no sense, or the loss is of the whole dataset.

    Examples
    --------
    >>> import jax, gibbs_dp as gdp
    >>> posterior = gdp.GibbsPosterior(gdp.losses.half_squared_distance,
    ...                                gdp.Flat(gdp.supports.real(2)))
    >>> found = post_processed_kl(posterior, lambda key, n: jax.random.normal(key, (n, 2)), n=10,
    ...                           gamma=1.0, f=lambda theta: theta[0])
    >>> bool(abs(found.kl - 0.1) < 5 * found.kl_se)                   # half of eps_KL = d / n
    True
    """
    n, num_datasets = positive_count("n", n), positive_count("num_datasets", num_datasets, least=2)
    degree = positive_count("degree", degree)
    chains = positive_count("num_chains", num_chains, least=4)
    if chains % 2:
        raise ValueError(f"num_chains: must be even, got {chains}; half fit and half judge.")
    if not (math.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma: must be positive and finite, got {gamma}.")
    if posterior.loss is None:
        raise ValueError("posterior: post-processing needs a loss of single examples; give loss=.")
    source = as_population(population)
    if source.is_dependent:
        raise ValueError("population: its examples are dependent; give one of independent ones.")
    data_key, draw_key = jax.random.split(as_key(key))
    data, ghosts = jax.vmap(lambda k: source.sample(k, n, 1))(
        jax.random.split(data_key, num_datasets)
    )
    draws = sample(
        posterior,
        data,
        gamma=gamma,
        key=draw_key,
        sampler=sampler,
        num_chains=chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        is_batch=True,
    )

    def of_draw(theta: Any, own: Any, ghost: Any) -> tuple[Array, Array]:
        assert posterior.loss is not None
        gap = gamma * (posterior.loss(theta, ghost) - posterior.loss(theta, own))
        return gap, jnp.ravel(jnp.asarray(f(theta), gap.dtype))

    def first(examples: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[:, 0], examples)

    of_draws = jax.vmap(jax.vmap(of_draw, (0, None, None)), (0, None, None))
    thetas = jax.tree.map(jnp.asarray, draws.theta)
    gaps, outputs = jax.jit(jax.vmap(of_draws))(thetas, first(data), first(ghosts))
    gap, output = np.asarray(gaps, np.float64), np.asarray(outputs, np.float64)
    half = chains // 2
    seen = np.array([_seen(g, y, half, degree) for g, y in zip(gap, output, strict=True)])
    centred = gap - gap.mean(axis=(1, 2), keepdims=True)
    full = np.log1p(np.expm1(-centred).mean(axis=(1, 2)))
    after, before = average(seen), average(full)
    told = [str(warning) for warning in draws.warnings]
    if before.value > LOOSE_ABOVE:
        told.append(str(LOOSE_CRITICS(full=before.value)))
    return PostProcessed(after.value, after.se, before.value, before.se, num_datasets, tuple(told))


def _seen(
    gap: Float[np.ndarray, "chains samples"],
    output: Float[np.ndarray, "chains samples k"],
    half: int,
    degree: int,
) -> float:
    """Mean of both ways of fitting on one half of the chains and judging on the other."""
    spread = output.std(axis=(0, 1))
    varies = spread > LEAST_SPREAD
    if not varies.any():
        return 0.0
    scaled = (output - output.mean(axis=(0, 1)))[..., varies] / spread[varies]
    powers = monomials(scaled.shape[-1], degree)
    features = np.prod(scaled[..., None, :] ** powers, axis=-1)
    halves = [
        (features[part].reshape(-1, powers.shape[0]), weights_of(gap[part].ravel()))
        for part in (slice(None, half), slice(half, None))
    ]
    a, b = halves
    return 0.5 * (judged(*b, fitted(*a)) + judged(*a, fitted(*b)))


def weights_of(gap: Float[np.ndarray, " draws"]) -> Float[np.ndarray, " draws"]:
    """Weights of mean 1 that turn draws of one posterior into draws of its neighbour.

    Examples
    --------
    >>> weights_of(np.zeros(2))
    array([1., 1.])
    """
    weights = np.exp(gap.min() - gap)
    return np.asarray(weights / weights.mean())


def judged(
    features: Float[np.ndarray, "draws m"],
    weights: Float[np.ndarray, " draws"],
    slopes: Float[np.ndarray, " m"],
) -> float:
    """``E_p h - E_p'[e^h - 1]`` of the critic ``h = features @ slopes``, by terms of second order.

    Examples
    --------
    >>> judged(np.ones((2, 1)), np.ones(2), np.zeros(1))
    0.0
    """
    h = features @ slopes
    with np.errstate(over="ignore", invalid="ignore"):
        rise = np.expm1(h)
        value = float(np.mean(h - rise) - np.mean((weights - 1.0) * rise))
    return value if math.isfinite(value) else -math.inf


def fitted(
    features: Float[np.ndarray, "draws m"], weights: Float[np.ndarray, " draws"]
) -> Float[np.ndarray, " m"]:
    """Slopes that make `judged` largest: Newton's method, halving steps that do not gain.

    Examples
    --------
    >>> fitted(np.ones((2, 1)), np.ones(2))
    array([0.])
    """
    slopes = np.zeros(features.shape[1])
    value = 0.0
    for _ in range(NUM_STEPS):
        pull = weights * np.exp(features @ slopes)
        gradient = features.mean(axis=0) - (pull[:, None] * features).mean(axis=0)
        curvature = (features * pull[:, None]).T @ features / features.shape[0]
        step = np.linalg.lstsq(curvature, gradient, rcond=1e-9)[0]
        for _ in range(NUM_STEPS):
            found = judged(features, weights, slopes + step)
            if found > value:
                break
            step = 0.5 * step
        else:
            break
        slopes, value = slopes + step, found
    return slopes
