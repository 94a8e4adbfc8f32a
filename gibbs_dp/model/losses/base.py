"""The contract of losses, built-in or declared, and what linear predictions share."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from gibbs_dp._jaxlib.per_example import over_examples
from gibbs_dp.model.domain import Domain, LossConstants

Labelled = tuple[Float[Array, "*n d"], Shaped[Array, "*n"]]
# Arrays of NumPy or of JAX, of shapes that broadcast.
Values = Float[Any, "..."]
Labels = Shaped[Any, "..."]
LabelKind = Literal["numbers", "counts", "two classes", "classes"]


def array_namespace(array: Any) -> Any:
    """Return the functions for an array: those of ``jax.numpy`` for one of JAX, else of ``numpy``.

    A loss takes its functions from here, so that one formula serves compiled programs and the
    estimators of `gibbs_dp.sklearn`, which run in NumPy and in double precision.

    Examples
    --------
    >>> array_namespace(np.ones(2)).__name__, array_namespace(jnp.ones(2)).__name__
    ('numpy', 'jax.numpy')
    """
    return jnp if isinstance(array, jax.Array) else np


class RankOne(NamedTuple):
    """What sets examples' quadratic losses apart, a row each.

    At ``theta + v`` the loss of an example is ``slope (direction . v) + curvature (direction .
    v)^2 / 2`` and what is the same for all examples, or does not depend on ``v``.
    """

    direction: Float[Array, "n d"]
    slope: Float[Array, " n"]
    curvature: Float[Array, " n"]


@dataclass(frozen=True)
class Loss(abc.ABC):
    """A per-example loss with constants on a :class:`gibbs_dp.Domain`.

    Any callable ``loss(theta, z) -> scalar`` works in a posterior; deriving from this class adds
    the constants that privacy guarantees need, and a batched evaluation that may be faster. A loss
    of one's own is a frozen dataclass of its settings that gives ``__call__``.

    ``is_quadratic`` declares the loss a quadratic function of theta: a dataset's total loss is
    then known from its gradient and Hessian at one point. ``name`` is what messages call the loss:
    by default its class's, in small letters. ``labels`` says which labels it takes, "numbers",
    "counts", "two classes" or "classes", so that tables and estimators can use it; None for a loss
    that they cannot. ``degree`` is the power of the labels' unit that it is measured in.
    """

    name: ClassVar[str] = "loss"
    labels: ClassVar[LabelKind | None] = None
    degree: ClassVar[int | None] = None
    is_quadratic: ClassVar[bool] = False
    # Whether clipped per-example gradients are those of a convex function as smooth as the loss, so
    # that a guarantee for strongly convex potentials survives clipping.
    is_convex_when_clipped: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()

    @abc.abstractmethod
    def __call__(self, theta: Any, z: Any) -> Float[Array, ""]:
        """Loss of one example."""

    def batch(self, theta: Any, data: Any) -> Float[Array, " n"]:
        """Losses of ``n`` examples at one theta."""
        return over_examples(self, theta, data)

    def rank_one(self, theta: Any, data: Any) -> RankOne | None:
        """Say what sets the losses of ``n`` examples apart around theta; None: not in this form.

        A quadratic loss that says so has posteriors whose KL is a closed form.
        """
        del theta, data
        return None

    def constants(self, domain: Domain) -> LossConstants:
        """Range, oscillation, Lipschitz and smoothness constants on the domain.

        Without a method of its own, none are known, and a guarantee that needs one says so.
        """
        del domain
        return LossConstants.of((-np.inf, np.inf), np.inf, np.inf, np.inf, -np.inf)

    @property
    def is_convex(self) -> bool:
        """Whether it is convex in theta for every example, as its constants say of no bounds."""
        try:
            return bool(self.constants(Domain()).strong_convexity >= 0)
        except ValueError:  # of a loss that knows nothing without bounds
            return False

    def clip(self, data: Any, domain: Domain) -> Any:
        """Project examples onto the domain where the constants hold; see `Domain.clip`."""
        return domain.clip(data)

    def check_examples(self, data: Any) -> None:
        """Raise a ValueError where some example, by itself, cannot be used with this loss."""
        del data

    def check_data(self, data: Any) -> None:
        """Raise a ValueError when the examples cannot be used with this loss as a dataset."""
        self.check_examples(data)


@dataclass(frozen=True)
class LinearLoss(Loss):
    """A loss ``phi(x·theta, y)`` of examples ``(x [d], y)`` and a parameter vector ``theta [d]``.

    All ``n`` predictions are one matrix product; an intercept is a column of ones in ``x``. A loss
    of your own is a class with ``value``, ``slope``, ``curvature`` and ``constants``, a frozen
    dataclass where it has settings: it then works in posteriors, in
    ``gibbs_dp.problems.table(loss=...)`` and in `gibbs_dp.sklearn.GibbsRegressor`. Arrays are
    NumPy's or JAX's; functions of both kinds come from `array_namespace`.

    The built-in losses are convex in the prediction, so that clipping a gradient, which limits the
    slope of ``phi``, leaves the gradient of a convex function (Song, Steinke, Thakkar & Thakurta
    2021); one that is not has a negative ``strong_convexity`` among its constants.

    Examples
    --------
    >>> class LogCosh(LinearLoss):
    ...     def value(self, prediction, y):
    ...         return array_namespace(prediction).logaddexp(prediction - y, y - prediction)
    ...
    ...     def slope(self, prediction, y):
    ...         return array_namespace(prediction).tanh(prediction - y)
    ...
    ...     def curvature(self, prediction, y):
    ...         return 1 - self.slope(prediction, y) ** 2
    ...
    ...     def constants(self, domain):
    ...         most = domain.prediction_bound + domain.y_bound
    ...         return LossConstants.of(
    ...             range=(np.log(2), np.logaddexp(most, -most)),
    ...             oscillation=np.logaddexp(most, -most) - np.log(2),
    ...             lipschitz=domain.x_bound,
    ...             smoothness=domain.x_bound**2,
    ...         )
    >>> LogCosh().slope(np.array([1.0, 2.0]), 2.0).round(4)
    array([-0.7616,  0.    ])
    """

    labels: ClassVar[LabelKind | None] = "numbers"
    is_convex_when_clipped = True

    @abc.abstractmethod
    def value(self, prediction: Values, y: Labels) -> Values:
        """Evaluate ``phi`` elementwise."""

    @abc.abstractmethod
    def slope(self, prediction: Values, y: Labels) -> Values:
        """Differentiate ``phi`` in the prediction; at a kink, any slope between the two."""

    @abc.abstractmethod
    def curvature(self, prediction: Values, y: Labels) -> Values:
        """Differentiate ``phi`` twice in the prediction, where that is possible."""

    def precise(self, prediction: Decimal, y: Decimal) -> Decimal:
        """Evaluate ``phi`` of one example, but for a constant, to the digits of `decimal`.

        Proven draws of a private release decide close calls by it; without it there are none.
        """
        raise NotImplementedError

    @property
    def is_precise(self) -> bool:
        """Whether it has `precise`."""
        return type(self).precise is not LinearLoss.precise

    def smoothed_curvature(self, prediction: Values, y: Labels) -> Values:
        """Return what stands for the curvature where chains are scaled: at least 0, no kinks.

        By default the curvature, or 0 where it is negative. Draws have the same law whatever it
        is; chains only take more or fewer steps.
        """
        return array_namespace(prediction).maximum(self.curvature(prediction, y), 0.0)

    def __call__(self, theta: Float[Array, " d"], z: Labelled) -> Float[Array, ""]:
        """Loss of one example ``(x [d], y)``."""
        x, y = z
        return self.value(jnp.dot(x, theta, precision="highest"), y)

    def batch(self, theta: Float[Array, " d"], data: Labelled) -> Float[Array, " n"]:
        """Losses of ``(x [n, d], y [n])``."""
        x, y = data
        # Many thetas at once give [theta, n]: with examples last, as in y, a CPU takes half the
        # time of [n, theta].
        return self.value(jnp.einsum("d,nd->n", theta, x, precision="highest"), y)

    def rank_one(self, theta: Float[Array, " d"], data: Labelled) -> RankOne | None:
        """Slopes and curvatures along the features; None where it is not quadratic."""
        if not self.is_quadratic:
            return None
        x, y = data
        prediction = jnp.einsum("d,nd->n", theta, x, precision="highest")
        return RankOne(x, self.slope(prediction, y), self.curvature(prediction, y))

    def check_examples(self, data: Any) -> None:
        """Raise a ValueError unless the examples are ``(x [n, d], y [n])``."""
        check_labelled(data, f"{self.name} loss")


def check_labelled(data: Any, loss: str) -> None:
    """Raise a ValueError unless the examples are ``(x [n, d], y [n])``."""
    shapes = [jnp.shape(a) for a in data] if isinstance(data, (tuple, list)) else []
    if [len(s) for s in shapes] != [2, 1]:
        raise ValueError(
            f"data: the {loss} needs examples (x, y) with x of shape [n, d] and y of shape [n]; "
            f"got shapes {shapes or 'of one array'}."
        )


def smoothed_kink(distance: Values, jump: float) -> Values:
    """Curvature of losses whose slope jumps at distance 0: ``jump`` times a smoothed density.

    Summed over examples that is what kinks add up to.

    >>> smoothed_kink(np.zeros(1), 2.0) > smoothed_kink(np.ones(1), 2.0)
    array([ True])
    """
    xp = array_namespace(distance)
    width = 0.4 * xp.abs(distance).mean() + 1e-9
    density = xp.exp(-((distance / width) ** 2) / 2.0) / math.sqrt(2 * math.pi)
    return jump / width * density + 0.5e-3 * jump / width


# A user's own loss, with constants that its author vouches for.


@dataclass(frozen=True)
class Declared(Loss):
    """Any ``loss(theta, z) -> scalar`` with declared constants.

    The constants are promises for all parameters of the prior's support and all examples of the
    domain that is used with the loss; nothing checks them. A guarantee
    that needs an undeclared constant says so.

    Parameters
    ----------
    function
        The loss of one example.
    oscillation
        ``sup_z (sup_theta - inf_theta) loss(theta, z)``, in units of the loss.
    lipschitz
        Largest Euclidean norm of the gradient in theta.
    smoothness
        Largest eigenvalue of the Hessian in theta.
    strong_convexity
        Smallest eigenvalue of the Hessian in theta for every example; 0 for a convex loss.

    Raises
    ------
    ValueError
        If a constant is negative, NaN, or contradicts another.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> bounded = Declared(lambda theta, z: jnp.tanh((theta - z) ** 2), oscillation=1.0)
    >>> bounded.constants(Domain()).exchange_range
    2.0
    """

    function: Callable[[Any, Any], Any]
    oscillation: float = np.inf
    lipschitz: float = np.inf
    smoothness: float = np.inf
    strong_convexity: float = -np.inf

    def __post_init__(self) -> None:
        for name in ("oscillation", "lipschitz", "smoothness"):
            if not getattr(self, name) >= 0:
                raise ValueError(
                    f"Declared({name}) must be at least 0, got {getattr(self, name)}; leave it out "
                    "where it is not known."
                )
        if not self.strong_convexity <= self.smoothness:
            raise ValueError(
                f"Declared(strong_convexity) must be at most smoothness={self.smoothness:g}, got "
                f"{self.strong_convexity}; it is the smallest eigenvalue of the Hessian."
            )

    def __call__(self, theta: Any, z: Any) -> Float[Array, ""]:
        """Loss of one example."""
        return jnp.asarray(self.function(theta, z))

    def batch(self, theta: Any, data: Any) -> Float[Array, " n"]:
        """Losses of ``n`` examples: one by one, unless the function has a ``batch`` of its own."""
        batch = getattr(self.function, "batch", None)
        return super().batch(theta, data) if batch is None else batch(theta, data)

    def constants(self, domain: Domain) -> LossConstants:
        """Return the declared constants, whatever the domain."""
        del domain
        return LossConstants.of(
            range=(-np.inf, np.inf),
            oscillation=self.oscillation,
            lipschitz=self.lipschitz,
            smoothness=self.smoothness,
            strong_convexity=self.strong_convexity,
        )


# How far the gradients of two examples can lie apart, for losses of a linear prediction.


Slope = Callable[[Float[np.ndarray, " points"]], Float[np.ndarray, " points"]]

NUM_ANGLES = 6000
NUM_DIRECTIONS = 192
# Predictions near zero, where slopes bend, get points of their own.
REACH = 30.0


def largest_gap(slope: Slope, prediction_bound: float) -> float:
    """Bound ``|phi'(x·theta, y) x - phi'(x'·theta, y') x'|`` for ``|x|, |x'| <= 1``.

    For losses ``phi(prediction, y)``, convex in the prediction, that are the same for ``(x, y)``
    and a mirrored example ``(-x, y*)``. Then all that matters is the steepest upward slope at each
    prediction, ``g(p) = sup_y phi'(p, y)``, and with ``P`` the largest prediction the supremum is::

        max over A, B in [0, pi] of |g(P cos A) (cos A, sin A) + g(P cos B) (-cos B, sin B)|:

    for a given prediction the part of ``x`` across theta should be as long as ``|x| <= 1`` allows,
    the two parts opposite; and at given predictions the sum grows with ``|theta|``, which turns
    both ``x`` across theta. This is the largest width of the curve ``g(P cos A) (cos A, sin A)``
    and its mirror image. Here each piece of the curve is put inside a triangle of the larger of
    its radii, and the width between two directions is bounded by that at them: the result lies at
    or above the supremum, by less than a thousandth for slopes that bend within a unit or more.
    """
    p = float(prediction_bound)
    top = float(slope(np.array([p]))[0])
    if not np.isfinite(top):
        return np.inf
    if not np.isfinite(p):
        return 2 * top
    bends = np.clip(np.linspace(-REACH, REACH, NUM_ANGLES) / max(p, 1e-300), -1.0, 1.0)
    angles = np.union1d(np.linspace(0.0, np.pi, NUM_ANGLES), np.arccos(bends))
    # The slope falls along the curve: a piece lies within the radius at which it begins.
    radius = np.maximum(slope(p * np.cos(angles[:-1])), 0.0)
    ends = radius * np.stack([np.cos(angles[:-1]), np.sin(angles[:-1])])
    others = radius * np.stack([np.cos(angles[1:]), np.sin(angles[1:])])
    half, middle = 0.5 * np.diff(angles), 0.5 * (angles[1:] + angles[:-1])
    tips = radius / np.cos(half) * np.stack([np.cos(middle), np.sin(middle)])
    corners = np.concatenate([ends, others, tips], axis=1)
    directions = np.linspace(0.0, 0.5 * np.pi, NUM_DIRECTIONS)
    cosines, sines = np.cos(directions), np.sin(directions)
    width = np.array(
        [
            np.max(c * corners[0] + s * corners[1]) + np.max(-c * corners[0] + s * corners[1])
            for c, s in zip(cosines, sines, strict=True)
        ]
    )
    between = np.cos(0.5 * (directions[1] - directions[0]))
    return min(2 * top, float(width.max() / between) * (1 + 1e-9))


def largest_gap_of_squares(prediction_bound: float, y_bound: float) -> float:
    """Give the same for ``phi = (y - p)^2 / 2``, exactly: ``2 max_h sin h (Y + P cos h)``.

    With ``M = (A + B) / 2`` and ``D = (A - B) / 2`` the sum above is ``2 Y sin M (-sin D, cos D) +
    P sin 2M (-sin 2D, cos 2D)``, longest at ``D = 0``.

    >>> round(2 * largest_gap_of_squares(2.0, 1.0), 4)                # squared loss, without 1/2
    7.0407
    """
    p, y = float(prediction_bound), float(y_bound)
    if not np.isfinite(p + y):
        return np.inf
    if p + y == 0:
        return 0.0
    # cos h, at which the derivative 2 P cos^2 h + Y cos h - P vanishes, without a difference.
    cosine = 2 * p / (np.hypot(y, np.sqrt(8.0) * p) + y)
    return float(2 * np.sqrt(1 - cosine**2) * (y + p * cosine))


def range_of_squares_on_a_line(prediction_bound: float, y_bound: float) -> float:
    """Exchange range of ``(y - x theta)^2`` for one parameter, exactly.

    ``8 Y P``, or ``P^2 r (2 - r)^3`` with ``r = (1 + sqrt(1 - 4 Y / P)) / 2`` where that is more:
    two examples differ by ``a theta^2 - 2 b theta``, ``a = x^2 - x'^2``, ``|b| <= Y (|x| + |x'|)``.

    >>> round(range_of_squares_on_a_line(2.0, 0.2), 4), range_of_squares_on_a_line(2.0, 1.0)
    (4.8895, 16.0)
    """
    p, y = float(prediction_bound), float(y_bound)
    if not np.isfinite(p + y):
        return 0.0 if 0.0 in (p, y) and np.isinf(y) else np.inf
    linear = 8 * y * p
    if 4 * y > p:
        return linear
    r = 0.5 * (1 + np.sqrt(1 - 4 * y / p)) if p > 0 else 1.0
    return float(max(linear, p**2 * r * (2 - r) ** 3))
