"""Cases of `bounds.relations` and `bounds.bounded_range`."""

from __future__ import annotations

import math

import numpy as np

from gibbs_dp.exact.finite_problem import FiniteProblem
from gibbs_dp.information import bounds
from gibbs_dp.information import dependence as dep
from gibbs_dp.information import divergences as dv
from gibbs_dp.information.divergences import batched
from gibbs_dp.information.divergences.finite import approximate_max_divergence
from gibbs_dp.information.divergences.laplace import laplace_max_divergence
from gibbs_dp.papers.on_average_kl.identities import loss_range
from gibbs_dp.papers.verify.attained.cases import (
    COIN,
    EXTREME,
    REPLACE,
    Case,
    Sides,
    single,
    subset_mechanism,
    worst_two_point,
)

RANGES = (0.1, 1.0, 4.0)


def max_divergence_pair() -> tuple[float, float]:
    """Take a pair whose backward direction is the larger one."""
    p, q, delta = [0.2, 0.3, 0.5], [0.35, 0.35, 0.3], 0.07
    eps = bounds.epsilon_from_approximate_max_divergence(
        approximate_max_divergence(q, p, delta), approximate_max_divergence(p, q, delta)
    )
    g = math.exp(eps)
    return max(dv.hockey_stick(p, q, g), dv.hockey_stick(q, p, g)), delta


def renyi(eta: float, alpha: float) -> Sides:
    """Two-point laws with the largest divergence of an order."""
    return lambda: (
        worst_two_point(lambda p, q: batched.renyi(p, q, alpha), eta),
        bounds.renyi_from_range(eta, alpha),
    )


def kl(eta: float) -> Sides:
    """Two-point laws with the largest KL."""
    return lambda: (worst_two_point(batched.kl, eta), bounds.kl_from_range(eta))


QUARTER = (
    "to second order I^- is half the variance of gamma loss over one example, at most "
    "gamma^2 Delta^2 / 8; the printed constant bounds KL to neighbours instead"
)
HALF = (
    "Theorem 4 takes the mean KL over neighbours, equal values included, the bound its supremum: "
    "to second order at most half of it"
)

CASES: dict[str, list[Case]] = {
    "total_variation_from_kl": single(
        lambda: (
            dv.total_variation([0.5005, 0.4995], [0.5, 0.5]),
            bounds.total_variation_from_kl(dv.kl_divergence([0.5005, 0.4995], [0.5, 0.5])),
        )
    ),
    "kl_from_max_divergence": single(
        lambda: (
            dv.kl_divergence([1.0, 0.0], [0.3, 0.7]),
            bounds.kl_from_max_divergence(dv.max_divergence([1.0, 0.0], [0.3, 0.7])),
        )
    ),
    "hockey_stick_lower_from_total_variation": single(
        lambda: (
            bounds.hockey_stick_lower_from_total_variation(
                dv.total_variation([1.0, 0.0], [0.2, 0.8]), 2.0
            ),
            dv.hockey_stick([1.0, 0.0], [0.2, 0.8], 2.0),
        ),
        1.001,
    ),
    "epsilon_from_approximate_max_divergence": single(max_divergence_pair),
    "loss_difference_range": [
        Case(
            lambda: (loss_range(COIN), bounds.loss_difference_range(1.0, adjacency="replace-one")),
            0.999,
        ),
        Case(
            lambda: (
                float(np.ptp(COIN.loss_matrix, axis=0).max()),
                bounds.loss_difference_range(1.0, adjacency="add-remove"),
            ),
            0.999,
        ),
    ],
    "pure_dp_from_range": single(
        lambda: (EXTREME.dp_epsilon(1.0, 1, **REPLACE), bounds.pure_dp_from_range(2.0))
    ),
    "pure_dp_from_log_density": single(
        lambda: (
            FiniteProblem([[-0.5, 0.5], [0.5, -0.5]], [0.5, 0.5], [1 - 1e-6, 1e-6]).dp_epsilon(
                1.0, 1, **REPLACE
            ),
            bounds.pure_dp_from_log_density(1.0, log_density_bound=0.5),
        )
    ),
    "pure_dp_fixed_normalizer": single(
        lambda: (
            laplace_max_divergence(0.0, 0.04, scale=0.1),
            bounds.pure_dp_fixed_normalizer(10.0, sensitivity=0.04),
        )
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
    "gibbs_kl_stability": single(
        lambda: (
            COIN.kl_privacy(1e-3, 1, **REPLACE),
            bounds.gibbs_kl_stability(1e-3, loss_range=1.0),
        )
    ),
    "gibbs_erasure_information": single(
        lambda: (
            COIN.table(1e-3, 1).erasure_mutual_information(),
            bounds.gibbs_erasure_information(1, 1e-3, loss_range=1.0),
        ),
        0.249,
        loose=QUARTER,
    ),
    "gibbs_generalization": single(
        lambda: (
            COIN.generalization_error(1e-3, 1),
            bounds.gibbs_generalization(1e-3, loss_range=1.0),
        ),
        0.499,
        loose=HALF,
    ),
    "dp_erasure_information": single(
        lambda: (
            dep.mutual_information(subset_mechanism(11, 4, 1.0)),
            bounds.dp_erasure_information(1, 1.0),
        ),
        0.99,
    ),
}
