"""Theorems 6 and 7: from restricted KL divergences to integral probability metrics and overfitting.

Chaudhuri, Imola & Machanavajjhala (2019). Both need a class that is convex, translation invariant,
closed under negation and of range ``[-1, 1]`` (up to constants), and are false otherwise.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from scipy.optimize import LinearConstraint, minimize
from scipy.special import logsumexp

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.adversaries import Adversary, QueryHull
from gibbs_dp.papers.capacity.bound import CapacityBound

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

    Raises
    ------
    ValueError
        If the class does not meet the theorem's conditions.

    Examples
    --------
    >>> round(ipm_from_kl_by_hoeffding(CapacityBound(0.02, "kl", QueryHull())).value, 9)
    0.2
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

    Parameters
    ----------
    queries
        Value of every query at every point, in ``[-1, 1]``.
    p, q
        Probabilities of the queries on two datasets.

    Returns
    -------
    float
        In nats.

    Raises
    ------
    ValueError
        If a value leaves ``[-1, 1]`` or a law is not a distribution.

    Examples
    --------
    >>> values = np.array([[1.0], [-1.0]])
    >>> found = query_hull_kl(values, np.array([0.6, 0.4]), np.array([0.4, 0.6]))
    >>> round(found, 9)  # two queries, and the log-ratio is in the class: the whole KL
    0.081093022
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
