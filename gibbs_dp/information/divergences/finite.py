"""Divergences of two finite laws, given as probability vectors over the same outcomes.

Infinite values are returned as ``inf`` and never hidden: where ``Q`` gives no mass to an outcome
of ``P``, KL and the max divergence are infinite. All logarithms are natural.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched

Pair = tuple[Float[np.ndarray, " outcomes"], Float[np.ndarray, " outcomes"]]

# Masses within this many roundings of delta, relatively, count as delta: 0.1 + 0.2 is 0.3.
_ROUNDINGS = 16 * float(np.finfo(np.float64).eps)


def _laws(p: ArrayLike, q: ArrayLike) -> Pair:
    p_law, q_law = checks.law("p", p), checks.law("q", q)
    checks.same_length("p", p_law, "q", q_law)
    return p_law, q_law


def _log_laws(p: ArrayLike, q: ArrayLike) -> Pair:
    p_law, q_law = _laws(p, q)
    with np.errstate(divide="ignore"):
        return np.log(p_law), np.log(q_law)


def kl_divergence(p: ArrayLike, q: ArrayLike) -> float:
    """Kullback-Leibler divergence ``E_P log dP/dQ``.

    Parameters
    ----------
    p, q
        Probability vectors ``[outcomes]``.

    Returns
    -------
    float
        Nats, at least 0; ``inf`` when ``q`` vanishes where ``p`` does not.

    Raises
    ------
    ValueError
        If either is not a law, or they differ in length.

    Examples
    --------
    >>> round(kl_divergence([0.5, 0.5], [0.25, 0.75]), 6)
    0.143841
    >>> kl_divergence([0.5, 0.5], [0.0, 1.0])
    inf
    """
    return float(batched.kl(*_log_laws(p, q)))


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Total variation ``sup_A |P(A) - Q(A)|``, in ``[0, 1]``.

    Parameters are those of `kl_divergence`.

    Examples
    --------
    >>> total_variation([0.5, 0.5], [0.25, 0.75])
    0.25
    """
    return float(batched.total_variation(*_log_laws(p, q)))


def renyi_divergence(p: ArrayLike, q: ArrayLike, alpha: float) -> float:
    """Rényi divergence of order ``alpha``, ``log E_Q[(dP/dQ)^alpha] / (alpha - 1)``, in nats.

    Parameters
    ----------
    p, q
        Probability vectors ``[outcomes]``.
    alpha
        Order, ``0 <= alpha <= inf``; 1 is KL and ``inf`` the max divergence.

    Returns
    -------
    float
        Nats; ``inf`` where it diverges.

    Examples
    --------
    >>> round(renyi_divergence([0.5, 0.5], [0.25, 0.75], alpha=2.0), 6)
    0.287682
    """
    checks.nonnegative("alpha", alpha, allow_infinite=True)
    return float(batched.renyi(*_log_laws(p, q), alpha))


def max_divergence(p: ArrayLike, q: ArrayLike) -> float:
    """Max divergence ``D_inf = sup log dP/dQ``, in nats.

    Parameters are those of `kl_divergence`.

    Examples
    --------
    >>> round(max_divergence([0.5, 0.5], [0.25, 0.75]), 6)
    0.693147
    """
    return float(batched.max_divergence(*_log_laws(p, q)))


def hockey_stick(p: ArrayLike, q: ArrayLike, g: float) -> float:
    """Hockey-stick divergence ``E_g = sup_A P(A) - g Q(A)``.

    ``(epsilon, delta)``-DP is ``hockey_stick(p, q, exp(epsilon)) <= delta`` over adjacent datasets,
    in both directions.

    Parameters
    ----------
    p, q
        Probability vectors ``[outcomes]``.
    g
        Factor, positive; total variation is ``g = 1``.

    Returns
    -------
    float
        The divergence, at least 0.

    Examples
    --------
    >>> hockey_stick([0.5, 0.5], [0.25, 0.75], g=1.0)
    0.25
    """
    checks.positive("g", g)
    return float(batched.hockey_stick(*_log_laws(p, q), g))


def approximate_max_divergence(p: ArrayLike, q: ArrayLike, delta: float) -> float:
    """Approximate max divergence ``sup_{A: P(A) > delta} log (P(A) - delta) / Q(A)``, in nats."""
    checks.unit_interval("delta", delta)
    return approximate_max_divergence_of_logs(*_log_laws(p, q), delta)


def approximate_max_divergence_of_logs(
    log_p: Float[np.ndarray, " outcomes"], log_q: Float[np.ndarray, " outcomes"], delta: float
) -> float:
    """`approximate_max_divergence` of two laws given by their log-probabilities.

    The supremum over all events is attained on a set ``{dP/dQ >= c}`` (Neyman-Pearson), so
    sorting by the ratio and accumulating is a search over every event.

    >>> law = np.log([0.5, 0.5])
    >>> round(approximate_max_divergence_of_logs(law, law, 0.1), 6)
    -0.105361
    """
    if delta == 0:
        return float(batched.max_divergence(log_p, log_q))
    inside = ~np.isneginf(log_p)
    log_p, log_q = log_p[inside], log_q[inside]
    order = np.argsort(log_q - log_p, kind="stable")
    mass = np.cumsum(np.exp(log_p[order]))
    # Q may be far below the smallest double where the ratio is large: keep its logarithm.
    log_q_mass = np.logaddexp.accumulate(log_q[order])
    excess = mass - delta
    keep = excess > _ROUNDINGS * mass
    return float(np.max(np.log(excess[keep]) - log_q_mass[keep]))
