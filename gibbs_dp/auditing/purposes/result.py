"""The gamma of a purpose, with its error bar, its curve, and what it may be warned of."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from gibbs_dp._cautions import Caution
from gibbs_dp.results.table import (
    MOST_LINES,
    Heading,
    TextTable,
    block,
    counted,
    remarks,
    with_error,
)

if TYPE_CHECKING:
    import pandas as pd

# Two-sided, of 95%.
Z = 1.96

MINIMUM_AT_END = Caution(
    "minimum-at-end",
    "the {what} is least at gamma={gamma:.4g}, an end of the gammas looked at ({low:.4g} to "
    "{high:.4g}): the least of all may lie beyond.",
    "No minimum was enclosed. For many models the risk goes on falling, ever less, as gamma grows.",
    "Look at the curve; give gammas=(low, ..., high) that reach further. Where the curve is level "
    "there, the smallest gamma that is not told from the best is as good and more private: "
    "gamma_low.",
)
NEAR_CERTAINTY = Caution(
    "near-certainty",
    "an advantage of {value:.5g} ± {value_se:.2g} is so near 1 that a few pairs of examples decide "
    "how near: gamma={gamma:.4g} may be far off.",
    "Nearly all pairs of posteriors are told apart without doubt. What is left rests on the few "
    "that are alike, too few for a standard error to be believed.",
    "Give a smaller attack_advantage, or raise num_datasets until 1 - attack_advantage is many "
    "standard errors.",
)
FLAT_CURVE = Caution(
    "flat-curve",
    "the {what} hardly depends on gamma around {gamma:.4g}, within its errors; gammas from "
    "{low:.4g} to {high:.4g} are not told from each other.",
    "The curve is level, or too noisy to see where it bends: gamma has no error bar but a range.",
    "Raise num_datasets. If the range matters little, take the end of it that is more private: the "
    "smallest gamma.",
)


class CurvePoint(NamedTuple):
    """An estimate at one gamma, and its standard error over datasets."""

    gamma: float
    value: float
    se: float


TITLES = {
    "attack_advantage": "on-average advantage of the best attacker",
    "population_risk": "population risk",
    "coverage": "coverage of predictive intervals",
    "certificate": "certified risk",
}
NOTES = {
    "attack_advantage": "an average over the population is no guarantee for any person.",
    "population_risk": "an average over datasets; the least gamma of one dataset may differ.",
    "coverage": "an average over datasets and fresh examples; single datasets are above and below.",
    "certificate": "it holds at all gammas of the grid at once, so that the best may be taken.",
}


@dataclass(frozen=True)
class PurposeCalibration:
    """The gamma of a purpose, as well as it is known.

    Parameters
    ----------
    purpose
        "attack_advantage", "population_risk", "coverage" or "certificate".
    gamma, gamma_se
        Inverse temperature and its standard error to first order; NaN where a least gamma is not
        resolved, and 0 for a certificate, whose grid is fixed.
    gamma_low, gamma_high
        95% interval of gamma. Where a least gamma is not resolved: the gammas looked at whose risk
        is not told from the least one's. For a certificate: the neighbours on its grid.
    value, value_se
        The quantity of the purpose there: an advantage or a coverage (probabilities), a risk or a
        certified risk (units of the loss); its standard error over datasets.
    curve
        The quantity at every gamma that was looked at.
    warnings
        Of everything on the way.
    detail
        The last audit's `gibbs_dp.Report`, the `gibbs_dp.Certificate`, or None.
    """

    purpose: str
    gamma: float
    gamma_se: float
    gamma_low: float
    gamma_high: float
    value: float
    value_se: float
    curve: tuple[CurvePoint, ...] = field(repr=False)
    warnings: tuple[str, ...]
    detail: Any = field(default=None, repr=False)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the curve, indexed by gamma."""
        import pandas as pd  # slow to import

        return pd.DataFrame(list(self.curve)).set_index("gamma")

    def __repr__(self) -> str:
        told = f", {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        return f"PurposeCalibration({self._head()}{told})"

    def _repr_html_(self) -> str:
        named = [("WARNING", text) for text in self.warnings]
        named.append(("note", NOTES[self.purpose]))
        headings = [Heading(name) for name in ("gamma", TITLES[self.purpose])]
        rows = [[f"{p.gamma:.4g}", _told(p.value, p.se)] for p in self.curve[:MOST_LINES]]
        hidden = len(self.curve) - MOST_LINES
        table = TextTable(headings, rows, hidden, "gammas")
        return block(self._head(), remarks(named), table)

    def _head(self) -> str:
        if math.isfinite(self.gamma_se) and self.gamma_se > 0:
            gamma = with_error(self.gamma, self.gamma_se)
        else:
            gamma = f"{self.gamma:.4g} (between {self.gamma_low:.4g} and {self.gamma_high:.4g})"
        return f"gamma={gamma}, {TITLES[self.purpose]} {_told(self.value, self.value_se)}"


def _told(value: float, se: float) -> str:
    return with_error(value, se) if se > 0 else f"{value:.4g}"


def interval(gamma: float, gamma_se: float) -> tuple[float, float]:
    """95% interval of gamma on a logarithmic scale.

    >>> [round(end, 3) for end in interval(1.0, 0.1)]
    [0.822, 1.217]
    """
    factor = math.exp(min(Z * gamma_se / gamma, 700.0))
    return gamma / factor, gamma * factor
