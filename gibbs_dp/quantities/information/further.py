"""The quantity of further information: what is asked for, and its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gibbs_dp._cautions import Warned
from gibbs_dp.engine.asked import Asked
from gibbs_dp.engine.explored import Explored
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.result import Result
from gibbs_dp.privacy.constants import declared_range
from gibbs_dp.quantities.information.columns import COLUMNS, ORDERS
from gibbs_dp.quantities.information.found import Further, find_further
from gibbs_dp.quantities.information.names import DEFAULT
from gibbs_dp.quantities.information.row import Scales, further_row
from gibbs_dp.quantities.mutual_information import MutualInformation

_MUTUAL = MutualInformation()


@dataclass(frozen=True)
class FurtherInformation(Quantity):
    """Alpha-, T- and conditional information, leakage and membership, each on request.

    Parameters
    ----------
    names
        Kinds of information that are asked for.
    mutual
        Keeps the draws, and knows the subgaussian parameter.
    """

    names: tuple[str, ...] = DEFAULT
    mutual: MutualInformation = field(default=_MUTUAL)

    name = "further_information"
    columns = COLUMNS

    @property
    def asked(self) -> tuple[str, ...]:
        """What is asked for beside mutual information."""
        return tuple(name for name in self.names if name != "mutual")

    def explore(self, sweep: Explored) -> list[Further | None]:
        """Compare the datasets at every gamma."""
        if not self.asked or self.mutual.num_datasets == 0:
            return [None] * len(sweep.results)
        return find_further(sweep, self.mutual.num_datasets, self.asked)

    def finish(self, result: Result, row: Row) -> tuple[Row, list[Warned]]:
        """Bounds, and what they say of the generalization error."""
        if not self.asked:
            return {}, []
        found: Further | None = result.found.get(self.name)
        scales = self._scales(result)
        return further_row(result, row, found, self.asked, scales), []

    def _scales(self, result: Result) -> Scales:
        settings = result.settings
        information = result.found.get(self.mutual.name)
        sigma = None
        if information is not None and not settings.population.is_dependent:
            known = self.mutual.subgaussian_sigma(settings, information)
            # These bounds need every s, which a subexponential loss does not have.
            if known is not None and known.b is None and not settings.posterior.structured:
                sigma = known.sigma
        limits = declared_range(settings.posterior, self.mutual.domain)
        return Scales(sigma, None if limits is None else limits[1] - limits[0])

    def notes(self, settings: Asked, rows: Sequence[Row]) -> list[str]:
        """Say why a column is absent."""
        found = []
        for a in ORDERS:
            lower, upper = (f"alpha_information_{a}_{end}" for end in ("lower", "upper"))
            missing = [f"{r['gamma']:g}" for r in rows if lower in r and upper not in r]
            if missing:
                found.append(
                    f"{upper} is absent at gamma={', '.join(missing)}: too few datasets for so "
                    "much information; raise num_information."
                )
        if "conditional" in self.asked and settings.group_size != 1:
            found.append(
                "conditional_information_upper is absent: it is of single examples replaced; pass "
                "group_size=1."
            )
        wanted = "membership" in self.asked and self.mutual.num_datasets > 0
        if wanted and not any("membership_advantage_lower" in row for row in rows):
            found.append(
                "membership is absent: it needs independent examples and a loss that is a sum "
                "over them."
            )
        return found

    def request(self, settings: Asked) -> list[str]:
        """Return the names."""
        del settings
        return list(self.names)

    def settings(self) -> dict[str, Any]:
        """Return the names."""
        return {"information": list(self.names)}
