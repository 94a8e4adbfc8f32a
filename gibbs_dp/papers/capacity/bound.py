"""What a class of adversaries learns at most, and what follows from it.

Chaudhuri, Imola & Machanavajjhala (2019): post-processing, mixtures and composition (Section 4),
and from restricted KL to integral probability metrics and overfitting (Theorems 6 and 7; these need
a class that is convex, translation invariant, closed under negation and of range ``[-1, 1]`` up to
constants, and are false otherwise). Every function checks that its theorem applies to the given
classes, and otherwise refuses with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import LinearConstraint, minimize
from scipy.special import logsumexp

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.adversaries import Adversary, Map, QueryHull, SumClass, Unrestricted
from gibbs_dp.papers.capacity.closed_forms import above_one
from gibbs_dp.papers.capacity.polynomial import alpha_from_renyi, renyi_from_alpha

Divergence = Literal["kl", "renyi", "alpha", "ipm"]
Status = Literal["exact", "bound", "estimate", "printed"]
# From certain to uncertain.
STATUSES: tuple[Status, ...] = ("exact", "bound", "estimate", "printed")


@dataclass(frozen=True)
class CapacityBound:
    """``(H, Gamma)``-capacity-bounded privacy: ``Gamma^H(A(Z), A(Z')) <= value``, Z, Z' adjacent.

    Parameters
    ----------
    value
        The bound, in nats (of the metric for "ipm"); possibly infinite.
    divergence
        "kl", "renyi", "alpha" (divergences of order ``alpha``) or "ipm".
    adversary
        The class ``H``.
    alpha
        Order, for "renyi" and "alpha" alone.
    adjacency
        "replace-one" or "add-remove", as the sensitivity was computed for.
    status
        "exact" and "bound" hold; an "estimate" comes from draws, and "printed" is a published
        bound that fails somewhere. Neither of these is a guarantee.
    source
        Where the number comes from.

    Raises
    ------
    ValueError
        If a number is out of range or a name unknown.

    References
    ----------
    Chaudhuri, Imola & Machanavajjhala (2019), Definition 3.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity import Polynomial, laplace_linear_kl
    >>> bound = CapacityBound(laplace_linear_kl(1.0), "kl", Polynomial(1))
    >>> bound.is_guarantee
    True
    """

    value: float
    divergence: Divergence
    adversary: Adversary
    alpha: float | None = None
    adjacency: checks.Adjacency = "replace-one"
    status: Status = "exact"
    source: str = ""

    def __post_init__(self) -> None:
        if self.divergence not in ("kl", "renyi", "alpha", "ipm"):
            raise ValueError(
                f"divergence must be 'kl', 'renyi', 'alpha' or 'ipm', got {self.divergence!r}."
            )
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {STATUSES}, got {self.status!r}.")
        if math.isnan(self.value):
            raise ValueError("value must be a number, got nan; check where it comes from.")
        if self.divergence in ("renyi", "alpha"):
            if self.alpha is None:
                raise ValueError(f"alpha must be given for {self.divergence!r}; pass the order.")
            above_one(self.alpha)
        elif self.alpha is not None:
            raise ValueError(f"alpha has no meaning for {self.divergence!r}; leave it out.")
        checks.adjacency(self.adjacency)

    @property
    def is_guarantee(self) -> bool:
        """Whether the number holds: not an estimate, and not a bound that fails somewhere."""
        return self.status in ("exact", "bound")


def post_process(bound: CapacityBound, mapping: Map) -> CapacityBound:
    """Bound a mapped output, for adversaries that belong to the class when applied after the map.

    Parameters
    ----------
    bound
        Bound for the output.
    mapping
        `PolynomialMap` or `AnyMap`; it must not look at the data again.

    Returns
    -------
    CapacityBound
        The same value for the remaining class.

    Raises
    ------
    ValueError
        If no class remains, with the reason.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity import Polynomial, PolynomialMap
    >>> post_process(CapacityBound(0.3, "kl", Polynomial(3)), PolynomialMap(1)).adversary
    Polynomial(degree=3)
    """
    return replace(bound, adversary=bound.adversary.before(mapping), status=_at_least(bound.status))


def mixture(bounds: Sequence[CapacityBound], weights: Sequence[float]) -> CapacityBound:
    """Run one mechanism at random: f-divergences are jointly convex, so their bounds average."""
    first = _same_kind(bounds)
    law = checks.law("weights", np.asarray(weights, dtype=np.float64))
    if law.size != len(bounds):
        raise ValueError(f"weights must be one per bound, got {law.size} for {len(bounds)}.")
    if any(bound.adversary != first.adversary for bound in bounds):
        raise ValueError(
            "bounds must be of one class: the mixture's critic does not know which mechanism ran; "
            "bound all of them for the same adversary."
        )
    alpha = first.alpha
    values = [bound.value for bound in bounds]
    if first.divergence == "renyi" and alpha is not None:
        values = [alpha_from_renyi(value, alpha) for value in values]
    mean = float(sum(w * v for w, v in zip(law, values, strict=True) if w > 0))
    if first.divergence == "renyi" and alpha is not None:
        mean = renyi_from_alpha(mean, alpha)
    return replace(first, value=mean, status=_worst(bounds))


def parallel(bounds: Sequence[CapacityBound]) -> CapacityBound:
    """Run mechanisms on disjoint parts of the data: the largest bound, for sums of critics.

    Which part an example is in must not depend on its value, so that a change stays in its part.
    """
    first = _same_kind(bounds)
    adversary = _sum_class(bounds, "parallel")
    value = max(bound.value for bound in bounds)
    return replace(first, value=value, adversary=adversary, status=_worst(bounds))


def sequential(bounds: Sequence[CapacityBound]) -> CapacityBound:
    """Run mechanisms on the same data, chosen beforehand, with independent noise: bounds add.

    KL, Rényi and integral probability metrics add; alpha-divergences through their Rényi
    divergences. The critics are sums of critics of each output: those that look at both outputs
    jointly are not bounded, and neither is a mechanism chosen after seeing an earlier output.
    """
    first = _same_kind(bounds)
    adversary = _sum_class(bounds, "sequential")
    values = [bound.value for bound in bounds]
    if first.divergence == "alpha" and first.alpha is not None:
        total = sum(renyi_from_alpha(value, first.alpha) for value in values)
        value = alpha_from_renyi(total, first.alpha)
    else:
        value = sum(values)
    return replace(first, value=float(value), adversary=adversary, status=_worst(bounds))


def _same_kind(bounds: Sequence[CapacityBound]) -> CapacityBound:
    if not bounds:
        raise ValueError("bounds must hold at least one bound; got none.")
    first = bounds[0]
    for bound in bounds[1:]:
        for name in ("divergence", "alpha", "adjacency"):
            if getattr(bound, name) != getattr(first, name):
                raise ValueError(
                    f"bounds must agree in {name}, got {getattr(first, name)!r} and "
                    f"{getattr(bound, name)!r}; compute all of them for one."
                )
    return first


def _sum_class(bounds: Sequence[CapacityBound], name: str) -> Adversary:
    classes = [bound.adversary for bound in bounds]
    for adversary in classes:
        missing = [
            text
            for text, holds in (
                ("convex", adversary.is_convex),
                ("translation invariant", adversary.is_translation_invariant),
            )
            if not holds
        ]
        if missing:
            raise ValueError(
                f"bounds: {name} composition is proved for convex, translation invariant classes, "
                f"and {adversary!r} is not {' nor '.join(missing)}; bound a larger class that is."
            )
    # Divergences of independent outputs add for all functions of both.
    if all(isinstance(adversary, Unrestricted) for adversary in classes):
        return classes[0]
    return reduce(SumClass, classes)


def _at_least(status: Status) -> Status:
    """Downgrade an exact value to a bound, as a theorem does."""
    return "bound" if status == "exact" else status


def _worst(bounds: Sequence[CapacityBound]) -> Status:
    return _at_least(max((bound.status for bound in bounds), key=STATUSES.index))


_CONDITIONS = {
    "is_convex": "convex",
    "is_translation_invariant": "translation invariant",
    "is_negation_closed": "closed under negation",
    "is_unit_range": "of range [-1, 1] up to constants",
}


def _check(bound: CapacityBound, theorem: str) -> float:
    if bound.divergence != "kl":
        raise ValueError(
            f"bound: {theorem} starts from a restricted KL divergence, got {bound.divergence!r}."
        )
    adversary: Adversary = bound.adversary
    missing = [text for name, text in _CONDITIONS.items() if not getattr(adversary, name)]
    if missing:
        raise ValueError(
            f"bound: {theorem} needs a class that is {', '.join(missing)}, and {adversary!r} is "
            "not; without it the statement is false."
        )
    return checks.nonnegative("bound", bound.value, allow_infinite=True)


def ipm_from_kl(bound: CapacityBound) -> CapacityBound:
    """Theorem 7: the integral probability metric of the class is at most ``8 sqrt(KL^H)``.

    Raises
    ------
    ValueError
        If the class does not meet the theorem's conditions.

    Examples
    --------
    >>> ipm_from_kl(CapacityBound(0.01, "kl", QueryHull())).value
    0.8
    """
    value = 8 * math.sqrt(_check(bound, "Theorem 7"))
    status = "bound" if bound.status == "exact" else bound.status
    return replace(bound, value=value, divergence="ipm", status=status, source="Theorem 7")


def ipm_from_kl_by_hoeffding(bound: CapacityBound) -> CapacityBound:
    """Improve Theorem 7 under its own conditions: ``sqrt(2 KL^H)`` for ``KL^H <= 1/2``.

    ``t h`` is in the class for ``0 <= t <= 1``, and by Hoeffding's lemma
    ``KL^H >= t (E_P h - E_Q h) - t^2 / 2``. Beyond 1/2 the same gives ``KL^H + 1/2``; metrics of
    this class never exceed 2.
    """
    eps = _check(bound, "Theorem 7")
    value = math.sqrt(2 * eps) if eps <= 0.5 else min(2.0, eps + 0.5)
    status = "bound" if bound.status == "exact" else bound.status
    return replace(bound, value=value, divergence="ipm", status=status, source="Hoeffding's lemma")


def generalization_from_kl(bound: CapacityBound) -> float:
    """Theorem 6: a mechanism that selects a query has ``|E gen| <= 8 sqrt(eps)``.

    ``gen`` is the selected query's mean on the data minus its mean over the population, queries
    take values in ``[-1, 1]``, and the class contains every ``q -> q(x)``: `QueryHull`.

    Raises
    ------
    ValueError
        If the class lacks the queries' evaluations or does not meet the conditions.

    Examples
    --------
    >>> generalization_from_kl(CapacityBound(0.0001, "kl", QueryHull()))
    0.08
    """
    eps = _check(bound, "Theorem 6")
    if not isinstance(bound.adversary, QueryHull):
        raise ValueError(
            f"bound: Theorem 6 needs every q -> q(x) in the class, and {bound.adversary!r} is not "
            "known to hold them; bound QueryHull."
        )
    return 8 * math.sqrt(eps)


def query_hull_kl(
    queries: Float[np.ndarray, "queries points"],
    p: Float[np.ndarray, " queries"],
    q: Float[np.ndarray, " queries"],
) -> float:
    """Restricted KL of two laws of a selected query, for `QueryHull`, in nats.

    ``sup_h E_P h - log E_Q e^h`` over ``h(q) = sum_x l_x q(x)`` with ``sum |l_x| <= 1``.
    """
    if np.abs(queries).max() > 1 or not np.isfinite(queries).all():
        raise ValueError("queries must take values in [-1, 1]; rescale them.")
    p, q = checks.law("p", p), checks.law("q", q)
    with np.errstate(divide="ignore"):
        log_q = np.log(q)
    gap = queries.T @ (p - q)
    # Positive and negative parts, so that the L1 ball is a simplex.
    both = np.hstack([queries, -queries])
    mean = p @ both

    def loss(parts: Float[np.ndarray, " parts"]) -> tuple[float, Float[np.ndarray, " parts"]]:
        exponent = log_q + both @ parts
        total = float(logsumexp(exponent))
        return total - float(parts @ mean), both.T @ np.exp(exponent - total) - mean

    size = both.shape[1]
    best = int(np.argmax(np.append(gap, -gap)))
    start = np.zeros(size)
    start[best] = min(1.0, abs(float(np.append(gap, -gap)[best])))
    found = minimize(
        loss,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * size,
        constraints=LinearConstraint(np.ones((1, size)), -np.inf, 1.0),
        options={"ftol": 1e-14, "maxiter": 300},
    )
    return max(0.0, -float(found.fun), -loss(start)[0])
