"""What rows that depend on each other add to a guarantee: Bayesian differential privacy.

Differential privacy compares datasets that differ in one row. Where rows depend on each other, an
adversary also learns about a row from what is released about the others; Bayesian DP (Yang, Sato &
Nakagawa 2015) bounds what is learnt about row ``i`` by one who knows any other rows ``K``:
``log P(Y | x_i, x_K) / P(Y | x_i', x_K)``, under a declared law of the rows.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency

PREFIX = "Bayesian DP: "
ASSUMPTION = (
    PREFIX + "the rows have the declared law, {}; it bounds what an adversary who knows any other "
    "rows learns about one row, from pure DP and the influence of rows on each other (Yang, Sato & "
    "Nakagawa 2015; Zhao 2019). Releases do not add up in it: add their pure epsilons, and ask the "
    "law for that of the sum"
)
ONLY_DP = (
    PREFIX + "no other figure has a Bayesian counterpart for dependent rows: (epsilon, delta), "
    "zCDP, Renyi, Gaussian DP, KL and total variation here compare datasets that differ in one "
    "row, and say less about a row that others tell on"
)
NO_PURE = (
    PREFIX + "none, since it follows from pure DP, which this release does not have; what holds "
    "for datasets that differ in one row bounds nothing that dependent rows tell on each other"
)


@runtime_checkable
class DependentRows(Protocol):
    """A law of rows, as far as a guarantee needs it.

    ``MarkovChain``, ``BayesianNetwork`` and ``MarkovNetwork`` of `gibbs_dp.papers.bayesian_dp` are,
    and what `gibbs_dp.holdout.thresholdout_promise` takes as rows.
    """

    def bdp_epsilon(self, n: int, dp_epsilon: float) -> float:
        """Bayesian DP, on ``n`` such rows, of a ``dp_epsilon``-DP (replace-one) mechanism."""
        ...


def check_rows(rows: Any, n: int, adjacency: Adjacency) -> None:
    """Raise a ValueError unless ``n`` rows have a Bayesian DP, and neighbours replace one.

    >>> check_rows(3.0, 10, "replace-one")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: rows: give a law of the rows, such as a gibbs_dp.papers...
    """
    if rows is None:
        return
    if isinstance(rows, type) or not isinstance(rows, DependentRows):
        raise ValueError(
            "rows: give a law of the rows, such as a gibbs_dp.papers.bayesian_dp.MarkovChain, got "
            f"{checks.shown(rows)}."
        )
    if adjacency != "replace-one":
        raise ValueError(
            "adjacency: Bayesian DP of dependent rows is for replace-one neighbours; use "
            "'replace-one', or leave rows out."
        )
    bayesian_epsilon(rows, n, 0.0)  # a law of other rows says so here


def bayesian_epsilon(rows: DependentRows, n: int, pure_epsilon: float) -> float:
    """Bayesian DP of a mechanism with this pure DP, nats; infinite without it.

    >>> class Pairs:
    ...     def bdp_epsilon(self, n, dp_epsilon):
    ...         return 2 * dp_epsilon
    >>> bayesian_epsilon(Pairs(), 10, 0.5)
    1.0
    """
    if math.isinf(pure_epsilon):
        return math.inf
    found = float(rows.bdp_epsilon(n, pure_epsilon))
    if not found >= 0:
        raise ValueError(
            f"rows: their Bayesian DP of a {pure_epsilon:g}-DP mechanism came out as {found:g}; it "
            "must be a number >= 0."
        )
    return found


def in_words(rows: DependentRows) -> str:
    """Name a law of rows: its kind, and its length where it has one."""
    length = getattr(rows, "length", None)
    return type(rows).__name__ + (f" of {length} rows" if length is not None else "")
