"""Restricted divergences of finite laws, for the span of given functions: convex problems.

Draws are finite laws too; then these are plug-in values, largest where the critic fits noise.
Trained critics, evaluated on other draws, give lower bounds instead (``sampled``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp

from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.closed_forms import above_one

# Shares of the critic's size at which absolute values are smoothed, in steps.
_ROUNDING = (1e-2, 1e-4, 1e-6, 1e-8)


def _checked(
    functions: Float[np.ndarray, "k outcomes"],
    p: Float[np.ndarray, " outcomes"],
    q: Float[np.ndarray, " outcomes"],
) -> tuple[Float[np.ndarray, "k outcomes"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    laws = checks.law("p", p), checks.law("q", q)
    checks.same_length("p", laws[0], "q", laws[1])
    if functions.shape[1] != laws[0].size or not np.isfinite(functions).all():
        raise ValueError(
            f"functions must be finite with one column per outcome ({laws[0].size}), got shape "
            f"{functions.shape}; give every critic's value at every outcome."
        )
    return functions, *laws


def finite_class_kl(
    functions: Float[np.ndarray, "k outcomes"],
    p: Float[np.ndarray, " outcomes"],
    q: Float[np.ndarray, " outcomes"],
) -> float:
    """Restricted KL of finitely many critics, ``max_h E_P[h] - E_Q[e^{h-1}]``, in nats.

    A class without constants may give a negative number; see `theorems`.

    >>> law = np.array([0.5, 0.5])
    >>> finite_class_kl(np.ones((1, 2)), law, law)  # the best constant is 1
    0.0
    """
    functions, p, q = _checked(functions, p, q)
    return float(np.max(functions @ p - np.exp(functions - 1) @ q))


def span_kl(
    functions: Float[np.ndarray, "k outcomes"],
    p: Float[np.ndarray, " outcomes"],
    q: Float[np.ndarray, " outcomes"],
    has_constants: bool = True,
) -> float:
    """Restricted KL for all combinations of some functions, in nats.

    >>> x = np.array([[0.0, 1.0]])
    >>> round(span_kl(x, np.array([0.25, 0.75]), np.array([0.5, 0.5])), 9)  # the whole KL
    0.130812036
    >>> span_kl(x, np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    inf
    """
    functions, p, q = _checked(functions, p, q)
    inside = q > 0
    target = functions @ p
    terms, log_q = functions[:, inside], np.log(q[inside])
    # A density w >= 0 with E_Q[w f] = E_P[f] must exist; E_Q[w] = 1 only with constants.
    rows, right = terms, target
    if has_constants:
        rows, right = np.vstack([terms, np.ones(terms.shape[1])]), np.append(target, 1.0)
    if linprog(np.zeros(rows.shape[1]), A_eq=rows, b_eq=right, method="highs").status == 2:
        return math.inf

    def loss(c: Float[np.ndarray, " k"]) -> tuple[float, Float[np.ndarray, " k"]]:
        exponent = log_q + c @ terms
        if has_constants:
            total = float(logsumexp(exponent))
            return total - float(c @ target), terms @ np.exp(exponent - total) - target
        density = np.exp(np.minimum(exponent - 1, 700))
        return float(density.sum() - c @ target), terms @ density - target

    def bend(c: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k k"]:
        exponent = log_q + c @ terms
        if has_constants:
            density = np.exp(exponent - logsumexp(exponent))
            mean = terms @ density
            return (terms * density) @ terms.T - np.outer(mean, mean)
        return (terms * np.exp(np.minimum(exponent - 1, 700))) @ terms.T

    start = np.zeros(len(functions))
    found = minimize(loss, start, jac=True, hess=bend, method="trust-exact", options={"gtol": 1e-9})
    return -float(found.fun)


def span_renyi(
    functions: Float[np.ndarray, "k outcomes"],
    p: Float[np.ndarray, " outcomes"],
    q: Float[np.ndarray, " outcomes"],
    alpha: float,
) -> float:
    """Restricted Rényi divergence for all combinations of some functions, in nats.

    ``(alpha/(alpha-1)) log sup E_P[g] / |g|_{L^q(Q)}``. On finitely many outcomes ``|g|^q`` is not
    smooth at 0 for large orders; it is smoothed, less and less, down to a share of 1e-8.

    >>> x = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> round(span_renyi(x, np.array([0.25, 0.75]), np.array([0.5, 0.5]), 2.0), 9)  # log 1.25
    0.223143551
    """
    conjugate = alpha / above_one(alpha)
    functions, p, q = _checked(functions, p, q)
    inside = q > 0
    weight = q[inside]
    # Orthonormal combinations under Q.
    left, sizes, _ = np.linalg.svd(functions[:, inside] * np.sqrt(weight), full_matrices=False)
    seen = sizes > 1e-12 * sizes.max(initial=1e-300)
    target = functions @ p
    mean = (left[:, seen].T @ target) / sizes[seen]
    lost = target - left[:, seen] @ (left[:, seen].T @ target)
    if np.abs(lost).max() > 1e-9 * np.abs(target).max(initial=1e-300):
        return math.inf
    if not mean.any():
        return -math.inf  # every critic has mean 0 under P
    terms = (left[:, seen].T @ functions[:, inside]) / sizes[seen, None]
    origin = mean / float(mean @ mean)
    free = np.linalg.svd(mean[None, :])[2][1:]

    def loss(
        y: Float[np.ndarray, " free"], rounding: float
    ) -> tuple[float, np.ndarray, np.ndarray]:
        g = (origin + y @ free) @ terms
        size = np.sqrt(g**2 + rounding**2)
        ways = free @ terms
        power = size ** (conjugate - 2)
        curve = weight * power * (1 + (conjugate - 2) * g**2 / size**2)
        slope = ways @ (weight * power * g)
        return float(weight @ size**conjugate) / conjugate, slope, (ways * curve) @ ways.T

    y = np.zeros(len(free))
    unit = float(np.sqrt(weight @ (origin @ terms) ** 2))
    for share in _ROUNDING if len(free) else ():
        y = _settle(partial(loss, rounding=share * unit), y)
    return -math.log(conjugate * loss(y, 0.0)[0])


def _settle(
    loss: Callable[[Float[np.ndarray, " free"]], tuple[float, np.ndarray, np.ndarray]],
    start: Float[np.ndarray, " free"],
) -> Float[np.ndarray, " free"]:
    """Minimize a smooth convex function, given with its gradient and Hessian."""

    def first(y: Float[np.ndarray, " free"]) -> tuple[float, Float[np.ndarray, " free"]]:
        value, gradient, _ = loss(y)
        return value, gradient

    def second(y: Float[np.ndarray, " free"]) -> Float[np.ndarray, "free free"]:
        return loss(y)[2]

    found = minimize(
        first, start, jac=True, hess=second, method="trust-exact", options={"gtol": 1e-10}
    )
    return found.x
