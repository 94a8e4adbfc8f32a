"""A private linear classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit, logit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from gibbs_dp.information import checks
from gibbs_dp.model import losses
from gibbs_dp.privacy.released_model import NO_LOG_ODDS
from gibbs_dp.sklearn.features import (
    NUMBERS,
    class_indices,
    private_labels,
    private_rows,
    refuse_other_types,
    refuse_texts,
)
from gibbs_dp.sklearn.linear_model import PrivateLinearModel, linear_loss
from gibbs_dp.sklearn.mechanisms import ModelLoss
from gibbs_dp.sklearn.plan import Choice, Facts, Plan, choose_for_classes, leak

# Log-odds that a noisy sum, which says only where classes lie, is scaled to at most.
REACH = 4.0
_OF_LOG_ODDS = losses.Logistic, losses.SoftmaxCrossEntropy


class GibbsClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear classifier that is one private draw from a Gibbs posterior.

    The mechanism, its prior and gamma follow from public facts alone: rows, columns, bounds and
    target (`gibbs_dp.sklearn.plan`). Everything is settled before a value is looked at.

    Parameters
    ----------
    epsilon, delta
        The target, for all draws of one fit together; pure DP where ``delta`` is 0.
    loss
        "auto": what the rule picks, for two classes Huber's loss of labels -1 and 1, or a linear
        one; for more, softmax cross-entropy or a linear one. "logistic": always logistic (softmax).
        For two classes also "hinge", or a loss of your own, a `gibbs_dp.losses.TwoClassLoss`. Only
        of the logistic loss are probabilities what they say; see ``has_log_odds_``.
    bounds
        ``(low, high)`` of the columns, numbers or one a column, or a dict of them by column,
        declared without looking at the data; values beyond are moved there. Best where a range
        spans about five standard deviations. Where neither this nor ``x_bound`` is given, they are
        taken from the data, with a `PrivacyLeakWarning`.
    x_bound
        Instead: the largest Euclidean norm of a row of features; longer rows are shortened.
    classes
        All labels that there may be; taken from the data, with a warning, where not given.
    theta_bound
        Largest log-odds that the prior allows; chosen by the rule where not given. For mechanism
        "posterior" only.
    fit_intercept
        Whether there is an intercept. Without one the model goes through the origin of the columns
        as they came, and least is lost where their bounds lie evenly about 0.
    mechanism
        "auto", or one of "gaussian", "direction" (a noisy sum, drawn exactly), "posterior" (the
        loss itself: proven draws, or chains), "chain" (one Langevin run with a guarantee of its
        own), "rejection" (few features).
    num_draws
        Draws whose probabilities are averaged; all are paid for.
    adjacency
        Which tables count as neighbours: "replace-one" or "add-remove".
    n
        Under add-remove, a public upper bound on the number of rows.
    ledger
        A `gibbs_dp.Ledger`, or the path of one, which every fit is charged to.
    accept
        Idealizations that may be made: without "exact-draw" only mechanisms whose draws are exact
        or proven are used, which need none.
    random_state
        For tests only: noise that can be repeated protects nobody, and a warning says so.

    Attributes
    ----------
    guarantee_
        A `gibbs_dp.Guarantee`: what holds, under which assumptions, and what is not covered.
    coef_
        Of scores in the columns as they came: ``[1, columns]`` for two classes, else one row a
        class; the mean over draws. Rows beyond the bounds, and rows far from their middle, are
        moved and shortened first, as in the fit.
    has_log_odds_
        Whether scores are log-odds: of draws from a logistic (softmax) posterior. Huber's loss and
        noisy sums, which "auto" takes where they need less noise, tell which class is likelier. Of
        them ``predict_proba`` is a score from 0 to 1 that orders rows: a class of 1 in 100 may have
        0.1 everywhere.
    intercept_
        One a row of coefficients.
    gamma_
        Inverse temperature.
    classes_
        The labels.
    mechanism_
        What was done.
    told_
        The same in words.
    charge_
        Number of the charge in the ledger, if there is one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2)); y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = GibbsClassifier(epsilon=1.0, bounds=(-2.5, 2.5), classes=["no", "yes"])
    >>> model.fit(X, y).score(X, y) > 0.6
    True
    >>> model.guarantee_.pure_epsilon, model.mechanism_
    (1.0, 'posterior')
    """

    def __init__(
        self,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        *,
        loss: Any = "auto",
        bounds: Any = None,
        x_bound: Any = None,
        classes: Any = None,
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
        self.classes = classes
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
        tags.classifier_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> GibbsClassifier:
        """Fit to examples ``X [rows, columns]`` and labels ``y [rows]``.

        Where bounds and classes are declared, nothing that depends on a record is warned of or
        raised: features beyond the bounds are moved there, and a record with a label that was not
        declared, or with a cell that is no number, counts for nothing.

        Parameters
        ----------
        X, y
            Private examples: arrays or a pandas table.

        Returns
        -------
        GibbsClassifier
            This object.

        Raises
        ------
        ValueError
            For bad input, before anything is charged: shapes and types, where all is declared.
        BudgetExceededError
            If the ledger has less left; nothing is charged.
        ReleaseError
            If the chains fail; the charge stands.
        """
        refuse_other_types("X", X)
        checks.refuse_masked("y", y, is_private=True)
        leaks: list[str] = []
        if self.classes is not None and self._has_domain():
            rows, classes = private_rows(self, X), as_classes(self.classes)
            if classes.dtype.kind in NUMBERS:
                refuse_texts("y", y, "classes that are numbers")
            place, is_known = class_indices(private_labels(y, len(rows), self.adjacency), classes)
            is_read = is_known & ~np.isnan(rows).any(axis=1)
            self.fit_classes(np.nan_to_num(rows), place, classes, leaks, is_read)
            return self
        rows, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        if self.classes is None:
            leak(
                "classes: taken from the data, which no guarantee covers; declare classes=[...].",
                leaks,
            )
            classes = np.unique(y)
            if len(classes) < 2:
                raise ValueError("y: there is only one class; a classifier needs at least two.")
        else:
            classes = as_classes(self.classes)
            if not np.isin(y, classes).all():
                raise ValueError(
                    "y: a label is not among classes; declare all that there may be, or recode it."
                )
        place = np.searchsorted(classes, y).astype(np.float64)
        self.fit_classes(rows, place, classes, leaks)
        return self

    def fit_classes(
        self,
        rows: Float[np.ndarray, "rows columns"],
        place: Float[np.ndarray, " rows"],
        classes: np.ndarray,
        leaks: list[str],
        is_read: Bool[np.ndarray, " rows"] | None = None,
    ) -> None:
        """Fit to checked numbers: what `fit` does after it has looked at their form.

        Parameters
        ----------
        rows, place
            Features, and places of labels among the classes, from 0.
        classes
            The labels.
        leaks
            Sentences about what was taken from the data.
        is_read
            Rows that count; all by default.
        """
        size, loss = len(classes), self._given()
        if size > 2 and not isinstance(loss, losses.Logistic):
            raise ValueError(
                f"loss: the {loss.name} loss is of two classes, and there are {size}; use 'auto' "
                "or 'logistic'."
            )
        self._fit_linear(rows, place, 1 if size == 2 else size, leaks, is_read)
        self.classes_ = classes  # a fit that fails leaves the last one whole
        is_sum = self.mechanism_ in ("gaussian", "direction")
        self.has_log_odds_ = not is_sum and isinstance(self.settled_[2], _OF_LOG_ODDS)

    def _choose(self, facts: Facts) -> Choice:
        return choose_for_classes(facts, self._is_free)

    def _output_name(self, index: int) -> str:
        return str(self.classes_[index])

    def _description(self) -> list[str]:
        told = super()._description()
        return told if self.has_log_odds_ else [*told, f"Scores of this kind are {NO_LOG_ODDS}."]

    def _loss_of(self, choice: Choice, facts: Facts) -> tuple[ModelLoss, tuple[float, float]]:
        if facts.num_outputs > 1:
            return losses.SoftmaxCrossEntropy(facts.num_outputs), (0.0, facts.num_outputs - 1.0)
        if choice.bend is None:
            return self._given(), (0.0, 1.0)
        return losses.Huber(delta=choice.bend), (-1.0, 1.0)

    @property
    def _is_free(self) -> bool:
        """True where the rule chooses the loss."""
        return isinstance(self.loss, str) and self.loss == "auto"

    def _given(self) -> losses.LinearLoss:
        if isinstance(self.loss, str) and self.loss == "huber":
            raise ValueError(
                "loss: 'huber' is what 'auto' takes for two classes where it needs the least "
                "noise; leave loss out, or use 'hinge' or 'logistic'."
            )
        return losses.logistic if self._is_free else linear_loss(self.loss, "two classes")

    def _unit(self, choice: Choice, facts: Facts) -> float:
        return 2.0 if self._loss_of(choice, facts)[1][0] < 0 else 1.0

    def _labels(
        self, y: Float[np.ndarray, " rows"], y_range: tuple[float, float]
    ) -> Float[np.ndarray, " rows"]:
        return 2 * y - 1 if y_range[0] < 0 else y

    def _rescaled(self, thetas: np.ndarray, plan: Plan, facts: Facts) -> np.ndarray:
        if plan.noise_square == 0:
            # Scores around -1 and 1 as log-odds, whose slope at 0 they have then.
            return thetas if plan.domain.y_range[0] >= 0 else 2 * thetas
        # Direction from the noisy sum; length by how far it stands out of the noise.
        square = np.sum(thetas**2, axis=1, keepdims=True)
        sure = np.maximum(1 - plan.noise_square / square, 0.05)
        return np.asarray(REACH * sure * thetas / np.sqrt(square))

    def decision_function(self, X: Any) -> Float[np.ndarray, ...]:
        """Score of the second class, above 0 where it is predicted, or scores ``[rows, classes]``.

        Of several draws, the log-odds of what :meth:`predict_proba` averages.

        Parameters
        ----------
        X
            Features ``[rows, columns]``.

        Returns
        -------
        array
            ``[rows]`` for two classes.
        """
        scores = self._predictions(X)
        if len(scores) > 1:
            shares = self._shares(scores)
            return logit(shares[:, 1]) if shares.shape[1] == 2 else np.log(shares)
        return scores[0, :, 0] if len(self.classes_) == 2 else scores[0]

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Probabilities of the classes, averaged over draws; where scores are no log-odds, shares.

        Shares order rows, and are no frequencies: see ``has_log_odds_``.

        Parameters
        ----------
        X
            Features ``[rows, columns]``.

        Returns
        -------
        array
            One column a class, in the order of ``classes_``.
        """
        return self._shares(self._predictions(X))

    def _shares(
        self, scores: Float[np.ndarray, "draws rows outputs"]
    ) -> Float[np.ndarray, "rows classes"]:
        if len(self.classes_) == 2:
            one = expit(scores[:, :, 0]).mean(axis=0)
            return np.stack([1 - one, one], axis=1)
        return np.asarray(softmax(scores, axis=2).mean(axis=0))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class.

        Parameters
        ----------
        X
            Features ``[rows, columns]``.

        Returns
        -------
        array
            Labels ``[rows]``.
        """
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])


def as_classes(classes: Any) -> np.ndarray:
    """Sort declared classes."""
    checks.refuse_masked("classes", classes)
    try:
        given = list(classes)
        found = np.unique(np.asarray(given))
    except TypeError:
        given, found = [], np.array([])
    if 0 < sum(isinstance(one, str) for one in given) < len(given):
        raise ValueError(
            f"classes: texts and numbers together, {checks.shown(classes)}; make all of one type, "
            "and labels, too."
        )
    if len(found) < 2:
        raise ValueError(f"classes: declare two or more different ones, got {classes!r}.")
    return found
