"""Private means and medians of columns."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from sklearn.utils.validation import validate_data

from gibbs_dp.information import checks
from gibbs_dp.information.bounds import zcdp_from_range
from gibbs_dp.model import losses, supports
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.noise import (
    FINENESS,
    ROOM,
    Noise,
    cube_noise,
    gaussian_release,
    on_lattice,
    weighted_choice,
)
from gibbs_dp.privacy.routes import gdp_at
from gibbs_dp.privacy.table import unobserved
from gibbs_dp.sklearn.base import PrivateEstimator
from gibbs_dp.sklearn.features import declared_pair, private_rows, refuse_other_types
from gibbs_dp.sklearn.plan import EXACT, SECRET, Draw, Facts, direct, leak

# What private means and medians share.

Rows = Float[np.ndarray, "rows columns"]
Columns = Float[np.ndarray, " columns"]
Same = TypeVar("Same", bound="PrivateLocation")


class PrivateLocation(PrivateEstimator):
    """Base of means and medians: rows are moved into bounds and mapped to [0, 1]."""

    bounds: Any
    # Of the attribute with what was drawn, without its underscore.
    _name = ""

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

    def _mapped(self, X: Any, leaks: list[str]) -> tuple[Rows, Columns, Columns]:
        """Return rows in the unit cube, and the bounds that map there."""
        if self.adjacency != "replace-one":
            raise ValueError("adjacency: means and medians are for replace-one neighbours; use it.")
        refuse_other_types("X", X)
        if self.bounds is None:
            rows = validate_data(self, X, dtype=np.float64)
        else:
            rows = private_rows(self, X)
        self._check_target(len(rows))
        if self.bounds is None:
            leak(
                "bounds: taken from the data, which no guarantee covers; declare "
                "bounds=(low, high) of the columns without looking at them.",
                leaks,
            )
            low, high = rows.min(axis=0), rows.max(axis=0)
            high = np.where(high > low, high, low + 1.0)
        else:
            low, high = declared_pair("bounds", self.bounds, rows.shape[1], self._columns)
        with unobserved():
            rows = (np.clip(rows, low, high) - low) / (high - low)
            return np.where(np.isnan(rows), 0.5, rows), low, high

    def fit(self: Same, X: Any, y: Any = None) -> Same:
        """Draw the estimates of ``X [rows, columns]``; ``y`` is ignored.

        Where bounds are declared, nothing that depends on a record is warned of or raised: a cell
        that is no number counts as the middle of its bounds.

        Parameters
        ----------
        X
            Private rows.
        y
            For pipelines.

        Returns
        -------
        same as the estimator
            This object.

        Raises
        ------
        ValueError
            For bad input, before anything is charged.
        BudgetExceededError
            If the ledger has less left; nothing is charged.
        """
        del y
        leaks: list[str] = []
        rows, low, high = self._mapped(X, leaks)
        facts = Facts(len(rows), rows.shape[1], float(self.epsilon), float(self.delta))
        steps = self._steps(low.size)
        guarantee, draw = self._plan(facts)
        noise = self._noise(leaks)
        if steps is not None:
            # Row by row, and of any law: what is promised of the draw holds whatever was added.
            with unobserved():
                moves = (noise.random(rows.shape) - 0.5) * (steps / (high - low))
                rows = np.clip(rows + moves, 0, 1)
        found = self._release(guarantee, draw, rows, None, noise, leaks)[0]
        values = low + (high - low) * np.clip(found, 0.0, 1.0)
        if steps is not None:
            values = np.round(values / steps) * steps
        setattr(self, f"{self._name}_", values)
        return self

    def _steps(self, num_columns: int) -> Columns | None:
        """Distances of neighbouring values of the columns; None where they have none."""
        del num_columns
        return None

    def _plan(self, facts: Facts) -> tuple[Guarantee, Draw]:
        """Settle gamma and the noise for columns in [0, 1]."""
        raise NotImplementedError

    def _description(self) -> list[str]:
        values = getattr(self, f"{self._name}_")
        return [f"{self._name.capitalize()}s: {self._listed(values)}."]

    def _distances(self, X: Any) -> Rows:
        """Rows minus the estimates, in units of the columns."""
        refuse_other_types("X", X)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(rows - getattr(self, f"{self._name}_"))

    def _listed(self, values: Columns) -> str:
        names = self._columns or [f"column {i}" for i in range(len(values))]
        return ", ".join(f"{name} {value:.6g}" for name, value in zip(names, values, strict=True))


class GibbsMean(PrivateLocation):
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
    guarantee_
        A `gibbs_dp.Guarantee`: what holds, under which assumptions, and what is not covered.
    gamma_
        Inverse temperature.
    charge_
        Number of the charge in the ledger, if there is one.

    Examples
    --------
    >>> ages = np.random.default_rng(0).uniform(20, 60, size=(1000, 1))
    >>> found = GibbsMean(epsilon=1.0, bounds=(0, 100)).fit(ages)
    >>> bool(abs(found.mean_[0] - ages.mean()) < 3)
    True
    """

    _name = "mean"

    def _plan(self, facts: Facts) -> tuple[Guarantee, Draw]:
        return _plan_mean(facts)

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
        return -float(np.mean(np.sum(self._distances(X) ** 2, axis=1)))


def _plan_mean(facts: Facts) -> tuple[Guarantee, Draw]:
    """Settle gamma and the noise for means of columns in [0, 1]."""
    n, dim = facts.n, facts.dim
    # Variances of a column: (d + 1)(d + 2) / 3 over (n epsilon)^2, and d / (n mu)^2.
    pure = (dim + 1) * (dim + 2) / 3 / facts.epsilon**2
    if facts.delta == 0 or pure <= dim / gdp_at(facts.epsilon, facts.delta) ** 2:

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
            total = on_lattice(rows).sum(axis=0).tolist()
            added = cube_noise(dim, FINENESS * ROOM / Fraction(gamma), noise)
            return np.array([[(t + e) / (FINENESS * n) for t, e in zip(total, added, strict=True)]])

    else:
        # Rows less the middle of the cube differ by at most 2 * sqrt(dim) / 2.
        posterior = GibbsPosterior(losses.half_squared_distance, Flat(supports.real(dim)))
        found = facts.calibrate(posterior, Domain(x_bound=0.5 * math.sqrt(dim)))
        gamma = found.gamma

        def draw(rows: Rows, _: Any, noise: Noise) -> Float[np.ndarray, "1 columns"]:
            total = [Fraction(t, FINENESS) for t in on_lattice(rows).sum(axis=0).tolist()]
            return np.asarray([gaussian_release(total, math.sqrt(n / gamma), noise)]) / n

    return direct(found.guarantee), draw


class GibbsMedian(PrivateLocation):
    """Medians of columns by the exponential mechanism, drawn exactly.

    The loss of a candidate is how far the number of values below it is from half; replacing a row
    changes it by at most 1. The density is constant between data points, so a draw is a gap
    between them and a uniform place in it, on a lattice of 2^30 steps over the range. Columns are
    drawn independently and share the target: ``epsilon`` is divided under pure DP, zCDP (Cesar &
    Rogers 2021) under ``(epsilon, delta)``.

    Parameters
    ----------
    epsilon, delta, bounds, adjacency, ledger, accept, random_state
        As of `GibbsMean`.
    resolution
        Distance of neighbouring values, a number or one a column: 1 for whole numbers. Every value
        is first moved by chance, by up to half of it, and the medians are rounded to multiples of
        it. Without it a value that many rows share is one lattice step wide: of a column of a few
        values the draw lies *between* these, anywhere, at whatever epsilon.

    Attributes
    ----------
    median_
        The medians.
    guarantee_, gamma_, charge_
        As of `GibbsMean`.

    Examples
    --------
    >>> ages = np.random.default_rng(0).uniform(20, 60, size=(1000, 1))
    >>> found = GibbsMedian(epsilon=1.0, bounds=(0, 100)).fit(ages)
    >>> bool(abs(found.median_[0] - np.median(ages)) < 5)
    True
    >>> whole = GibbsMedian(epsilon=1.0, bounds=(0, 100), resolution=1.0).fit(ages.round())
    >>> bool(whole.median_[0] == round(whole.median_[0]))
    True
    """

    _name = "median"

    def __init__(
        self,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        *,
        bounds: Any = None,
        resolution: Any = None,
        adjacency: Any = "replace-one",
        ledger: Any = None,
        accept: Any = ("float-arithmetic",),
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            bounds=bounds,
            adjacency=adjacency,
            ledger=ledger,
            accept=accept,
            random_state=random_state,
        )
        self.resolution = resolution

    def _steps(self, num_columns: int) -> Columns | None:
        if self.resolution is None:
            return None
        found = np.asarray(self.resolution)
        is_right = found.dtype.kind in "iuf" and found.shape in ((), (1,), (num_columns,))
        if not is_right or not (np.isfinite(found) & (found > 0)).all():
            raise ValueError(
                "resolution: give the distance of neighbouring values, a positive number or one "
                f"for each of the {num_columns} columns, got {checks.shown(self.resolution)}."
            )
        return np.broadcast_to(found.astype(np.float64), (num_columns,))

    def _plan(self, facts: Facts) -> tuple[Guarantee, Draw]:
        guarantee = _median_guarantee(facts)
        gamma = guarantee.gamma
        assert gamma is not None

        def draw(rows: Rows, _: Any, noise: Noise) -> Float[np.ndarray, "1 columns"]:
            return np.array([[draw_median(column, gamma, noise) for column in rows.T]])

        return guarantee, draw

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
        return -float(np.mean(np.sum(np.abs(self._distances(X)), axis=1)))


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
            EXACT,
        ),
        caveats=(SECRET,),
    )


def draw_median(values: Float[np.ndarray, " rows"], gamma: float, noise: Noise) -> float:
    """Draw a multiple of ``2^-30`` in [0, 1], ``∝ exp(-gamma |number of values below - n / 2|)``.

    Values are cut off to the same lattice first. The draw is exact, in whole numbers and rational
    ones: every multiple can be drawn from every table, with a chance that differs by the factor
    that is promised, and the last bits tell nothing.
    """
    # Candidates c with k values below: from the k-th value, not included, to the next, included.
    places = np.concatenate([[-1], np.sort(on_lattice(values)), [FINENESS]])
    sizes = np.diff(places)
    costs = np.abs(np.arange(len(sizes)) - 0.5 * len(values))
    gap = weighted_choice(sizes, costs, Fraction(gamma) / ROOM, noise)
    step = int(places[gap]) + 1 + noise.below(int(sizes[gap]))
    return step / FINENESS
