"""The worst-case epsilon of one exact draw, from declared bounds on examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gibbs_dp._cautions import Caution, Warned
from gibbs_dp.engine.datasets import reported_examples
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import GammaResult
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.information.checks import adjacency as check_adjacency
from gibbs_dp.privacy import pure_dp_epsilon
from gibbs_dp.results.table import Column, Style

OUTSIDE_DOMAIN = Caution(
    "outside-domain",
    "{outside} of {count} examples of the population lie outside the declared domain "
    "({share:.1%}); dp_epsilon, and bounds that take sigma from the domain, are false for them.",
    "Worst-case bounds are computed from the declared domain alone. They hold for data moved into "
    "it, as release() moves them; the other columns are of the examples as they were drawn.",
    "Declare a domain that holds every example, which raises dp_epsilon; or let the population "
    "clip its examples, with Domain.clip for a table.",
)


@dataclass(frozen=True)
class WorstCase(Quantity):
    """Pure differential privacy of an exact draw, for a whole group.

    Parameters
    ----------
    adjacency
        Which datasets are neighbours for ``dp_epsilon``, on the audit's ``domain``; without one,
        by what losses and posteriors promise themselves.

    Raises
    ------
    ValueError
        If there is no such adjacency.
    """

    adjacency: Adjacency = "replace-one"

    def __post_init__(self) -> None:
        check_adjacency(self.adjacency)

    name = "worst_case"
    columns = (
        Column(
            "dp_epsilon",
            "Worst-case pure-DP epsilon of one exact draw for replace-one neighbours, unless "
            "adjacency says add-remove (times the group size), on the declared domain; it says "
            "nothing about a chain's draws.",
            "nats",
            "DP eps",
            Style(
                "DP epsilon (worst case)",
                "#D55E00",
                "--",
                "s",
                absent="DP epsilon (worst case): no bound is known",
            ),
        ),
    )

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Epsilon, where the loss has constants on the domain."""
        s = result.settings
        epsilon = pure_dp_epsilon(
            s.posterior, result.gamma, s.n, s.domain, adjacency=self.adjacency
        )
        if epsilon is None:
            return {}, []
        whole = s.group_size * epsilon
        return {"dp_epsilon": whole if math.isfinite(whole) else math.inf}, []

    def cautions(self, settings: AuditSpec) -> list[Warned]:
        """Compare the population with the declared domain; with some examples of it."""
        if settings.domain is None:
            return []
        count = outside = 0
        for examples in reported_examples(settings):
            try:
                found = settings.domain.is_outside(examples)
            except ValueError:
                return []  # a structure that the bounds do not describe
            count, outside = count + found.size, outside + int(found.sum())
        if not outside:
            return []
        return [OUTSIDE_DOMAIN(outside=outside, count=count, share=outside / count)]

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
        """Say what the epsilon is for, where there is a finite one."""
        if not any(math.isfinite(row.get("dp_epsilon", math.inf)) for row in rows):
            return []
        rest = "" if settings.is_exact else "; the chains' draws are approximate"
        return [
            f"dp_epsilon holds for one exact draw and {self.adjacency} neighbours on the declared "
            f"domain{rest}."
        ]

    def request(self, settings: AuditSpec) -> list[Any]:
        """Return the domain, and what losses and posteriors promise on it."""
        s, sensitivity = settings, settings.posterior.sensitivity
        epsilon = pure_dp_epsilon(s.posterior, 1.0, s.n, s.domain, adjacency=self.adjacency)
        found = [
            repr(s.domain),
            None if sensitivity is None else float(sensitivity(s.n)),
            None if epsilon is None else float(epsilon),
        ]
        # Stores that are older than the choice know of replace-one alone.
        return found if self.adjacency == "replace-one" else [*found, self.adjacency]

    def settings(self) -> dict[str, Any]:
        """Show the adjacency."""
        return {"adjacency": self.adjacency}
