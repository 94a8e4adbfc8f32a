"""Losses of draws: on training examples, on fresh ones, and the gap between the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp import estimators
from gibbs_dp._cautions import Caution, Warned
from gibbs_dp.engine.plan import AuditSpec
from gibbs_dp.engine.quantity import Quantity, Row
from gibbs_dp.engine.view import GammaResult, View
from gibbs_dp.quantities.kl_estimators import fitted_gap
from gibbs_dp.results.table import Column, Style

# A single dataset that carries this share of a sum makes its standard error meaningless.
DOMINANT_SHARE = 0.4
MIN_DATASETS_TO_JUDGE = 256

DOMINANT_DATASET = Caution(
    "dominant-dataset",
    "one dataset carries {share:.0%} of the generalization error's variance: its standard error "
    "cannot be trusted; the gap may have infinite variance here.",
    "A single dataset among hundreds decides the average: further datasets may change it by much "
    "more than the standard error says.",
    "Heavy-tailed data or an unbounded loss do this: bound the loss (gdp.losses.huber), clip the "
    "data, give a prior that keeps parameters in reach, or report on_average_kl, which need not "
    "share the problem.",
)


class RiskValues(NamedTuple):
    """Of each dataset: the gap less its control variate, that of mean zero, and mean losses."""

    generalization: Float[Any, "*b"]
    control: Float[Any, "*b"]
    empirical: Float[Any, "*b"]
    population: Float[Any, "*b"]
    excess: Float[Any, "*b"]


@dataclass(frozen=True)
class Risks(Quantity):
    """Generalization error and risks of a draw, in units of the loss."""

    name = "risks"
    Values = RiskValues
    needs_optimum = True
    columns = (
        Column(
            "generalization_error",
            "Mean loss of a draw on a fresh example minus that on a training example.",
            "loss",
            "gen. error",
            Style("generalization error", "#009E73", "-", "o", "generalization"),
        ),
        Column(
            "empirical_risk",
            "Mean loss of a draw on its training examples (structured loss: on the dataset).",
            "loss",
            "emp. risk",
            Style(
                "risk on training examples", "#CC79A7", "--", "v", "risk", instead_of="excess_risk"
            ),
        ),
        Column(
            "population_risk",
            "Mean loss of a draw on fresh examples (structured loss: on a fresh dataset).",
            "loss",
            style=Style(
                "risk on fresh examples", "#009E73", "-", "^", "risk", instead_of="excess_risk"
            ),
        ),
        Column(
            "excess_risk",
            "Population risk minus that of the best parameter of the population.",
            "loss",
            "excess risk",
            Style("excess risk", "#009E73", "-", "^", "risk"),
        ),
    )

    def per_dataset(self, view: View) -> RiskValues:
        """Average the losses of one dataset's draws."""
        losses, weight = view.losses, view.draws.weight
        control = estimators.reference_gap(*losses.reference)
        of_mean = losses.mean[..., None]
        population = estimators.risk(losses.population, weight)
        return RiskValues(
            generalization=estimators.gap(of_mean, losses.ghost, weight) - control,
            control=control,
            empirical=estimators.risk(of_mean, weight),
            population=population,
            excess=population - jnp.mean(losses.optimum),
        )

    def fitted(self, values: RiskValues, is_kept: Bool[np.ndarray, " datasets"]) -> RiskValues:
        """Give back what of the control variate does not reduce noise."""
        gap = fitted_gap(values.generalization, values.control, is_kept)
        return values._replace(generalization=gap)

    def means(self, result: GammaResult) -> dict[str, Float[np.ndarray, " datasets"]]:
        """All four."""
        values: RiskValues = result.summary.values.risks
        return {
            "generalization_error": values.generalization,
            "empirical_risk": values.empirical,
            "population_risk": values.population,
            "excess_risk": values.excess,
        }

    def finish(self, result: GammaResult, row: Row) -> tuple[Row, list[Warned]]:
        """Say where one dataset carries the gap's variance."""
        share = _dominant_share(result.good.values.risks.generalization)
        if share <= DOMINANT_SHARE:
            return {}, []
        return {}, [DOMINANT_DATASET(share=share)]

    def notes(self, settings: AuditSpec, rows: Sequence[Row]) -> list[str]:
        """Say why a risk is absent."""
        if all("excess_risk" in row for row in rows):
            return []
        return ["excess_risk is absent: no best parameter of the population was found."]


def _dominant_share(values: Float[np.ndarray, " datasets"]) -> float:
    """Largest share of one dataset in the variance of the gap, once datasets are many."""
    gap = np.asarray(values, np.float64)
    gap = gap[np.isfinite(gap)]
    if gap.shape[0] < MIN_DATASETS_TO_JUDGE:
        return 0.0
    squares = (gap - gap.mean()) ** 2
    return float(squares.max() / max(squares.sum(), 1e-300))
