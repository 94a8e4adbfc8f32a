"""Private medians of columns."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import validate_data

from gibbs_dp.information.bounds import zcdp_from_range
from gibbs_dp.privacy.exact_samplers import weighted_choice
from gibbs_dp.privacy.guarantee import Guarantee
from gibbs_dp.privacy.noise import FINENESS, ROOM, Noise, on_lattice
from gibbs_dp.sklearn.features import refuse_other_types
from gibbs_dp.sklearn.means import PrivateLocation, Rows
from gibbs_dp.sklearn.plan import EXACT, SECRET, Facts


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

    Attributes
    ----------
    median_
        The medians.
    guarantee_
        A `gibbs_dp.Guarantee`: what holds, under which assumptions, and what is not covered.
    gamma_
        Inverse temperature.
    charge_
        Number of the charge in the ledger, if there is one.

    Examples
    --------
    >>> ages = np.random.default_rng(0).uniform(20, 60, size=(1000, 1))
    >>> found = GibbsMedian(epsilon=1.0, bounds=(0, 100)).fit(ages)
    >>> bool(abs(found.median_[0] - np.median(ages)) < 5)
    True
    """

    def fit(self, X: Any, y: Any = None) -> GibbsMedian:
        """Draw the medians of ``X [rows, columns]``; ``y`` is ignored.

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
        assert gamma is not None

        def draw(rows: Rows, _: Any, noise: Noise) -> Float[np.ndarray, "1 columns"]:
            return np.array([[draw_median(column, gamma, noise) for column in rows.T]])

        noise = self._noise(kept)
        found = self._release(guarantee, draw, rows, None, noise, kept)[0]
        self.median_ = low + (high - low) * found
        return self

    def _told(self) -> list[str]:
        return [f"Medians: {self._listed(self.median_)}."]

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
        refuse_other_types("X", X)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return -float(np.mean(np.sum(np.abs(rows - self.median_), axis=1)))


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
        Exact draw: a gap between values, and a uniform place in it.

    Examples
    --------
    >>> from gibbs_dp.privacy.noise import SecretNoise
    >>> 0.4 < draw_median(np.linspace(0, 1, 1001), 1.0, SecretNoise()) < 0.6
    True
    """
    # Candidates c with k values below: from the k-th value, not included, to the next, included.
    places = np.concatenate([[-1], np.sort(on_lattice(values)), [FINENESS]])
    sizes = np.diff(places)
    costs = np.abs(np.arange(len(sizes)) - 0.5 * len(values))
    gap = weighted_choice(sizes, costs, Fraction(gamma) / ROOM, noise)
    step = int(places[gap]) + 1 + noise.below(int(sizes[gap]))
    return step / FINENESS
