"""A private linear regression."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from gibbs_dp.model import losses
from gibbs_dp.model.domain import Domain
from gibbs_dp.sklearn.features import (
    declared_pair,
    private_labels,
    private_numbers,
    private_rows,
    refuse_other_types,
    refuse_texts,
)
from gibbs_dp.sklearn.linear_model import PrivateLinearModel, linear_loss
from gibbs_dp.sklearn.mechanisms import ModelLoss
from gibbs_dp.sklearn.plan import Choice, Facts, Plan, choose_for_numbers, leak


class GibbsRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regression that is one private draw from a Gibbs posterior.

    The mechanism, its prior and gamma follow from public facts alone: rows, columns, bounds and
    target (`gibbs_dp.sklearn.plan`). Labels are mapped to [-1, 1] by their declared range.

    Parameters
    ----------
    epsilon, delta
        The target, for all draws of one fit together; pure DP where ``delta`` is 0.
    loss
        "huber" (squared up to a twelfth of half the labels' range, linear beyond: its gradients
        are small, so that less noise is needed), or the name of another loss of numbers, such as
        "squared" or "absolute", or a loss: ``losses.Huber(0.5)``, or one of your own, a
        `gibbs_dp.losses.LinearLoss`. Predictions and labels are in units of half the labels' range.
    bounds, x_bound
        As of `GibbsClassifier`.
    y_bounds
        ``(low, high)`` of the labels, declared without looking at the data; labels beyond are
        moved there. Best where they span about six standard deviations. Taken from the data, with
        a `PrivacyLeakWarning`, where not given.
    theta_bound
        Largest prediction that the prior allows, in units of half the labels' range; chosen by the
        rule where not given. For mechanism "posterior".
    fit_intercept, num_draws, adjacency, n, ledger, accept, random_state
        As of `GibbsClassifier`; predictions are averaged over draws.
    mechanism
        "auto", or one of "posterior" (by chains), "gaussian", "direction" (a noisy sum, drawn
        exactly, for features that hardly correlate), "chain", "rejection".

    Attributes
    ----------
    coef_
        In the units of columns and labels as they came, ``[columns]``; the mean over draws. Rows
        beyond the bounds, and rows far from their middle, are moved and shortened first, as in the
        fit: predictions level off there.
    intercept_
        A number.
    guarantee_, gamma_, mechanism_, told_, charge_
        As of `GibbsClassifier`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)); y = X @ [1.0, -1.0] + 0.1 * rng.normal(size=2000)
    >>> model = GibbsRegressor(epsilon=1.0, delta=1e-5, bounds=(-2.5, 2.5), y_bounds=(-4, 4))
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """

    def __init__(
        self,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        *,
        loss: Any = "huber",
        bounds: Any = None,
        x_bound: Any = None,
        y_bounds: Any = None,
        theta_bound: Any = None,
        fit_intercept: Any = True,
        mechanism: Any = "auto",
        num_draws: Any = 1,
        adjacency: Any = "replace-one",
        n: Any = None,
        ledger: Any = None,
        accept: Any = ("exact-draw", "float-arithmetic"),
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.bounds = bounds
        self.x_bound = x_bound
        self.y_bounds = y_bounds
        self.theta_bound = theta_bound
        self.fit_intercept = fit_intercept
        self.mechanism = mechanism
        self.num_draws = num_draws
        self.adjacency = adjacency
        self.n = n
        self.ledger = ledger
        self.accept = accept
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Return tags; accuracy is limited by privacy."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> GibbsRegressor:
        """Fit to examples ``X [rows, columns]`` and labels ``y [rows]``.

        Where bounds of both are declared, nothing that depends on a record is warned of or raised:
        what is beyond them is moved there, and a record with a cell that is no number counts for
        nothing.

        Parameters
        ----------
        X, y
            Private examples: arrays or a pandas table.

        Returns
        -------
        GibbsRegressor
            This object.

        Raises
        ------
        ValueError
            For bad input, before anything is charged.
        BudgetExceededError
            If the ledger has less left; nothing is charged.
        ReleaseError
            If the chains fail; the charge stands.
        """
        refuse_other_types("X", X)
        refuse_other_types("y", y)
        leaks: list[str] = []
        if self.y_bounds is not None and self._has_domain():
            rows = private_rows(self, X)
            refuse_texts("y", y)
            y = private_numbers("y", private_labels(y, len(rows), self.adjacency))
            ends = declared_pair("y_bounds", self.y_bounds, 1)
            is_read = ~(np.isnan(rows).any(axis=1) | np.isnan(y))
            y_range = float(ends[0][0]), float(ends[1][0])
            self.fit_numbers(np.nan_to_num(rows), np.nan_to_num(y), y_range, leaks, is_read)
            return self
        rows, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        if self.y_bounds is None:
            low, high = float(np.min(y)), float(np.max(y))
            high = high if high > low else low + 1.0
            leak(
                "y_bounds: taken from the data, which no guarantee covers; declare "
                "y_bounds=(low, high).",
                leaks,
            )
        else:
            ends = declared_pair("y_bounds", self.y_bounds, 1)
            low, high = (float(end[0]) for end in ends)
        self.fit_numbers(rows, np.asarray(y, np.float64), (low, high), leaks)
        return self

    def fit_numbers(
        self,
        rows: Float[np.ndarray, "rows columns"],
        y: Float[np.ndarray, " rows"],
        y_range: tuple[float, float],
        leaks: list[str],
        is_read: Bool[np.ndarray, " rows"] | None = None,
    ) -> None:
        """Fit to checked numbers: what `fit` does after it has looked at their form.

        Parameters
        ----------
        rows, y
            Features and labels.
        y_range
            Smallest and largest label.
        leaks
            Sentences about what was taken from the data.
        is_read
            Rows that count; all by default.
        """
        self._given()
        middle, half = self._label_unit(y_range)
        unit = np.clip((np.clip(y, *y_range) - middle) / half, -1.0, 1.0)
        self._fit_linear(rows, unit, 1, leaks, is_read)
        self.y_range_ = y_range  # a fit that fails leaves the last one whole
        self._middle, self._half = middle, half
        with np.errstate(over="ignore", invalid="ignore"):  # a chance warning, of the draw
            self.coef_ = half * self.coef_[0]
            self.intercept_: Any = float(half * self.intercept_[0] + middle)

    def _label_unit(self, y_range: tuple[float, float]) -> tuple[float, float]:
        """Label that is 0 in the model, and how far from it 1 is."""
        low, high = y_range
        if self.fit_intercept:
            return (low + high) / 2, (high - low) / 2
        return 0.0, max(abs(low), abs(high))

    def _choose(self, facts: Facts) -> Choice:
        found = self._given().constants(Domain(x_bound=1.0, y_range=(-1.0, 1.0)))
        needs_ball = math.isinf(found.lipschitz) or found.strong_convexity < 0
        return choose_for_numbers(facts, self._is_free, needs_ball)

    def _loss_of(self, choice: Choice, facts: Facts) -> tuple[ModelLoss, tuple[float, float]]:
        if self._is_free:
            bend = 1 / 12 if choice.bend is None else choice.bend
            return losses.Huber(delta=bend), (-1.0, 1.0)
        return self._given(), (-1.0, 1.0)

    @property
    def _is_free(self) -> bool:
        """True where the rule chooses the bend of Huber's loss."""
        return isinstance(self.loss, str) and self.loss == "huber"

    def _given(self) -> losses.LinearLoss:
        return linear_loss(self.loss, "numbers")

    def _rescaled(self, thetas: np.ndarray, plan: Plan, facts: Facts) -> np.ndarray:
        if plan.noise_square == 0:
            return thetas
        # Noisy sum of label times features, to the slopes of features that do not correlate: as
        # if rows had all of their norm, spread evenly; shortened by what is noise.
        square = np.sum(thetas**2, axis=1, keepdims=True)
        sure = np.maximum(1 - plan.noise_square / square, 0.0)
        sums = thetas / (plan.guarantee.gamma if plan.mechanism == "gaussian" else 1.0)
        return np.asarray(sure * sums * facts.num_features / facts.n)

    def predict(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Linear predictions, averaged over draws and moved into the labels' declared range.

        Parameters
        ----------
        X
            Features ``[rows, columns]``.

        Returns
        -------
        array
            Predictions ``[rows]``.
        """
        unit = self._predictions(X)[:, :, 0].mean(axis=0)
        return np.clip(self._middle + self._half * unit, *self.y_range_)
