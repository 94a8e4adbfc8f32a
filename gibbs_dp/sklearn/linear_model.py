"""From declared bounds, a rule and a draw to the coefficients of a linear model."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_args

import numpy as np
from jaxtyping import Bool, Float
from sklearn.utils.validation import check_is_fitted, validate_data

from gibbs_dp.information import checks
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.private_data import unobserved
from gibbs_dp.sklearn.base import PrivateEstimator
from gibbs_dp.sklearn.features import declared_scaling, refuse_other_types
from gibbs_dp.sklearn.plan import Facts, Mechanism, Plan
from gibbs_dp.sklearn.posteriors import plan_chain, plan_posterior, plan_rejection
from gibbs_dp.sklearn.rule import Choice
from gibbs_dp.sklearn.sums import plan_direction, plan_gaussian

MECHANISMS = ("auto", *get_args(Mechanism))
# Log-odds, or half ranges of labels, beyond which no prior is meant.
MOST_THETA = 100.0


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
        kept: list[str],
        is_read: Bool[np.ndarray, " rows"] | None = None,
    ) -> None:
        """Plan, charge and draw, and set coefficients.

        Parameters
        ----------
        rows, y
            Features as they came; classes as numbers from 0, or labels from -1 to 1.
        num_outputs
            Columns of parameters.
        kept
            Sentences about what was taken from the data.
        is_read
            Rows that count; all by default. Others become zeros, the intercept too.
        """
        n, needs_proof = self._check_target(len(rows))
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
            needs_proof=needs_proof,
        )
        choice = self._choose(facts)
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
        plan = make_plan(facts, choice, loss, y_range)
        scaling = declared_scaling(
            rows,
            self.bounds,
            self.x_bound,
            self.fit_intercept,
            choice.norm,
            kept,
            self._columns,
        )
        noise = self._noise(kept)
        with unobserved():
            y = self._labels(y, y_range)
            features = scaling.features(rows)
            if is_read is not None:
                features = np.where(is_read[:, None], features, 0.0)
        thetas = self._release(plan.guarantee, plan.draw, features, y, noise, kept)
        self.mechanism_, self.told_ = plan.mechanism, plan.told
        self.settled_, self.scaling_ = (facts, choice, loss, y_range), scaling
        thetas = self._rescaled(thetas, plan, facts)
        self.draws_ = thetas.reshape(len(thetas), facts.num_features, num_outputs)
        self.coef_, self.intercept_ = scaling.coefficients(self.draws_.mean(axis=0))

    def _has_domain(self) -> bool:
        """Whether the features' domain is declared: no record may then be told of."""
        return self.bounds is not None or self.x_bound is not None

    def _told(self) -> list[str]:
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

    def _loss_of(self, choice: Choice, facts: Facts) -> tuple[Loss, tuple[float, float]]:
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


@lru_cache(maxsize=64)
def make_plan(facts: Facts, choice: Choice, loss: Loss, y_range: tuple[float, float]) -> Plan:
    """Make the plan of a choice; plans of equal facts are one.

    Parameters
    ----------
    facts, choice
        What is public, and what the rule makes of it.
    loss, y_range
        Of the model.

    Returns
    -------
    Plan
        What the fit is to do.

    Raises
    ------
    ValueError
        If the mechanism cannot give this guarantee.

    Examples
    --------
    >>> from gibbs_dp import losses
    >>> facts, choice = Facts(50, 3, 1.0, 1e-5), Choice("gaussian", 2.0)
    >>> make_plan(facts, choice, losses.logistic, (0.0, 1.0)).guarantee.epsilon
    1.0
    """
    _check_choice(facts, choice)
    domain = Domain(x_bound=1.0, y_range=y_range)
    if choice.mechanism in ("gaussian", "direction"):
        plan = plan_gaussian if choice.mechanism == "gaussian" else plan_direction
        return plan(facts, y_range)
    if choice.mechanism == "posterior":
        return plan_posterior(facts, loss, domain, choice.radius, choice.scale)
    assert choice.scale is not None
    make = plan_chain if choice.mechanism == "chain" else plan_rejection
    return make(facts, loss, domain, choice.scale)


def _check_choice(facts: Facts, choice: Choice) -> None:
    """Refuse mechanisms that have no such guarantee, in one sentence."""
    name = choice.mechanism
    if facts.delta == 0 and name in ("gaussian", "chain", "rejection"):
        raise ValueError(f"delta: mechanism {name!r} needs one above 0; give delta=1e-5, say.")
    if name == "direction" and facts.adjacency != "replace-one":
        raise ValueError("mechanism: 'direction' is for replace-one neighbours; use 'posterior'.")
    if name == "chain" and facts.num_draws != 1:
        raise ValueError("num_draws: mechanism 'chain' makes one draw; use another for more.")
    if facts.needs_proof and name == "posterior":
        raise ValueError(
            "accept: mechanism 'posterior' takes a chain's draws for exact ones; accept "
            "'exact-draw', or use 'gaussian', 'direction', 'chain' or 'rejection'."
        )


def as_classes(classes: Any) -> np.ndarray:
    """Sort declared classes.

    Raises
    ------
    ValueError
        If there are fewer than two different ones.

    Examples
    --------
    >>> as_classes(["yes", "no"]).tolist()
    ['no', 'yes']
    """
    checks.refuse_masked("classes", classes)
    try:
        found = np.unique(np.asarray(list(classes)))
    except TypeError:
        found = np.array([])
    if len(found) < 2:
        raise ValueError(f"classes: declare two or more different ones, got {classes!r}.")
    return found
