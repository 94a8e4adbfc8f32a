"""From declared bounds, a rule and a draw to the coefficients of a linear model."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, get_args

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float, Int
from sklearn.utils.validation import check_is_fitted, validate_data

from gibbs_dp.information import checks
from gibbs_dp.model import losses, supports
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.model.prior import Flat
from gibbs_dp.privacy.exact_samplers import euclidean_noise
from gibbs_dp.privacy.noise import FINENESS, ROOM, Noise, gaussian_release, on_lattice
from gibbs_dp.privacy.table import unobserved
from gibbs_dp.sklearn.base import PrivateEstimator
from gibbs_dp.sklearn.features import declared_scaling, refuse_other_types
from gibbs_dp.sklearn.plan import Facts, Mechanism, Plan, direct, repeated
from gibbs_dp.sklearn.posteriors import plan_chain, plan_posterior, plan_rejection
from gibbs_dp.sklearn.rule import Choice

# Linear losses: the sum of label times features, with exact noise.
#
# The posterior of ``-y x·theta`` under a Gaussian prior is a Gaussian around that sum, and that of
# ``|theta - sum of y x|`` under a flat one is the sum plus noise whose length has a Gamma law. Both
# are drawn exactly; no chain runs. Where rows are few for their privacy, they are the most
# accurate.

Features = Float[np.ndarray, "rows features"]
Labels = Float[np.ndarray, " rows"]

# Standard deviation of the Gaussian prior; features have norm at most 1.
SCALE = 1.0


def coded_sum(x: Features, y: Labels, num_outputs: int) -> Int[np.ndarray, " dim"]:
    """Sum of features times coded label, one column an output, flattened, in lattice steps.

    Two classes are coded as -1/2 and 1/2, more as indicators around their mean, and numbers as
    they are: a row then has a Frobenius norm of at most ``norm_of_a_row``. What a row adds is cut
    off to the lattice (`gibbs_dp.privacy.noise`) towards zero, which makes no norm larger.

    >>> (coded_sum(np.ones((3, 1)), np.array([0.0, 0.0, 1.0]), 2) / 2**30).tolist()
    [0.5, -0.5]
    """
    if num_outputs == 1:
        return on_lattice(y[:, None] * x).sum(axis=0)
    code = (np.arange(num_outputs) == y[:, None]) - 1 / num_outputs
    columns = [on_lattice(c[:, None] * x).sum(axis=0) for c in code.T]
    return np.stack(columns, axis=1).reshape(-1)


def norm_of_a_row(num_outputs: int, y_bound: float) -> float:
    """Largest norm of one row's part of the sum.

    >>> norm_of_a_row(1, 0.5), norm_of_a_row(4, 0.5)
    (0.5, 0.8660254037844386)
    """
    return y_bound if num_outputs == 1 else float(np.sqrt(1 - 1 / num_outputs))


class _CodedLinear(losses.Linear):
    """The linear loss of several classes, on flat parameters."""

    num_outputs: int

    def __init__(self, num_outputs: int) -> None:
        object.__setattr__(self, "num_outputs", num_outputs)

    def batch(self, theta: Float[Array, " dim"], data: Any) -> Float[Array, " n"]:
        x, y = data
        code = (jnp.arange(self.num_outputs) == y[:, None]) - 1 / self.num_outputs
        return -jnp.sum((x @ theta.reshape(x.shape[1], -1)) * code, axis=1)


def plan_gaussian(facts: Facts, y_range: tuple[float, float]) -> Plan:
    """Gaussian noise on the sum: ``(epsilon, delta)``, exactly drawn.

    Parameters
    ----------
    facts
        What is public.
    y_range
        Smallest and largest label; the middle is subtracted where there is one output.

    Returns
    -------
    Plan
        The Gaussian mechanism as a Gibbs posterior.
    """
    middle, y_bound = 0.5 * (y_range[0] + y_range[1]), 0.5 * (y_range[1] - y_range[0])
    reach = norm_of_a_row(facts.num_outputs, y_bound)
    prior = dist.Normal(jnp.zeros(facts.dim), SCALE).to_event(1)
    if facts.num_outputs == 1:
        domain, loss = Domain(x_bound=1.0, y_range=(-y_bound, y_bound)), losses.linear
    else:
        domain = Domain(x_bound=1.0, y_range=(0.0, facts.num_outputs - 1.0))
        coded = _CodedLinear(facts.num_outputs)
        loss = losses.Declared(  # type: ignore[assignment]
            coded, lipschitz=reach, smoothness=0.0, strong_convexity=0.0
        )
    posterior = GibbsPosterior(loss, prior)
    found = facts.calibrate(posterior, domain)
    gamma, num_outputs = found.gamma, facts.num_outputs

    def one(x: Features, y: Labels, noise: Noise) -> Float[np.ndarray, " dim"]:
        total = coded_sum(x, y if num_outputs > 1 else y - middle, num_outputs)
        deviation = 1 / (gamma * SCALE)  # of the sum, so that theta has SCALE
        exact = [Fraction(int(t), FINENESS) for t in total]
        noisy = gaussian_release(exact, deviation, noise)
        return np.asarray(gamma * SCALE**2 * noisy)

    return Plan(
        "gaussian",
        f"linear loss, Gaussian prior of standard deviation {SCALE:g}; the posterior is a Gaussian "
        "around gamma times the sum of label times features, and drawn exactly",
        posterior,
        domain,
        direct(found.guarantee),
        repeated(one, facts.num_draws),
        noise_square=facts.dim * SCALE**2,
    )


def plan_direction(facts: Facts, y_range: tuple[float, float]) -> Plan:
    """Noise of uniform direction on the sum: pure DP, exactly drawn.

    The density is proportional to ``exp(-gamma |theta - sum|)`` (Hardt & Talwar 2010 with the
    Euclidean norm; Chaudhuri, Monteleoni & Sarwate 2011 perturb outputs by it).

    Parameters
    ----------
    facts, y_range
        As in `plan_gaussian`; replace-one only.

    Returns
    -------
    Plan
        The location family as a Gibbs posterior of a structured loss.
    """
    middle, y_bound = 0.5 * (y_range[0] + y_range[1]), 0.5 * (y_range[1] - y_range[0])
    reach, num_outputs = norm_of_a_row(facts.num_outputs, y_bound), facts.num_outputs

    def distance(theta: Float[Array, " dim"], data: Any) -> Array:
        x, y = data
        if num_outputs > 1:
            code = (jnp.arange(num_outputs) == y[:, None]) - 1 / num_outputs
            return jnp.linalg.norm(theta - (x.T @ code).reshape(-1))
        return jnp.linalg.norm(theta - y @ x)

    posterior = GibbsPosterior(
        total_loss=distance,
        prior=Flat(supports.real(facts.dim)),
        sensitivity=lambda n: 2 * reach,
        location_family=True,
    )
    ends = (-y_bound, y_bound) if num_outputs == 1 else (0.0, num_outputs - 1.0)
    domain = Domain(x_bound=1.0, y_range=ends)
    found = facts.calibrate(posterior, domain)
    gamma, dim = found.gamma, facts.dim

    def one(x: Features, y: Labels, noise: Noise) -> Float[np.ndarray, " dim"]:
        total = coded_sum(x, y if num_outputs > 1 else y - middle, num_outputs)
        added = euclidean_noise(dim, FINENESS * ROOM / Fraction(gamma), noise)
        return np.array([(int(t) + e) / FINENESS for t, e in zip(total, added, strict=True)])

    return Plan(
        "direction",
        "distance from the sum of label times features as loss, flat prior; the sum plus noise of "
        "uniform direction and Gamma length, drawn exactly",
        posterior,
        domain,
        direct(found.guarantee),
        repeated(one, facts.num_draws),
        noise_square=dim * (dim + 1) / gamma**2,
    )


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
