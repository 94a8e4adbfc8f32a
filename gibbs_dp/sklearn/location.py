"""Private means and medians of columns."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp
from sklearn.utils.validation import validate_data

from gibbs_dp.adaptive.noise import gaussian_release
from gibbs_dp.information.bounds import zcdp_from_range
from gibbs_dp.model import losses, supports
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat
from gibbs_dp.privacy.guarantee import FINITE_PRECISION, Guarantee
from gibbs_dp.sklearn.base import PrivateEstimator
from gibbs_dp.sklearn.features import declared_pair
from gibbs_dp.sklearn.leaks import leak
from gibbs_dp.sklearn.plan import SECRET, Facts, direct
from gibbs_dp.sklearn.rule import gdp_worth
from gibbs_dp.sklearn.secret import Noise, SecretNoise, gamma_length

Rows = Float[np.ndarray, "rows columns"]
Columns = Float[np.ndarray, " columns"]


class _Location(PrivateEstimator):
    """What both share: bounds, and rows moved into them and mapped to [0, 1]."""

    bounds: Any

    def __init__(
        self,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        *,
        bounds: Any = None,
        adjacency: Any = "replace-one",
        ledger: Any = None,
        accept: Any = ("float-arithmetic",),
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.adjacency = adjacency
        self.ledger = ledger
        self.accept = accept
        self.random_state = random_state

    n = None

    def _mapped(self, X: Any, kept: list[str]) -> tuple[Rows, Columns, Columns]:
        """Return rows in the unit cube, and the bounds that map there."""
        if self.adjacency != "replace-one":
            raise ValueError("adjacency: means and medians are for replace-one neighbours; use it.")
        rows = validate_data(self, X, dtype=np.float64)
        self._check_target(len(rows))
        if self.bounds is None:
            leak(
                "bounds: taken from the data, which no guarantee covers; declare "
                "bounds=(low, high) of the columns without looking at them.",
                kept,
            )
            low, high = rows.min(axis=0), rows.max(axis=0)
            high = np.where(high > low, high, low + 1.0)
        else:
            low, high = declared_pair("bounds", self.bounds, rows.shape[1])
        return (np.clip(rows, low, high) - low) / (high - low), low, high

    def _facts(self, rows: Rows) -> Facts:
        return Facts(len(rows), rows.shape[1], float(self.epsilon), float(self.delta))


class GibbsMean(_Location):
    """Means of columns, drawn exactly from a Gibbs posterior around them.

    Pure DP: the density falls exponentially with the largest deviation of a column, in units of
    its range (Hardt & Talwar 2010 with the maximum norm); for one column this is the Laplace
    mechanism, for ``d`` its standard deviation is smaller by ``sqrt 6``. With ``delta``: the
    posterior of half the squared distance under a flat prior, a Gaussian.

    Parameters
    ----------
    epsilon, delta
        The target, for all columns together; pure DP where ``delta`` is 0.
    bounds
        ``(low, high)`` of the columns, numbers or one a column, declared without looking at the
        data; values beyond are moved there. Where not given they are taken from the data, with a
        `PrivacyLeakWarning`.
    adjacency
        "replace-one": the number of rows is public.
    ledger
        A `gibbs_dp.Ledger`, or the path of one, which every fit is charged to.
    accept
        Must name "float-arithmetic".
    random_state
        For tests only: noise that can be repeated protects nobody, and a warning says so.

    Attributes
    ----------
    mean_
        The means, moved into the bounds.
    guarantee_, gamma_, charge_
        As of `GibbsClassifier`.

    Examples
    --------
    >>> ages = np.random.default_rng(0).uniform(20, 60, size=(1000, 1))
    >>> found = GibbsMean(epsilon=1.0, bounds=(0, 100)).fit(ages)
    >>> bool(abs(found.mean_[0] - ages.mean()) < 3)
    True
    """

    def fit(self, X: Any, y: Any = None) -> GibbsMean:
        """Draw the means of ``X [rows, columns]``; ``y`` is ignored.

        Parameters
        ----------
        X
            Private rows.
        y
            For pipelines.

        Returns
        -------
        GibbsMean
            This object.

        Raises
        ------
        ValueError
            For bad input, before anything is charged.
        BudgetExceededError
            If the ledger has less left; nothing is charged.
        """
        del y
        kept: list[str] = []
        rows, low, high = self._mapped(X, kept)
        facts = self._facts(rows)
        guarantee, draw = _plan_mean(facts)
        noise = self._noise(kept)
        found = self._release(guarantee, draw, rows, None, noise, kept)[0]
        self.mean_ = low + (high - low) * np.clip(found, 0.0, 1.0)
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean squared distance of rows from ``mean_``, in units of the columns.

        Parameters
        ----------
        X
            Rows ``[rows, columns]``.
        y
            For pipelines.

        Returns
        -------
        float
            At most 0. Of private rows it is not private.
        """
        del y
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return -float(np.mean(np.sum((rows - self.mean_) ** 2, axis=1)))


class GibbsMedian(_Location):
    """Medians of columns by the exponential mechanism, drawn exactly.

    The loss of a candidate is how far the number of values below it is from half; replacing a row
    changes it by at most 1. The density is constant between data points, so a draw is an interval
    and a uniform place in it. Columns are drawn independently and share the target: ``epsilon``
    is divided under pure DP, zCDP (Cesar & Rogers 2021) under ``(epsilon, delta)``.

    Parameters
    ----------
    epsilon, delta, bounds, adjacency, ledger, accept, random_state
        As of `GibbsMean`.

    Attributes
    ----------
    median_
        The medians.
    guarantee_, gamma_, charge_
        As of `GibbsClassifier`.

    Examples
    --------
    >>> ages = np.random.default_rng(0).uniform(20, 60, size=(1000, 1))
    >>> found = GibbsMedian(epsilon=1.0, bounds=(0, 100)).fit(ages)
    >>> bool(abs(found.median_[0] - np.median(ages)) < 5)
    True
    """

    def fit(self, X: Any, y: Any = None) -> GibbsMedian:
        """Draw the medians of ``X [rows, columns]``; ``y`` is ignored.

        Parameters
        ----------
        X
            Private rows.
        y
            For pipelines.

        Returns
        -------
        GibbsMedian
            This object.

        Raises
        ------
        ValueError
            For bad input, before anything is charged.
        BudgetExceededError
            If the ledger has less left; nothing is charged.
        """
        del y
        kept: list[str] = []
        rows, low, high = self._mapped(X, kept)
        guarantee = _median_guarantee(self._facts(rows))
        gamma = guarantee.gamma

        def draw(rows: Rows, _: Any, noise: Noise) -> Float[np.ndarray, "1 columns"]:
            return np.array([[draw_median(column, gamma, noise) for column in rows.T]])

        noise = self._noise(kept)
        found = self._release(guarantee, draw, rows, None, noise, kept)[0]
        self.median_ = low + (high - low) * found
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean absolute distance of rows from ``median_``, summed over columns.

        Parameters
        ----------
        X
            Rows ``[rows, columns]``.
        y
            For pipelines.

        Returns
        -------
        float
            At most 0. Of private rows it is not private.
        """
        del y
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return -float(np.mean(np.sum(np.abs(rows - self.median_), axis=1)))


def _plan_mean(facts: Facts) -> tuple[Guarantee, Any]:
    """Settle gamma and the noise for means of columns in [0, 1]."""
    n, dim = facts.n, facts.dim
    # Variances of a column: (d + 1)(d + 2) / 3 over (n epsilon)^2, and d / (n mu)^2.
    pure = (dim + 1) * (dim + 2) / 3 / facts.epsilon**2
    if facts.delta == 0 or pure <= dim / gdp_worth(facts.epsilon, facts.delta) ** 2:

        def farthest(theta: Array, data: Array) -> Array:
            return n * jnp.max(jnp.abs(theta - data.mean(axis=0)))

        posterior = GibbsPosterior(
            total_loss=farthest,
            prior=Flat(supports.real(dim)),
            sensitivity=lambda n: 1.0,
            location_family=True,
        )
        found = replace(facts, delta=0.0).calibrate(posterior, None)
        gamma = found.gamma

        def draw(rows: Rows, _: Any, noise: Noise) -> Float[np.ndarray, "1 columns"]:
            # Density exp(-r) of the norm r in dim dimensions: a Gamma(dim + 1) times a cube.
            length = gamma_length(dim + 1, noise) / (gamma * n)
            return np.asarray([rows.mean(axis=0) + length * (2 * noise.random(dim) - 1)])

    else:
        # Rows less the middle of the cube differ by at most 2 * sqrt(dim) / 2.
        posterior = GibbsPosterior(losses.half_squared_distance, Flat(supports.real(dim)))
        found = facts.calibrate(posterior, Domain(x_bound=0.5 * math.sqrt(dim)))
        gamma = found.gamma

        def draw(rows: Rows, _: Any, noise: Noise) -> Float[np.ndarray, "1 columns"]:
            mean, deviation = rows.mean(axis=0), 1 / math.sqrt(n * gamma)
            if isinstance(noise, SecretNoise):
                return np.asarray([gaussian_release(mean, deviation)])
            return np.asarray([mean + deviation * noise.standard_normal(dim)])

    return direct(found.guarantee), draw


def _median_guarantee(facts: Facts) -> Guarantee:
    """Promise of one exponential mechanism a column: ranges ``2 gamma``, composed."""
    dim = facts.dim
    if facts.delta == 0:
        gamma = facts.epsilon / (2 * dim)
    else:
        # The largest rho whose zCDP gives (epsilon, delta) by rho + 2 sqrt(rho log(1/delta)).
        log = math.log(1 / facts.delta)
        rho = (math.sqrt(log + facts.epsilon) - math.sqrt(log)) ** 2
        by_pure = facts.epsilon / (2 * dim)
        gamma = max(by_pure, math.sqrt(8 * rho / dim) / 2) * (1 - 1e-12)
    eta = 2 * gamma
    return Guarantee(
        adjacency=facts.adjacency,
        mechanism="direct draw",
        num_draws=1,
        gamma=gamma,
        epsilon=facts.epsilon,
        delta=facts.delta,
        pure_epsilon=dim * eta,
        zcdp=dim * zcdp_from_range(eta),
        assumptions=(
            f"exact draws; the rank of a candidate moves by at most 1, so that the log-ratio of a "
            f"column has range {eta:.6g} (McSherry & Talwar 2007; Cesar & Rogers 2021), composed "
            f"over {dim} columns",
        ),
        caveats=(FINITE_PRECISION, SECRET),
    )


def draw_median(values: Float[np.ndarray, " rows"], gamma: float, noise: Noise) -> float:
    """Draw from the density ``∝ exp(-gamma |number of values below - n / 2|)`` on [0, 1].

    Parameters
    ----------
    values
        In [0, 1].
    gamma
        Inverse temperature.
    noise
        Where random numbers come from.

    Returns
    -------
    float
        Exact draw: an interval between values, and a uniform place in it.

    Examples
    --------
    >>> 0.4 < draw_median(np.linspace(0, 1, 1001), 1.0, np.random.default_rng(0)) < 0.6
    True
    """
    edges = np.concatenate([[0.0], np.sort(values), [1.0]])
    width = np.diff(edges)
    rank = np.arange(len(width))
    with np.errstate(divide="ignore"):
        log_mass = np.log(width) - gamma * np.abs(rank - 0.5 * len(values))
    share = np.cumsum(np.exp(log_mass - logsumexp(log_mass)))
    where, inside = noise.random(2)
    place = min(int(np.searchsorted(share, where * share[-1])), len(width) - 1)
    return float(edges[place] + inside * width[place])
