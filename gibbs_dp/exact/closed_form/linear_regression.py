"""Conjugate linear regression: ``loss = (y - x . theta)^2``, Gaussian or flat prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.exact.closed_form.gaussian import ClosedForm
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import gaussian_kl


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
    """Posterior of given data: precision ``2 gamma X'X + tau I``, mean ``2 gamma P^-1 X'y``.

    Parameters
    ----------
    x, y
        Design ``[n, d]`` and responses ``[n]``.
    gamma
        Inverse temperature of the total loss ``sum_i (y_i - x_i . theta)^2``.
    prior_precision
        ``tau`` of the prior ``N(0, I / tau)``; 0, the default, is flat.

    Returns
    -------
    GaussianPosterior
        Mean ``[d]`` and precision ``[d, d]``.

    Raises
    ------
    ValueError
        If shapes disagree or the posterior is improper.

    Examples
    --------
    >>> linear_regression_posterior([[1.0], [1.0]], [0.0, 2.0], gamma=0.5).mean
    array([1.])
    """
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
    """KL between the posteriors of two given datasets, in nats.

    With the second dataset equal to the first but for one example, the average over datasets and
    ghosts is the on-average KL. Parameters are those of `linear_regression_posterior`, twice.

    Examples
    --------
    >>> kl = linear_regression_kl([[1.0], [1.0]], [0.0, 2.0], [[1.0], [1.0]], [0.0, 3.0], 0.5)
    >>> round(kl, 9)
    0.25
    """
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

    Parameters
    ----------
    x
        Design ``[n, d]``.
    gamma, prior_precision
        As in `linear_regression_posterior`.
    noise_variance
        ``s^2``.

    Returns
    -------
    ClosedForm
        ``on_average_kl`` and ``generalization_error`` are averages over which example is
        replaced. The informations are for Gaussian noise.

    Examples
    --------
    >>> answer = linear_regression_fixed_design([[1.0], [2.0]], gamma=0.5, noise_variance=1.0)
    >>> round(2 * answer.on_average_kl, 9)  # d gamma 2 s^2 with a flat prior
    1.0
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

    Parameters
    ----------
    designs
        ``[num_designs, n, d]``, independent draws, at least two.
    gamma, noise_variance, prior_precision
        As in `linear_regression_fixed_design`.

    Returns
    -------
    mean, standard_error
        Over the designs.

    Examples
    --------
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


# Conjugate linear regression on many datasets: every replaced posterior at once.

Datasets = Float[np.ndarray, " datasets"]


class ReplacedRegression(NamedTuple):
    """Exact answers per dataset ``[datasets]``, averaged over its examples and ghosts.

    KL is in nats; risks are those of one posterior draw under ``(y - x·theta)^2``.
    """

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

    Parameters
    ----------
    x, y
        Datasets ``[datasets, n, d]`` and ``[datasets, n]``.
    ghost_x, ghost_y
        Fresh examples ``[datasets, ghosts, d]`` and ``[datasets, ghosts]``.
    gamma
        Inverse temperature of the total loss ``sum_i (y_i - x_i·theta)^2``.
    prior_precision
        ``tau > 0`` of the prior ``N(0, I / tau)``.

    Returns
    -------
    ReplacedRegression
        Exact answers for each dataset.

    Raises
    ------
    ValueError
        If shapes disagree or a number is not positive.

    Examples
    --------
    >>> x, y = np.array([[[1.0], [1.0]]]), np.array([[0.0, 2.0]])
    >>> found = linear_regression_replaced(x, y, [[[1.0]]], [[1.0]], 0.5, 1.0)
    >>> round(float(found.on_average_kl[0]), 9)           # means move by 1/3, the precision is 3
    0.166666667
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
