"""From declared bounds, a rule and a draw to the coefficients of a linear model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from sklearn.utils.validation import check_is_fitted, validate_data

from gibbs_dp.information import checks
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import LinearLoss, as_loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.releases.arguments import hidden_settings
from gibbs_dp.privacy.releases.method import EXACT_DRAW, FLOAT_ARITHMETIC
from gibbs_dp.privacy.table import unobserved
from gibbs_dp.sklearn.base import PrivateEstimator
from gibbs_dp.sklearn.features import declared_scaling, refuse_other_types
from gibbs_dp.sklearn.mechanisms import ModelLoss, NotProvenError, make_plan
from gibbs_dp.sklearn.plan import Choice, Facts, Mechanism, Plan

MECHANISMS = ("auto", *get_args(Mechanism))
# Log-odds, or half ranges of labels, beyond which no prior is meant.
MOST_THETA = 100.0


def linear_loss(given: Any, labels: str) -> LinearLoss:
    """Return a loss by name or as it is; refuse one that would not run as declared."""
    loss = as_loss(given, labels)
    if not isinstance(loss, LinearLoss):
        raise ValueError(
            f"loss: {type(loss).__name__} is no function of a linear prediction; derive it from "
            "gibbs_dp.losses.LinearLoss."
        )
    # Plans and programs are cached by the loss: two that differ must not be equal.
    name = type(loss).__name__
    if hidden := hidden_settings(loss):
        raise ValueError(
            f"loss: {name} keeps {', '.join(hidden)} outside of its fields; make the class a "
            "dataclass(frozen=True) and its settings fields."
        )
    try:
        hash(loss)
    except TypeError:
        raise ValueError(
            f"loss: {name} has a setting that has no hash, such as an array; make it a number or a "
            "tuple."
        ) from None
    points = np.zeros((2, 3)), np.zeros((2, 1))
    for method in (loss.value, loss.slope, loss.smoothed_curvature):
        try:  # on zeros: its messages tell nothing of data
            found = method(*points)
            jax.eval_shape(method, jnp.zeros(()), jnp.zeros(()))
        except Exception as error:
            raise ValueError(
                f"loss: {name}.{method.__name__} fails on arrays of NumPy or of JAX "
                f"({type(error).__name__}); take functions from "
                "gibbs_dp.losses.array_namespace(prediction)."
            ) from error
        if not (isinstance(found, np.ndarray) and found.dtype == np.float64):
            raise ValueError(
                f"loss: {name}.{method.__name__} makes a {type(found).__name__} of doubles of "
                "NumPy; take functions from gibbs_dp.losses.array_namespace(prediction)."
            )
    return loss


class PrivateLinearModel(PrivateEstimator):
    """Base of the classifier and the regressor; not for use by itself."""

    bounds: Any
    x_bound: float | None
    theta_bound: float | None
    fit_intercept: bool
    mechanism: str
    num_draws: int

    def _fit_linear(
        self,
        rows: Float[np.ndarray, "rows columns"],
        y: Float[np.ndarray, " rows"],
        num_outputs: int,
        leaks: list[str],
        is_read: Bool[np.ndarray, " rows"] | None = None,
    ) -> None:
        """Plan, charge and draw, and set coefficients."""
        n = self._check_target(len(rows))
        if self.mechanism not in MECHANISMS:
            raise ValueError(
                f"mechanism: {self.mechanism!r} is none of {', '.join(MECHANISMS)}; use 'auto'."
            )
        facts = Facts(
            n=n,
            num_features=rows.shape[1] + bool(self.fit_intercept),
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            num_outputs=num_outputs,
            adjacency=self.adjacency,
            num_draws=checks.count("num_draws", self.num_draws),
            needs_proof=EXACT_DRAW not in self.accept,
            needs_rounding=FLOAT_ARITHMETIC not in self.accept,
        )
        # What the rule likes best, where its draws can be proven, or need not be.
        free = replace(facts, needs_proof=False)
        try:
            choice, loss, y_range, plan = self._settled(facts, self._choose(free))
        except NotProvenError:
            other = self._choose(facts)
            if self.mechanism != "auto" or other == self._choose(free):
                raise
            choice, loss, y_range, plan = self._settled(facts, other)
        self._draw(facts, choice, loss, y_range, plan, rows, y, leaks, is_read)

    def _settled(
        self, facts: Facts, choice: Choice
    ) -> tuple[Choice, ModelLoss, tuple[float, float], Plan]:
        """Plan a choice of the rule, with what was asked for in its place."""
        if self.mechanism != "auto" and self.mechanism != choice.mechanism:
            choice = self._settings_of(self.mechanism, facts)
        if self.theta_bound is not None:
            bound = checks.positive("theta_bound", self.theta_bound)
            if bound > MOST_THETA:
                raise ValueError(f"theta_bound: give at most {MOST_THETA:g}, got {bound:g}.")
            if choice.mechanism != "posterior":
                raise ValueError(
                    f"theta_bound: mechanism {choice.mechanism!r} has no ball; leave it out, or "
                    "use mechanism='posterior'."
                )
            choice = choice._replace(radius=bound / self._unit(choice, facts))
        loss, y_range = self._loss_of(choice, facts)
        return choice, loss, y_range, make_plan(facts, choice, loss, y_range)

    def _draw(
        self,
        facts: Facts,
        choice: Choice,
        loss: ModelLoss,
        y_range: tuple[float, float],
        plan: Plan,
        rows: Float[np.ndarray, "rows columns"],
        y: Float[np.ndarray, " rows"],
        leaks: list[str],
        is_read: Bool[np.ndarray, " rows"] | None,
    ) -> None:
        """Charge and draw, and set coefficients."""
        scaling = declared_scaling(
            rows, self.bounds, self.x_bound, self.fit_intercept, choice.norm, leaks, self._columns
        )
        noise = self._noise(leaks)
        with unobserved():
            y = self._labels(y, y_range)
            features = scaling.features(rows)
            if is_read is not None:
                features = np.where(is_read[:, None], features, 0.0)

        def draw(features: Any, y: Any, noise: Any) -> Any:
            """Draw after the charge; whatever fails here fails without a word of the data."""
            # Rows are short enough already; a loss may have more to ask of labels.
            x, labels = loss.clip((features, y), Domain(x_bound=1.1, y_range=y_range))
            return plan.draw(x, labels, noise)

        thetas = self._release(plan.guarantee, draw, features, y, noise, leaks)
        self.mechanism_, self.told_ = plan.mechanism, plan.told
        self.settled_, self.scaling_ = (facts, choice, loss, y_range), scaling
        thetas = self._rescaled(thetas, plan, facts)
        self.draws_ = thetas.reshape(len(thetas), facts.num_features, facts.num_outputs)
        self.coef_, self.intercept_ = scaling.coefficients(self.draws_.mean(axis=0))

    def _has_domain(self) -> bool:
        """Return whether the features' domain is declared: nothing may then be told of a record."""
        return self.bounds is not None or self.x_bound is not None

    def _description(self) -> list[str]:
        names = self._columns or [f"column {i}" for i in range(self.n_features_in_)]
        outputs = np.atleast_2d(self.coef_)
        bases = np.atleast_1d(self.intercept_)
        found = [f"{self.told_}."]
        for i, (coef, base) in enumerate(zip(outputs, bases, strict=True)):
            which = "" if len(outputs) == 1 else f" of class {self._output_name(i)}"
            parts = ", ".join(
                f"{name} {value:.6g}" for name, value in zip(names, coef, strict=True)
            )
            found.append(f"Coefficients{which}: intercept {base:.6g}, {parts}.")
        return found

    def _output_name(self, index: int) -> str:
        return str(index)

    @property
    def posterior_(self) -> GibbsPosterior:
        """The Gibbs posterior that was drawn from, on features of norm at most 1."""
        check_is_fitted(self)
        return make_plan(*self.settled_).posterior

    @property
    def domain_(self) -> Domain:
        """Bounds of those features, and of labels as the loss takes them."""
        check_is_fitted(self)
        return make_plan(*self.settled_).domain

    def _choose(self, facts: Facts) -> Choice:
        """Apply the rule."""
        raise NotImplementedError

    def _unit(self, choice: Choice, facts: Facts) -> float:
        """Predictions, as users count them, of 1 in the loss's units."""
        return 1.0

    def _loss_of(self, choice: Choice, facts: Facts) -> tuple[ModelLoss, tuple[float, float]]:
        """Return the loss of a choice, and the range of labels as it takes them."""
        raise NotImplementedError

    def _labels(
        self, y: Float[np.ndarray, " rows"], y_range: tuple[float, float]
    ) -> Float[np.ndarray, " rows"]:
        """Turn labels into what the loss takes."""
        return np.clip(y, *y_range)

    def _settings_of(self, mechanism: Any, facts: Facts) -> Choice:
        """Return settings of a mechanism that the rule would not take."""
        radius, norm = 4.0, max(2.0, 0.5 * float(np.sqrt(facts.num_features)))
        scale = float(radius / 4 / np.sqrt(facts.dim))
        if mechanism == "posterior":
            return Choice(mechanism, norm, radius, None if facts.delta == 0 else scale)
        return Choice(mechanism, norm, None, scale if mechanism in ("chain", "rejection") else None)

    def _rescaled(self, thetas: np.ndarray, plan: Plan, facts: Facts) -> np.ndarray:
        """Bring draws to the scale of predictions."""
        raise NotImplementedError

    def _predictions(self, X: Any) -> Float[np.ndarray, "draws rows outputs"]:
        """Linear predictions of every draw, of rows moved and shortened as in the fit."""
        check_is_fitted(self)
        refuse_other_types("X", X)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(self.scaling_.features(rows) @ self.draws_)
