"""References for Figure 2, by quadrature: nothing here is sampled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from gibbs_dp.papers.on_average_kl import linear_regression_figure2b_exact

NUM_NODES = 96


class Reference(NamedTuple):
    """Reference values at one gamma, with numerical errors; risks may be absent."""

    value: float
    se: float
    excess_risk: float | None = None
    excess_risk_se: float | None = None


def private_mean_kl(gamma: float, n: int, example_bound: float = 2.0) -> Reference:
    """On-average KL of the Laplace mechanism on the mean of truncated normals, exactly.

    ``E[D + e^-D - 1]`` over two independent examples, ``D = gamma |z - z'| / n``, by Gauss
    quadrature.

    >>> round(private_mean_kl(100.0, 100).value, 6)
    0.461411
    """
    # Of two nodes x < y of [-b, b]: an integral over z, and one over the gap that starts at z.
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    law = stats.truncnorm(-example_bound, example_bound)
    z = example_bound * nodes
    half = 0.5 * (example_bound - z)
    gap = half[:, None] * (nodes + 1.0)
    density = law.pdf(z)[:, None] * law.pdf(np.minimum(z[:, None] + gap, example_bound))
    scaled = gamma * gap / n
    kl = scaled + np.expm1(-scaled)
    inner = (density * kl) @ weights * half
    return Reference(float(2.0 * example_bound * weights @ inner), 0.0)


def linear_regression_reference(gamma: float, n: int, theta_bound: float) -> Reference:
    """On-average KL and excess risk of 1-D regression, prior flat on ``[-bound, bound]``.

    >>> round(linear_regression_reference(10.0, 100, 2.0).value, 7)
    0.0669791
    """
    support = (-theta_bound, theta_bound)
    return Reference(*linear_regression_figure2b_exact(gamma, n, support=support))
