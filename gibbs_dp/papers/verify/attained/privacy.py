"""Cases of pure DP from the range of the loss, and of divergences of bounded range."""

from __future__ import annotations

import math

from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.information import divergences as dv
from gibbs_dp.information.divergences import batched
from gibbs_dp.information.divergences.finite import approximate_max_divergence
from gibbs_dp.papers.verify.attained.cases import (
    EXTREME,
    REPLACE,
    Case,
    Sides,
    single,
    subset_mechanism,
    worst_two_point,
)

RANGES = (0.1, 1.0, 4.0)


def given_away() -> tuple[float, float]:
    """Give away the mass of an approximate max divergence."""
    p, q, delta = [0.2, 0.3, 0.5], [0.35, 0.35, 0.3], 0.07
    return dv.hockey_stick(p, q, math.exp(approximate_max_divergence(p, q, delta))), delta


def renyi(eta: float, alpha: float) -> Sides:
    """Two-point laws with the largest divergence of an order."""
    return lambda: (
        worst_two_point(lambda p, q: batched.renyi(p, q, alpha), eta),
        bounds.renyi_from_range(eta, alpha),
    )


def kl(eta: float) -> Sides:
    """Two-point laws with the largest KL."""
    return lambda: (worst_two_point(batched.kl, eta), bounds.kl_from_range(eta))


CASES: dict[str, list[Case]] = {
    "total_variation_from_kl": single(
        lambda: (
            dv.total_variation([0.5005, 0.4995], [0.5, 0.5]),
            bounds.total_variation_from_kl(dv.kl_divergence([0.5005, 0.4995], [0.5, 0.5])),
        )
    ),
    "1 - g (1 - TV) <= E_g": single(
        lambda: (
            1 - 2.0 * (1 - dv.total_variation([1.0, 0.0], [0.2, 0.8])),
            dv.hockey_stick([1.0, 0.0], [0.2, 0.8], 2.0),
        ),
        1.001,
    ),
    "E_{e^eps} <= delta at eps = D_inf^delta": single(given_away),
    "eps <= gamma R": single(lambda: (EXTREME.dp_epsilon(1.0, 1, **REPLACE), 2.0)),
    "eps <= gamma sensitivity, normalizer free of data": single(
        lambda: (dv.laplace_renyi(0.0, 0.04, 0.1, math.inf), 10.0 * 0.04)
    ),
    "kl_from_range": [Case(kl(eta), 0.9999) for eta in RANGES],
    "total_variation_from_range": single(
        lambda: (
            worst_two_point(batched.total_variation, 2.0),
            bounds.total_variation_from_range(2.0),
        ),
        0.9999,
    ),
    "renyi_from_range": [
        Case(renyi(eta, alpha), 0.999) for eta in RANGES for alpha in (1.5, 2.0, 8.0, 64.0)
    ],
    "zcdp_from_range": single(
        lambda: (worst_two_point(batched.kl, 0.01), bounds.zcdp_from_range(0.01))
    ),
    "I^- <= n kappa(eps)": single(
        lambda: (dep.mutual_information(subset_mechanism(11, 4, 1.0)), bounds.kl_from_range(1.0)),
        0.99,
    ),
}
