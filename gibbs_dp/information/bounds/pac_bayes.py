"""PAC-Bayes bounds on the risk of one Gibbs posterior, from its normalizer or its KL to the prior.

Catoni 2007; Maurer 2004. Examples are independent draws of one law, losses lie in a declared
range, and the prior, gamma and the range do not depend on the data. Each bound holds with
probability ``1 - delta`` over the data; nats. The linear form of the first (Alquier 2024) and the
square root of the second (McAllester 2003) are never below them.
"""

from __future__ import annotations

import math

from gibbs_dp.information import checks

UNIT = (0.0, 1.0)
# Halvings of an interval of length one: its ends are then neighbouring doubles.
HALVINGS = 60


def catoni_bound(
    log_normalizer: float,
    n: int,
    *,
    gamma: float,
    delta: float,
    loss_range: tuple[float, float] = UNIT,
) -> float:
    """``E R <= (1 - (C delta)^(1/n)) / (1 - e^-gamma)`` (Catoni 2007, Thm 1.2.6).

    ``log_normalizer`` is ``log C`` in nats, ``C`` the prior mean of ``exp(-gamma L)`` with ``L``
    the total loss. For an estimate of ``C`` that is nonnegative and unbiased given the data the
    bound holds as it stands, with probability ``1 - delta`` over data and estimate: its proof takes
    the mean of ``C`` times a function of the data, and then Markov's inequality. The parameter of
    the theorem is ``lambda = n gamma``; losses of another range are mapped to ``[0, 1]`` first.
    """
    a, width = _range(loss_range)
    gamma, n = checks.positive("gamma", gamma), checks.count("n", n)
    confidence = _confidence(delta)
    unit = gamma * width
    exponent = _unit_log_normalizer(log_normalizer, n, gamma, a) - confidence
    return a + width * min(1.0, max(0.0, math.expm1(exponent / n) / math.expm1(-unit)))


def maurer_bound(
    empirical_risk: float,
    kl: float,
    n: int,
    *,
    delta: float,
    loss_range: tuple[float, float] = UNIT,
) -> float:
    """``kl(E Rhat || E R) <= (KL + log(2 sqrt n) + log(1/delta)) / n`` (Maurer 2004, Thm 5).

    Holds for all posteriors at once, so gamma may be chosen after the data. The theorem is for
    ``n >= 8``; below, the moment that it bounds is at most ``2 sqrt n`` as well, by enumeration.
    """
    a, width, unit_risk = _unit_risk(empirical_risk, loss_range)
    return a + width * largest_with_binary_kl(unit_risk, _budget(kl, n, delta))


def largest_with_binary_kl(q: float, budget: float) -> float:
    """Largest ``p >= q`` with ``kl(q || p) <= budget`` nats, of Bernoulli laws; rounded upwards."""
    checks.nonnegative("budget", budget, allow_infinite=True)
    if not 0 <= checks.real("q", q) <= 1:
        raise ValueError(f"q must lie in [0, 1], got {q}; pass a probability.")
    low, high = q, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if _binary_kl(q, middle) <= budget else (low, middle)
    return high


def _binary_kl(q: float, p: float) -> float:
    """KL of Bernoulli laws, ``0 < p < 1``."""
    first = q * math.log(q / p) if q > 0 else 0.0
    return first + ((1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0)


def _budget(kl: float, n: int, delta: float) -> float:
    """``(KL + log(2 sqrt n) + log(1/delta)) / n``."""
    checks.nonnegative("kl", kl, allow_infinite=True)
    size = checks.count("n", n)
    return (kl + math.log(2 * math.sqrt(size)) + _confidence(delta)) / size


def _unit_log_normalizer(log_normalizer: float, n: int, gamma: float, a: float) -> float:
    """Log normalizer for losses less ``a``."""
    found = checks.real("log_normalizer", log_normalizer)
    if math.isnan(found) or found == math.inf:
        raise ValueError(f"log_normalizer must be a number below infinity, got {found}; pass nats.")
    return found + gamma * n * a


def _unit_risk(
    empirical_risk: float, loss_range: tuple[float, float]
) -> tuple[float, float, float]:
    a, width = _range(loss_range)
    risk = checks.real("empirical_risk", empirical_risk)
    if not a <= risk <= a + width:
        raise ValueError(
            f"empirical_risk must lie in the loss range [{a:g}, {a + width:g}], got {risk:g}; "
            "declare a range that holds every loss."
        )
    return a, width, min(1.0, (risk - a) / width)


def _range(loss_range: tuple[float, float]) -> tuple[float, float]:
    """Smallest loss, and the range's length."""
    a, b = (checks.real("loss_range", end) for end in loss_range)
    if not (math.isfinite(a) and math.isfinite(b) and a < b):
        raise ValueError(
            f"loss_range must be finite (low, high), got {loss_range}; bound the loss."
        )
    return a, b - a


def _confidence(delta: float) -> float:
    """``log(1/delta)``."""
    return -math.log(checks.unit_interval("delta", delta, open_left=True))
