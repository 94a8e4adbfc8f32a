"""Closed forms: Gaussian and private means, Beta-Bernoulli, correlated means, regression."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import betaln, digamma, erf, log_expit, ndtr

from gibbs_dp.exact import laws
from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import gaussian_kl

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_MAX_ATOMS = 200_000


class ClosedForm(NamedTuple):
    """On-average KL (replace-one), generalization error, mutual and lautum information."""

    on_average_kl: float
    generalization_error: float
    mutual_information: float
    lautum_information: float


def gaussian_mean(
    gamma: float, n: int, dim: int, data_variance: float, prior_variance: float = math.inf
) -> ClosedForm:
    """Solve the Gaussian mean, ``loss = |theta - z|^2 / 2`` in ``R^d``.

    Coordinates of ``z`` are independent with variance ``v``; the prior is ``N(0, t^2 I)`` or flat.
    With ``P = n gamma + 1/t^2`` the posterior is ``N(n gamma zbar / P, I / P)``,
    ``eps_KL = d gamma^2 v / P`` and ``gen = d gamma v / P`` for any law of ``z``; if it is
    Gaussian, ``I = (d/2) log(1 + n gamma^2 v / P)`` and ``lautum = n eps_KL - I`` (Lemma 9).

    Examples
    --------
    >>> gaussian_mean(gamma=0.5, n=10, dim=2, data_variance=1.0).on_average_kl
    0.1
    """
    checks.positive("gamma", gamma)
    checks.count("n", n)
    checks.count("dim", dim)
    checks.positive("data_variance", data_variance)
    if math.isnan(prior_variance) or prior_variance <= 0:
        raise ValueError(f"prior_variance must be positive or inf, got {prior_variance}.")
    precision = n * gamma + 1 / prior_variance
    on_average_kl = dim * gamma**2 * data_variance / precision
    signal = n * gamma**2 * data_variance / precision
    mutual = 0.5 * dim * math.log1p(signal)
    return ClosedForm(on_average_kl, on_average_kl / gamma, mutual, dim * signal - mutual)


# The private mean of Figure 2a: a Gibbs posterior with the loss ``L = |zbar - theta|`` and
# a flat prior on the line, which is the Laplace mechanism with scale ``1 / gamma``.


def private_mean_on_average_kl(gamma: float, n: int, bound: float = 2.0) -> float:
    """On-average KL of the private mean, Figure 2a of Wang, Lei & Fienberg (2016), in nats.

    ``z_i ~ N(0, 1)`` truncated to ``[-bound, bound]``: ``E[D + e^-D - 1]`` with
    ``D = gamma |z - z'| / n``, over the density ``sqrt(2) phi(u/sqrt 2) erf(bound - u/2) / Z^2`` of
    ``u = |z - z'|``.

    Examples
    --------
    >>> round(private_mean_on_average_kl(10.0, 100), 8)
    0.00727199
    """
    checks.positive("gamma", gamma)
    checks.positive("bound", bound)
    rate = gamma / checks.count("n", n)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    # Panels shorter than 1 / rate near 0, where e^{-rate u} lives.
    edges = np.unique(
        np.concatenate(
            [np.linspace(0, 2 * bound, 9), np.minimum(np.arange(1, 9) / rate, 2 * bound)]
        )
    )
    half = np.diff(edges)[:, None] / 2
    u = edges[:-1, None] + half * (1 + nodes)
    mass = float(ndtr(bound) - ndtr(-bound))
    density = np.exp(-(u**2) / 4) / math.sqrt(math.pi) * erf(bound - u / 2) / mass**2
    d = rate * u
    # Below 1e-2 the series keeps the digits that expm1 would lose.
    series = d**2 * (1 / 2 - d * (1 / 6 - d * (1 / 24 - d * (1 / 120 - d / 720))))
    kl = np.where(d < 1e-2, series, d + np.expm1(-d))
    return float((kl * density * weights * half).sum())


def private_mean_excess_risk(gamma: float, n: int, bound: float = 2.0) -> float:
    r"""Excess risk of the private mean, Figure 2a of Wang, Lei & Fienberg (2016).

    ``E |zbar' - zbar - b| - E |zbar'|`` with ``b ~ Lap(1 / gamma)`` and the mean ``zbar'`` of a
    fresh dataset, of ten examples or more; the best parameter is 0. Of an ``X`` with characteristic
    function ``f``, ``E |X| = (2 / pi) int_0^oo (1 - f(t)) / t^2 dt``.

    Examples
    --------
    >>> round(private_mean_excess_risk(10.0, 100), 6)
    0.075344
    """
    from scipy.integrate import quad  # slow to import

    checks.positive("gamma", gamma)
    checks.positive("bound", bound)
    checks.count("n", n, minimum=10)
    nodes, weights = np.polynomial.legendre.leggauss(96)
    z, weight = bound * nodes, bound * weights * np.exp(-((bound * nodes) ** 2) / 2)
    weight /= weight.sum()
    variance = float((weight * z**2).sum()) / n
    limit = 0.5 * variance + gamma**-2  # of the integrand at 0

    def integrand(t: float) -> float:
        if t * t * max(variance, gamma**-2) < 1e-10:
            return limit
        mean = float((weight * np.cos(t / n * z)).sum()) ** n
        return mean * (1.0 - mean / (1.0 + (t / gamma) ** 2)) / t**2

    # Beyond 12 deviations of its frequency the characteristic function of ten or more is nothing.
    edges = np.concatenate([[0.0], np.geomspace(1e-3, 12.0, 24)]) / math.sqrt(variance)
    parts = [quad(integrand, a, b)[0] for a, b in itertools.pairwise(edges)]
    return float(2.0 / math.pi * sum(parts))


class ChannelInformation(NamedTuple):
    """Mutual and lautum information in nats."""

    mutual_information: float
    lautum_information: float


def laplace_mechanism_information(
    values: ArrayLike, probs: ArrayLike, scale: float
) -> ChannelInformation:
    """Information between a discrete statistic and its release with Laplace noise.

    ``I = h(W) - log(2 e b)`` with the mixture's entropy by quadrature between its atoms, and
    ``I + lautum = E[D + e^-D - 1]``, ``D = |a - a'| / b`` for two independent copies (Lemma 9).
    """
    checks.positive("scale", scale)
    mass = checks.law("probs", probs)
    atoms = np.asarray(values, dtype=np.float64)
    if atoms.shape != mass.shape or not np.all(np.isfinite(atoms)):
        raise ValueError("values must be finite and of the same length as probs; pass both.")
    order = np.argsort(atoms, kind="stable")
    atoms, mass = atoms[order] / scale, mass[order]  # in units of the noise
    gaps = np.diff(atoms)
    decay = np.exp(-gaps)
    from_left, from_right = mass.copy(), mass.copy()
    for j in range(1, mass.size):
        from_left[j] += decay[j - 1] * from_left[j - 1]
        from_right[-1 - j] += decay[-j] * from_right[-j]
    entropy = math.log(2) + _entropy_of_twice_density(gaps, from_left, from_right)
    below = np.cumsum(mass)[:-1]
    mean_distance = 2 * float((below * (1 - below)) @ gaps)
    mean_decay = float(mass @ (from_left + from_right - mass))
    total = mean_distance + mean_decay - 1
    mutual = max(0.0, float(entropy) - math.log(2) - 1)
    return ChannelInformation(mutual, max(0.0, total - mutual))


def _entropy_of_twice_density(
    gaps: Float[np.ndarray, " gaps"],
    from_left: Float[np.ndarray, " atoms"],
    from_right: Float[np.ndarray, " atoms"],
) -> float:
    """``-int q log(2 q)`` for ``2 q(w) = F e^{-(w - a)} + G e^{-(a' - w)}`` between atoms."""
    # Outside, 2 q = c e^{-u}: the integral is (c/2)(1 - log c).
    ends = (float(from_right[0]), float(from_left[-1]))
    total = sum(0.5 * c * (1 - math.log(c)) for c in ends)
    pieces = np.maximum(1, np.ceil(gaps / 0.5)).astype(np.int64)
    require_cells("quadrature nodes", int(pieces.sum()) * _NODES.size)
    segment = np.repeat(np.arange(gaps.size), pieces)
    first = np.repeat(np.concatenate([[0], np.cumsum(pieces)[:-1]]), pieces)
    width = gaps[segment] / pieces[segment]
    start = (np.arange(segment.size) - first) * width
    u = start[:, None] + width[:, None] * (1 + _NODES) / 2
    rest = gaps[segment][:, None] - u
    density = from_left[segment][:, None] * np.exp(-u)
    density += from_right[segment + 1][:, None] * np.exp(-rest)
    # Atoms may coincide: a segment of length 0 adds nothing.
    terms = np.where(density > 0, -density * np.log(np.maximum(density, 1e-300)), 0.0)
    return total + 0.25 * float(((terms * _WEIGHTS).sum(axis=1) * width).sum())


def truncated_normal_mean_law(
    n: int, bound: float = 2.0, num_cells: int = 2048
) -> tuple[Float[np.ndarray, " atoms"], Float[np.ndarray, " atoms"]]:
    """Law of the mean of ``n`` truncated normals, on a lattice."""
    checks.count("n", n)
    checks.positive("bound", bound)
    checks.count("num_cells", num_cells, minimum=2)
    edges = np.linspace(-bound, bound, num_cells + 1)
    cell = np.diff(ndtr(edges))
    cell /= cell.sum()
    size = n * (num_cells - 1) + 1
    require_cells("atoms", size)
    spectrum = np.fft.rfft(cell, 2 * size) ** n
    probs = np.fft.irfft(spectrum, 2 * size)[:size]
    values = (np.arange(size) / (num_cells - 1) * 2 / n - 1) * (bound - bound / num_cells)
    keep = probs > 1e-18
    return values[keep], probs[keep] / probs[keep].sum()


def private_mean(gamma: float, n: int, bound: float = 2.0) -> ClosedForm:
    """On-average KL, structured generalization gap, mutual and lautum information."""
    kl = private_mean_on_average_kl(gamma, n, bound)
    num_cells = int(np.clip(_MAX_ATOMS // n, 64, 4096))
    values, probs = truncated_normal_mean_law(n, bound, num_cells)
    mutual, lautum = laplace_mechanism_information(values, probs, 1 / gamma)
    return ClosedForm(kl, (mutual + lautum) / gamma, mutual, lautum)


def private_mean_dp_epsilon(gamma: float, n: int, bound: float = 2.0) -> float:
    """Pure DP of the private mean, replace-one: ``2 bound gamma / n`` (attained)."""
    return (
        2 * checks.positive("bound", bound) * checks.positive("gamma", gamma) / checks.count("n", n)
    )


# Beta-Bernoulli with log loss: tempered Bayes for a coin.


def beta_bernoulli(
    gamma: float, n: int, probability: float, prior_a: float = 1.0, prior_b: float = 1.0
) -> ClosedForm:
    """Coin of the given probability, log loss, ``Beta(a, b)`` prior.

    With ``k`` heads the posterior is ``Beta(a + gamma k, b + gamma (n - k))``. On-average KL and
    ``gen`` are finite sums of digammas; the informations integrate the mixture over ``k`` by the
    trapezoidal rule in ``logit theta``, which converges exponentially.
    """
    from scipy.stats import binom  # slow to import

    checks.positive("gamma", gamma)
    checks.count("n", n)
    checks.unit_interval("probability", probability, open_left=True)
    checks.positive("prior_a", prior_a)
    checks.positive("prior_b", prior_b)
    heads = np.arange(n + 1)
    a, b = prior_a + gamma * heads, prior_b + gamma * (n - heads)
    logit_mean = digamma(a) - digamma(b)
    # Swapping one toss among n - 1 others: KL both ways is gamma times the change of E logit.
    others = binom.pmf(np.arange(n), n - 1, probability)
    both_ways = gamma * float(others @ np.diff(logit_mean))
    on_average_kl = probability * (1 - probability) * both_ways
    mass = binom.pmf(heads, n, probability)
    gen = float(mass @ ((heads / n - probability) * logit_mean))
    # Tails in x = logit theta fall like e^{a x} and e^{-b x}; the bulk is 1/sqrt(a + b) wide.
    low, high = -45 / float(a.min()), 45 / float(b.min())
    step = 0.2 / math.sqrt(prior_a + prior_b + gamma * n + 16)
    num_nodes = int((high - low) / step) + 1
    require_cells("posteriors x nodes", num_nodes * (n + 1))
    x = low + step * np.arange(num_nodes)
    log_law = a[:, None] * log_expit(x) + b[:, None] * log_expit(-x)
    log_law += math.log(step) - betaln(a, b)[:, None]
    with np.errstate(divide="ignore"):
        weight = binom.logpmf(heads, n, probability)
    return ClosedForm(
        on_average_kl,
        gen,
        laws.mutual_information(weight, log_law),
        laws.lautum_information(weight, log_law),
    )


# Gaussian mean of correlated examples: a Gaussian process, or any second moments.


def correlated_mean(
    gamma: float, covariance: ArrayLike, dim: int = 1, prior_variance: float = math.inf
) -> ClosedForm:
    """Solve the Gaussian mean when examples are correlated and the **whole** dataset is replaced.

    ``loss = |theta - z|^2 / 2`` in ``R^d``; coordinates are independent and each has covariance
    ``K`` over the examples, any means. The posterior is ``N(n gamma zbar / P, I / P)`` with
    ``P = n gamma + 1/t^2``, whatever the law, so with ``V = Var(zbar) = sum_ij K_ij / n^2``

    ``E KL(A(Z) || A(Z~)) = d (n gamma)^2 V / P`` and, for Gaussian processes,
    ``I = (d/2) log(1 + (n gamma)^2 V / P)``, ``lautum`` the rest (Lemma 9).
    """
    checks.positive("gamma", gamma)
    checks.count("dim", dim)
    table = np.asarray(covariance, dtype=np.float64)
    if table.ndim != 2 or table.size == 0 or not np.allclose(table, table.T, atol=0.0):
        raise ValueError(
            f"covariance must be a symmetric matrix [n, n], got shape {list(table.shape)}."
        )
    if math.isnan(prior_variance) or prior_variance <= 0:
        raise ValueError(f"prior_variance must be positive or inf, got {prior_variance}.")
    n = table.shape[0]
    variance = checks.nonnegative("variance of the mean", float(table.sum()) / n**2)
    signal = (n * gamma) ** 2 * variance / (n * gamma + 1 / prior_variance)
    mutual = 0.5 * dim * math.log1p(signal)
    return ClosedForm(dim * signal, dim * signal / (n * gamma), mutual, dim * signal - mutual)


# Conjugate linear regression: ``loss = (y - x . theta)^2``, Gaussian or flat prior.


class GaussianPosterior(NamedTuple):
    """A Gaussian law by its mean ``[d]`` and precision ``[d, d]``."""

    mean: Float[np.ndarray, " d"]
    precision: Float[np.ndarray, "d d"]


def _design(x: ArrayLike) -> Float[np.ndarray, "n d"]:
    design = np.asarray(x, dtype=np.float64)
    if design.ndim != 2 or not np.all(np.isfinite(design)):
        raise ValueError(f"x must be a finite array [n, d], got shape {list(design.shape)}.")
    return design


def _precision(
    design: Float[np.ndarray, "n d"], gamma: float, prior_precision: float
) -> Float[np.ndarray, "d d"]:
    checks.positive("gamma", gamma)
    checks.nonnegative("prior_precision", prior_precision)
    precision = 2 * gamma * design.T @ design + prior_precision * np.eye(design.shape[1])
    if np.linalg.matrix_rank(precision, hermitian=True) < design.shape[1]:
        raise ValueError(
            "the posterior is improper: x has dependent columns and prior_precision is 0; "
            "pass prior_precision > 0."
        )
    return np.asarray(precision)


@checks.whole_arrays
def linear_regression_posterior(
    x: ArrayLike, y: ArrayLike, gamma: float, prior_precision: float = 0.0
) -> GaussianPosterior:
    """Posterior of given data: precision ``2 gamma X'X + tau I``, mean ``2 gamma P^-1 X'y``."""
    design = _design(x)
    responses = np.asarray(y, dtype=np.float64)
    if responses.shape != design.shape[:1]:
        raise ValueError(
            f"y must have shape [n] = {[design.shape[0]]}, got {list(responses.shape)}; "
            "pass one response per row of x."
        )
    precision = _precision(design, gamma, prior_precision)
    mean = np.linalg.solve(precision, 2 * gamma * design.T @ responses)
    return GaussianPosterior(np.asarray(mean), precision)


def linear_regression_kl(
    x: ArrayLike,
    y: ArrayLike,
    other_x: ArrayLike,
    other_y: ArrayLike,
    gamma: float,
    prior_precision: float = 0.0,
) -> float:
    """KL between the posteriors of two given datasets, in nats."""
    p = linear_regression_posterior(x, y, gamma, prior_precision)
    q = linear_regression_posterior(other_x, other_y, gamma, prior_precision)
    return gaussian_kl(p.mean, np.linalg.inv(p.precision), q.mean, np.linalg.inv(q.precision))


def linear_regression_fixed_design(
    x: ArrayLike, gamma: float, noise_variance: float, prior_precision: float = 0.0
) -> ClosedForm:
    """Solve for a given design, with responses ``y = x . theta* + noise`` drawn afresh.

    A ghost example has the same ``x`` and a new response. With ``P = 2 gamma X'X + tau I`` and
    ``T = 4 gamma^2 s^2 P^-1 X'X``: ``n eps_KL = tr T = I + lautum`` and, for Gaussian noise,
    ``I(W; y | X) = (1/2) log det(1 + T)``. Neither depends on ``theta*``.
    """
    design = _design(x)
    checks.positive("noise_variance", noise_variance)
    precision = _precision(design, gamma, prior_precision)
    # Whitened, P^-1 X'X is symmetric with eigenvalues in [0, 1 / (2 gamma)].
    half = np.linalg.solve(np.linalg.cholesky(precision), design.T)
    signal = 4 * gamma**2 * noise_variance * np.linalg.svd(half, compute_uv=False) ** 2
    total = float(signal.sum())
    mutual = float(0.5 * np.log1p(signal).sum())
    on_average_kl = total / design.shape[0]
    return ClosedForm(on_average_kl, on_average_kl / gamma, mutual, total - mutual)


def linear_regression_averaged(
    designs: ArrayLike, gamma: float, noise_variance: float, prior_precision: float = 0.0
) -> tuple[ClosedForm, ClosedForm]:
    """`linear_regression_fixed_design` averaged over sampled designs, and its standard errors.

    The information is then the conditional one, ``I(W; y | X)``.

    >>> designs = np.random.default_rng(0).normal(size=(5, 4, 2))
    >>> mean, error = linear_regression_averaged(designs, 0.5, 1.0)
    >>> round(4 * mean.on_average_kl, 9), round(error.on_average_kl, 9)  # flat: 2 gamma d s^2
    (2.0, 0.0)
    """
    stack = np.asarray(designs, dtype=np.float64)
    if stack.ndim != 3 or stack.shape[0] < 2:
        raise ValueError(
            f"designs must be [num_designs >= 2, n, d], got shape {list(stack.shape)}."
        )
    answers = np.array(
        [linear_regression_fixed_design(x, gamma, noise_variance, prior_precision) for x in stack]
    )
    error = answers.std(axis=0, ddof=1) / np.sqrt(stack.shape[0])
    return ClosedForm(*map(float, answers.mean(axis=0))), ClosedForm(*map(float, error))


# The same on many datasets: every replaced posterior at once.

Datasets = Float[np.ndarray, " datasets"]


class ReplacedRegression(NamedTuple):
    """Exact answers per dataset ``[datasets]``, averaged over its examples and ghosts."""

    on_average_kl: Datasets
    empirical_risk: Datasets
    population_risk: Datasets


def linear_regression_replaced(
    x: ArrayLike,
    y: ArrayLike,
    ghost_x: ArrayLike,
    ghost_y: ArrayLike,
    gamma: float,
    prior_precision: float,
) -> ReplacedRegression:
    """KL between each dataset's posterior and that with one example replaced, over all pairs.

    With ``P`` the posterior precision, replacing ``(a, y_a)`` by ``(g, y_g)`` changes it by
    ``2 gamma (g g' - a a')``: trace, determinant and the quadratic form of the means reduce to
    the 2 x 2 matrix of ``P^-1`` in the span of ``g`` and ``a``. ``d`` may exceed ``n``.
    """
    checks.positive("gamma", gamma)
    checks.positive("prior_precision", prior_precision)
    a, g = np.asarray(x, np.float64), np.asarray(ghost_x, np.float64)
    y_a, y_g = np.asarray(y, np.float64), np.asarray(ghost_y, np.float64)
    if a.ndim != 3 or g.ndim != 3 or (y_a.shape, y_g.shape) != (a.shape[:2], g.shape[:2]):
        raise ValueError(
            "x: give datasets [m, n, d] with y [m, n], and ghosts [m, g, d] with [m, g]; got "
            f"{a.shape}, {y_a.shape}, {g.shape}, {y_g.shape}."
        )
    step, d = 2 * gamma, a.shape[2]
    precision = step * np.swapaxes(a, 1, 2) @ a + prior_precision * np.eye(d)
    covariance = np.linalg.inv(precision)
    mean = step * np.einsum("mij,mnj,mn->mi", covariance, a, y_a, optimize=True)
    left_a, left_g = a @ covariance, g @ covariance
    spread_a, spread_g = np.sum(left_a * a, axis=2), np.sum(left_g * g, axis=2)
    error_a = y_a - np.einsum("mnj,mj->mn", a, mean)
    error_g = y_g - np.einsum("mnj,mj->mn", g, mean)

    # Of every pair [datasets, ghosts, n]: M is P^-1 in the span, C = diag(step, -step).
    gg, aa = spread_g[:, :, None], spread_a[:, None, :]
    ga = left_g @ np.swapaxes(a, 1, 2)
    top_left, top_right = 1 + step * gg, -step * ga  # of I + M C
    bottom_left, bottom_right = step * ga, 1 - step * aa
    determinant = top_left * bottom_right - top_right * bottom_left
    s_g, s_a = step * error_g[:, :, None], -step * error_a[:, None, :]
    m_g, m_a = gg * s_g + ga * s_a, ga * s_g + aa * s_a  # M s
    shift = (  # s' (I + M C)^-1 M s, the quadratic form of the means' difference
        s_g * (bottom_right * m_g - top_right * m_a) + s_a * (top_left * m_a - bottom_left * m_g)
    ) / determinant
    kl = 0.5 * (step * (gg - aa) - np.log(determinant) + shift)
    return ReplacedRegression(
        on_average_kl=kl.mean(axis=(1, 2)),
        empirical_risk=np.mean(error_a**2 + spread_a, axis=1),
        population_risk=np.mean(error_g**2 + spread_g, axis=1),
    )
